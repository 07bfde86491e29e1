"""Tools and looks of the first toolsets through real workers: pictures inside results, files as they came in."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from orion.artifacts import Artifact, ArtifactStore
from orion.errors import ToolFailed, ToolRetry
from orion.media import intake, open_image
from orion.tools import as_tool
from orion.toolsets import document, image
from orion.toolsets.deskewing import skew
from orion.worker import WorkerPool
from tests import pictures

SHARED = Path(__file__).resolve().parents[2] / "shared" / "samples"
needs_samples = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared samples are not here")
SECONDS = 120.0
NOTE = pictures.paper(
    ["#Delivery note 5512", "Received in good order by the night shift", "Fourteen boxes, Bay 7, row C"]
)


class Border:
    """A store and a worker; `call` runs a tool on artifacts as a run does."""

    def __init__(self, folder: Path, workers: WorkerPool) -> None:
        self.store, self.workers, self.folder = ArtifactStore(folder / "store"), workers, folder

    async def add(self, source: Any) -> Artifact:
        return await intake(source, self.store, self.workers)

    async def call(self, function: Callable[..., Any], artifact: Artifact, **arguments: Any) -> dict[str, Any]:
        made = as_tool(function)
        (param, *_others) = made.params()
        files = {
            artifact.id: {
                "path": str(self.store.path(artifact.id)),
                "original": str(self.store.original_path(artifact.id)),
                "artifact": artifact.model_dump(mode="json"),
            }
        }
        bound = made.bind({param.name: artifact.id, **arguments}, {artifact.id: artifact.kind}, {})
        scratch = self.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        payload = {"target": made.target, "arguments": bound, "files": files, "scratch": str(scratch)}
        answer: dict[str, Any] = await self.workers.call("orion.marshal:run_call", payload, seconds=SECONDS)
        return answer

    def picture(self, answer: dict[str, Any]) -> Image.Image:
        """The only image a call made."""
        (file,) = answer["files"]
        return open_image(file["path"])

    async def look(self, module: str, artifact: Artifact, text_only: bool = True) -> dict[str, Any]:
        original = str(self.store.original_path(artifact.id))
        payload = {
            "target": f"orion.toolsets.{module}:look",
            "path": str(self.store.path(artifact.id)),
            "meta": {**artifact.meta, "media_type": artifact.media_type, "original": original},
            "budget_chars": 4000,
            "text_only": text_only,
        }
        answer: dict[str, Any] = await self.workers.call("orion.marshal:run_look", payload, seconds=SECONDS)
        return answer


def at_the_border(tmp_path: Path, scene: Callable[[Border], Awaitable[None]]) -> None:
    async def play() -> None:
        async with WorkerPool(size=1) as workers:
            await scene(Border(tmp_path, workers))

    asyncio.run(play())


def test_deskewed_image_and_angle_come_back(tmp_path: Path) -> None:
    async def scene(border: Border) -> None:
        askew = await border.add(pictures.scanned(NOTE, seed=4, skew=3.4))
        answer = await border.call(image.deskew, askew)
        assert answer["value"]["degrees"] == pytest.approx(-3.4, abs=0.3)
        assert abs(skew(border.picture(answer), 15)) <= 0.3
        (file,) = answer["files"]
        assert file["parent"] == askew.id
        assert len(file["transform"]) == 6
        assert (file["width"], file["height"]) == border.picture(answer).size

    at_the_border(tmp_path, scene)


def test_upright_image_and_turn_come_back(tmp_path: Path) -> None:
    async def scene(border: Border) -> None:
        lying = await border.add(NOTE.rotate(90, expand=True))
        answer = await border.call(image.correct_orientation, lying)
        assert answer["value"]["degrees"] == 270
        assert border.picture(answer).convert("L").tobytes() == NOTE.convert("L").tobytes()
        assert '"degrees":270' in answer["text"]

    at_the_border(tmp_path, scene)


def test_frames_of_a_tiff_and_of_an_animation(tmp_path: Path) -> None:
    pages = [
        pictures.paper([f"#Sheet {name}", "of the harbour survey"]) for name in ("ALPHA", "BRAVO", "DELTA", "KILO")
    ]
    data, moving = pictures.tiff(pages), io.BytesIO()
    frames = [Image.new("RGB", (40, 30), colour) for colour in ("red", "lime", "blue")]
    frames[0].save(moving, "GIF", save_all=True, append_images=frames[1:])

    async def scene(border: Border) -> None:
        tiff = await border.add(data)
        third = border.picture(await border.call(image.open_frame, tiff, frame=3))
        there = Image.open(io.BytesIO(data))
        there.seek(2)
        assert third.convert("L").tobytes() == there.convert("L").tobytes()
        with pytest.raises(ToolRetry, match="there is no frame 5: the image has 4 frames"):
            await border.call(image.open_frame, tiff, frame=5)
        seen = await border.look("image_look", tiff)
        for number, name in enumerate(("ALPHA", "BRAVO", "DELTA"), 1):
            assert f"page {number}:\nSheet {name}" in seen["text"]
        assert "KILO" not in seen["text"]
        assert seen["text"].endswith(
            "[4 pages; pages 1 to 3 are shown; open_frame(image, frame=N) opens one as an image]"
        )
        assert seen["whole"] is False
        assert "open_frame" not in seen["covers"]
        gif = await border.add(moving.getvalue())
        last = border.picture(await border.call(image.open_frame, gif, frame=3))
        assert last.convert("RGB").getpixel((20, 15)) == (0, 0, 255)
        assert "[3 frames; only frame 1 is shown" in (await border.look("image_look", gif, text_only=False))["text"]
        plain = await border.add(NOTE)
        with pytest.raises(ToolRetry, match=r"the image has 1 frame$"):
            await border.call(image.open_frame, plain, frame=2)
        single = await border.look("image_look", plain)
        assert "open_frame" in single["covers"]
        assert single["whole"] is True

    at_the_border(tmp_path, scene)


def test_a_damaged_further_page_does_not_hide_the_first(tmp_path: Path) -> None:
    data = pictures.tiff([pictures.paper(["#Sheet ALPHA"]), pictures.paper(["#Sheet BRAVO"])])

    async def scene(border: Border) -> None:
        artifact = await border.add(data)
        original = border.store.original_path(artifact.id)
        whole = Image.open(io.BytesIO(data))
        whole.seek(1)
        offset, length = whole.tag_v2[273][0], whole.tag_v2[279][0]  # StripOffsets, StripByteCounts
        original.chmod(0o600)
        original.write_bytes(data[:offset] + b"\xff" * length + data[offset + length :])
        seen = await border.look("image_look", artifact)
        assert "Sheet ALPHA" in seen["text"]
        assert "Sheet BRAVO" not in seen["text"]

    at_the_border(tmp_path, scene)


@needs_samples
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("minutes.docx", "Word file (docx)"),
        ("stock.xlsx", "Excel file (xlsx)"),
        ("review.pptx", "PowerPoint file (pptx)"),
    ],
)
def test_office_files_are_named_and_not_taken_for_pdf(tmp_path: Path, name: str, kind: str) -> None:
    async def scene(border: Border) -> None:
        artifact = await border.add(SHARED / name)
        assert artifact.kind == "document"
        with pytest.raises(ToolFailed, match=rf"^{re.escape(kind)}, which this version .* saved as PDF can be read$"):
            await border.look("document_look", artifact)
        tools = [function for function in document.TOOLSET.tools if function is not document.find_text]
        for function in tools:
            with pytest.raises(ToolFailed, match=rf"this is a {kind.split()[0]} file"):
                await border.call(function, artifact)
        with pytest.raises(ToolFailed, match="saved as PDF"):
            await border.call(document.find_text, artifact, query="a")

    at_the_border(tmp_path, scene)


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        (
            "note.txt",
            "The meeting is on Monday.\r\nBring café.".encode(),
            "text, 37 characters:\nThe meeting is on Monday.\nBring café.",
        ),
        ("note.txt", "Grüße".encode("cp1252"), "text, 5 characters:\nGrüße"),
        ("note.txt", "Grüße aus Łódź".encode("utf-16"), "text, 14 characters:\nGrüße aus Łódź"),
        ("a.json", b'{"total": 7}', 'JSON, 12 characters:\n{"total": 7}'),
        ("a.md", b"# Title\n\nWords", "Markdown, 14 characters:\n# Title\n\nWords"),
        (
            "a.csv",
            "\ufeffware;betrag\nA;1,50\nB;2,25\n".encode(),
            "CSV, 26 characters:\nware;betrag\nA;1,50\nB;2,25\ncolumn sums: betrag 3.75",
        ),
    ],
)
def test_text_files_are_shown(tmp_path: Path, name: str, data: bytes, expected: str) -> None:
    (tmp_path / name).write_bytes(data)

    async def scene(border: Border) -> None:
        artifact = await border.add(tmp_path / name)
        assert artifact.kind == "file"
        seen = await border.look("core", artifact)
        assert seen == {"text": expected, "covers": ["read_more"], "whole": True}

    at_the_border(tmp_path, scene)


def test_a_long_text_file_is_read_on(tmp_path: Path) -> None:
    from orion.toolsets import core

    text = "".join(f"Entry {at} of the log\n" for at in range(1000))
    (tmp_path / "log.txt").write_text(text)

    async def scene(border: Border) -> None:
        artifact = await border.add(tmp_path / "log.txt")
        seen = await border.look("core", artifact)
        assert (seen["covers"], seen["whole"]) == ([], False)
        shown, _, rest = seen["text"].removeprefix(f"text, {len(text)} characters:\n").rpartition("\n")
        start = int(rest.partition("start=")[2].rstrip(")]"))
        assert text.startswith(shown)
        more = await border.call(core.read_more, artifact, start=start, length=20_000)
        assert f"{shown}\n{more['text']}".startswith(text)

    at_the_border(tmp_path, scene)


def test_archives_are_named(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.txt", "hello")

    async def scene(border: Border) -> None:
        with pytest.raises(ToolFailed, match=r"^ZIP archive, which this version of Orion cannot read$"):
            await border.look("core", await border.add(tmp_path / "a.zip"))

    at_the_border(tmp_path, scene)
