"""The tool border: what may come back from a tool, and what becomes of it in the run."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pydantic import BaseModel

from orion.artifacts import Artifact
from orion.errors import MediaError, ToolFailed, ToolRetry
from orion.marshal import MARK, dump, load
from orion.run import Observation
from orion.scripted import ScriptedModel
from orion.toolrun import RESULT_CHARS, VALUE_BYTES, keep, run_tool
from orion.tools import AnyFile, ToolContext, Toolset, as_tool, tool
from orion.worker import WorkerPool
from tests.scenes import NOTE, act, attach, final, job_of, play


@tool(empty="Nothing like {query} on page {page}.")
def search(query: str, page: int = 1) -> list[str]:
    """Search."""
    return [query] * page


class Plain(BaseModel):
    name: str
    size: float | None = None


class Shown(BaseModel):
    picture: Any
    words: str = "a find"

    def for_model(self) -> str:
        return self.words


class Stubborn(BaseModel):
    def for_model(self) -> Any:
        return None


def dumped(value: Any, scratch: Path) -> dict[str, Any]:
    made = dump(as_tool(search), value, {"query": "x"}, scratch)
    json.dumps(made["value"], allow_nan=False)
    return made


@pytest.mark.parametrize(
    ("value", "text", "plain"),
    [
        ("as it is\n", "as it is\n", "as it is\n"),
        ("", "", ""),
        (None, "Done; there is no result.", None),
        (True, "true", True),
        (12, "12", 12),
        (0.1, "0.1", 0.1),
        (np.int64(7), "7", 7),
        (np.float32(0.5), "0.5", 0.5),
        (np.bool_(True), "true", True),
        (np.array(3), "3", 3),
        (Decimal("1.25"), "1.25", 1.25),
        (Fraction(1, 4), "0.25", 0.25),
        ([1, "a", None], "- 1\n- a\n- Done; there is no result.", [1, "a", None]),
        ((1, 2), "- 1\n- 2", [1, 2]),
        ([], "Nothing like x on page 1.", []),
        ((), "Nothing like x on page 1.", []),
        ({"a": 1, 2: "b"}, '{"a":1,"2":"b"}', {"a": 1, "2": "b"}),
        ({}, "{}", {}),
        (Plain(name="é", size=2), '{"name":"é","size":2.0}', {"name": "é", "size": 2.0}),
        ([Plain(name="a")], '- {"name":"a","size":null}', [{"name": "a", "size": None}]),
        (Shown(picture=None), "a find", {"picture": None, "words": "a find"}),
    ],
    ids=repr,
)
def test_values_become_text_and_json(value: Any, text: str, plain: Any, tmp_path: Path) -> None:
    assert dumped(value, tmp_path) == {"text": text, "value": plain, "files": []}


def test_an_empty_list_of_a_tool_without_words_for_it(tmp_path: Path) -> None:
    def hunt() -> list[str]:
        """Hunt."""
        return []

    assert dump(as_tool(hunt), [], {}, tmp_path)["text"] == "hunt found nothing."


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "not a finite number"),
        ([1.0, float("inf")], "not a finite number"),
        (np.float64("nan"), "not a finite number"),
        (Decimal("NaN"), "not a finite number"),
        (1 + 2j, "not a finite number"),
        (object(), "the tool returned a object"),
        (b"bytes", "the tool returned a bytes"),
        (bytearray(b"x"), "the tool returned a bytearray"),
        ({1, 2}, "the tool returned a set"),
        (np.zeros(3), "the tool returned a ndarray"),
        ([lambda: 1], "the tool returned a function"),
        (Path("no/such.txt"), "the path 'such.txt', which is no file"),
        (Path("."), "which is no file"),
    ],
    ids=repr,
)
def test_what_no_tool_may_return(value: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ToolFailed) as caught:
        dumped(value, tmp_path)
    assert message in str(caught.value)


def test_a_picture_is_stored_once_however_often_it_is_named(tmp_path: Path) -> None:
    picture = Image.new("RGB", (30, 20), "red")
    made = dumped([picture, {"again": picture}, Shown(picture=picture)], tmp_path)
    assert len(made["files"]) == 1
    mark = MARK.format(0)
    line = f"{mark} (image, 30x20 px)"
    assert made["text"] == f'- {line}\n- {{"again":"{mark}"}}\n- a find\n{line}'
    assert made["value"] == [mark, {"again": mark}, {"picture": mark, "words": "a find"}]
    with Image.open(made["files"][0]["path"]) as stored:
        assert (stored.size, stored.getpixel((0, 0))) == ((30, 20), (255, 0, 0))


def test_paths_become_files_of_their_kind(tmp_path: Path) -> None:
    source, scratch = tmp_path / "note.txt", tmp_path / "scratch"
    scratch.mkdir()
    source.write_bytes(NOTE)
    made = dumped(source, scratch)
    (file,) = made["files"]
    assert made["text"] == f"{MARK.format(0)} (file note.txt)"
    assert (file["kind"], file["name"]) == ("file", "note.txt")
    assert Path(file["path"]).read_bytes() == source.read_bytes() == NOTE


def test_ids_become_what_the_function_takes(tmp_path: Path) -> None:
    def see(
        image: Image.Image, more: list[Image.Image], file: AnyFile, record: Artifact, spot: Plain, n: int = 3
    ) -> str:
        """See."""
        return ""

    path = tmp_path / "a.png"
    Image.new("L", (4, 3)).save(path)
    record = Artifact(id="img_1", kind="image", media_type="image/png", size=1, sha256="")
    files = {"img_1": {"path": str(path), "artifact": record.model_dump(mode="json")}}
    arguments = {"image": "img_1", "more": ["img_1"], "file": "img_1", "record": "img_1", "spot": {"name": "n"}}
    values = load(as_tool(see), arguments, files)
    assert values["image"].size == values["more"][0].size == (4, 3)
    assert (values["file"], values["record"], values["spot"]) == (path, record, Plain(name="n"))
    assert "n" not in values


# ---- the run's side: toolrun ------------------------------------------------------------------------------------


def observe(
    function: Callable[..., Any], folder: Path, arguments: dict[str, Any] | None = None, **limits: Any
) -> Observation:
    async def main() -> Observation:
        with job_of(folder, tools=[function], **limits) as job:
            return await run_tool(job, as_tool(function), arguments or {})

    return asyncio.run(main())


def test_a_long_result_is_cut_at_a_line_and_kept_whole(tmp_path: Path) -> None:
    def speak() -> str:
        """Speak."""
        return "\n".join(f"line {number}" for number in range(1000))

    whole = speak()
    with job_of(tmp_path, tools=[speak], observation_chars=500) as job:
        seen = asyncio.run(run_tool(job, as_tool(speak), {}))
        (id_,) = seen.artifacts
        shown, note = seen.text.rsplit("\n", 1)
        assert whole.startswith(shown + "\n")
        assert 250 <= len(shown) <= 500
        assert note == f"[{len(whole) - len(shown)} more characters: read_more(file={id_}, start={len(shown)})]"
        assert job.store.read(id_).decode() == whole
        assert job.artifacts[id_].media_type == "text/plain"
        assert seen.show == []
        assert seen.value == whole


def test_read_more_reads_what_was_cut(tmp_path: Path) -> None:
    """The note's own arguments work: the model sees the rest, in a worker process."""

    def speak() -> str:
        """Speak."""
        return "x" * 3000 + " the end"

    class Reader(ScriptedModel):
        async def complete(self, ask: Any, **more: Any) -> Any:
            if len(self.asks) == 1:
                said = ask.messages[-1].body.decode()
                id_ = said.split("file=")[1].split(",")[0]
                start = int(said.split("start=")[1].split(")")[0])
                self._replies = iter([act("read_more", file=id_, start=start, length=20_000), final("ok")])
            return await super().complete(ask, **more)

    played = play(Reader([act("speak")]), tmp_path, tools=[speak], observation_chars=3000)
    seen = played.run.steps[1].observations[0]
    assert (seen.error, played.run.output) == (None, "ok")
    assert "the end\n[end of the text]" in seen.text
    cut_at = 3000
    assert seen.text.startswith(("x" * 3000 + " the end")[cut_at:])


def test_an_image_knows_where_it_was_cut_from(tmp_path: Path) -> None:
    def corner(image: Image.Image) -> Image.Image:
        """Cut."""
        piece = image.crop((10, 20, 40, 50))
        piece.info["transform"] = (1, 0, 10, 0, 1, 20)
        return piece

    def blend(image: Image.Image, other: Image.Image) -> Image.Image:
        """Mix."""
        return Image.blend(image, other.resize(image.size), 0.5)

    with job_of(tmp_path, tools=[corner, blend]) as job:
        path = tmp_path / "page.png"
        Image.linear_gradient("L").resize((100, 80)).save(path)
        page = attach(job, path.read_bytes(), "image", "page.png", width=100, height=80)
        seen = asyncio.run(run_tool(job, as_tool(corner), {"image": page.id}))
        (id_,) = seen.artifacts
        made = job.artifacts[id_]
        assert (made.parent, made.transform, made.width, made.height) == (page.id, (1, 0, 10, 0, 1, 20), 30, 30)
        assert seen.text == f"{id_} (image, 30x30 px)"
        assert seen.show == [id_]
        assert seen.value == id_
        mixed = asyncio.run(run_tool(job, as_tool(blend), {"image": page.id, "other": id_}))
        assert job.artifacts[mixed.artifacts[0]].parent is None  # made from two


def test_values_too_large_for_programs_are_left_out(tmp_path: Path) -> None:
    def fill() -> list[str]:
        """Fill."""
        return ["x" * VALUE_BYTES]

    assert observe(fill, tmp_path, observation_chars=300).value is None


def test_a_hundred_megabytes_of_text_are_an_error(tmp_path: Path) -> None:
    def flood() -> str:
        """Flood."""
        return "x" * 100_000_000

    with pytest.raises(ToolFailed, match=f"100000000 characters, more than {RESULT_CHARS}"):
        observe(flood, tmp_path)


def test_half_characters_are_replaced(tmp_path: Path) -> None:
    def broken() -> list[str]:
        """Break."""
        return ["a\ud800b", "\ud83d\ude00"]

    seen = observe(broken, tmp_path)
    assert (seen.text, seen.value) == ("- a\ufffdb\n- \U0001f600", ["a\ufffdb", "\U0001f600"])


def test_a_transform_that_is_none_is_the_tools_failure(tmp_path: Path) -> None:
    def askew() -> Image.Image:
        """Turn."""
        picture = Image.new("L", (30, 30))
        picture.info["transform"] = "sideways"
        return picture

    with pytest.raises(ToolFailed, match="cannot be kept"):
        observe(askew, tmp_path)


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"text": None, "value": None, "files": []},
        {"text": "", "value": None, "files": [{}]},
        {"text": "", "value": None, "files": [{"path": "../../etc/passwd", "kind": "file", "media_type": "x"}]},
        {"text": "", "value": None, "files": [{"path": "link", "kind": "file", "media_type": "x"}]},
        {"text": "", "value": None, "files": [{"path": "ok", "kind": "sorcery", "media_type": "x"}]},
        {"text": "", "value": None, "files": [{"path": "ok", "kind": "image", "media_type": "x", "parent": 5}]},
    ],
    ids=str,
)
def test_a_worker_that_was_taken_over_gets_nothing_in(raw: dict[str, Any], tmp_path: Path) -> None:
    """Its answer is checked: a link or a path elsewhere never becomes an artifact."""

    class Taken(WorkerPool):
        async def call(self, target: str, payload: Any, *, seconds: float) -> dict[str, Any]:
            scratch = Path(payload["scratch"])
            scratch.mkdir()
            (scratch / "link").symlink_to(__file__)
            (scratch / "ok").write_bytes(b"x")
            return raw

    async def main() -> None:
        with job_of(tmp_path, toolsets=["core"], workers=Taken()) as job:
            with pytest.raises(ToolFailed):
                await run_tool(job, job.tools["calculate"], {"expression": "1"})
            assert len(job.store) == 0

    asyncio.run(main())


def test_keep_puts_ids_for_marks_everywhere(tmp_path: Path) -> None:
    with job_of(tmp_path) as job, job.store.scratch() as scratch:
        (scratch / "a.txt").write_bytes(NOTE)
        file = {"path": str(scratch / "a.txt"), "kind": "file", "media_type": "text/plain"}
        mark = MARK.format(0)
        seen = keep(job, {"text": f"see {mark}", "value": {"at": [mark]}, "files": [file]}, scratch)
        (id_,) = seen.artifacts
        assert (seen.text, seen.value, seen.show) == (f"see {id_}", {"at": [id_]}, [])


def nothing() -> None:
    """Do nothing."""


def raises() -> str:
    """Raise."""
    raise ZeroDivisionError("by zero")


def raises_much() -> str:
    """Raise."""
    raise ValueError("\ud800" + "x" * 1_000_000)


def asks_again() -> str:
    """Raise."""
    raise ToolRetry("page 9 of 3")


def gives_up() -> str:
    """Raise."""
    raise ToolFailed("no text found")


def bad_media() -> str:
    """Raise."""
    raise MediaError("corrupt_file", "cut")


def hangs() -> str:
    """Hang."""
    time.sleep(30)
    return "late"


async def hangs_politely() -> str:
    """Hang."""
    await asyncio.sleep(30)
    return "late"


async def works_async(number: int) -> int:
    """Add one."""
    await asyncio.sleep(0)
    return number + 1


def counts(context: ToolContext, number: int) -> int:
    """Add the steps."""
    return number + len(context.run.steps)


def leaves() -> str:
    """Leave."""
    sys.exit(3)


def calculate_nothing() -> int:
    """Give nothing."""
    return 0


async def leaves_politely() -> str:
    """Leave."""
    sys.exit(3)


def runs_out() -> int:
    """Take the next of nothing."""
    return next(iter([]))


@pytest.mark.parametrize(
    ("function", "arguments", "error", "text"),
    [
        (nothing, {}, None, "Done; there is no result."),
        (raises, {}, "failed", "Error: raises failed: ZeroDivisionError: by zero"),
        (asks_again, {}, "retry", "Error: page 9 of 3"),
        (gives_up, {}, "failed", "Error: gives_up failed: no text found"),
        (bad_media, {}, "failed", "Error: bad_media failed: cut"),
        (hangs, {}, "timeout", "Error: hangs gave no result within 0.2 s; it was stopped."),
        (hangs_politely, {}, "timeout", "Error: hangs_politely gave no result within 0.2 s; it was stopped."),
        (works_async, {"number": "41"}, None, "42"),
        (counts, {"number": 1}, None, "2"),
        (leaves, {}, "failed", "Error: leaves failed: SystemExit: 3"),
        (leaves_politely, {}, "failed", "Error: leaves_politely failed: SystemExit: 3"),
        (runs_out, {}, "failed", "Error: runs_out failed: StopIteration: "),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_users_tool_may_do_anything_and_the_run_goes_on(
    function: Callable[..., Any], arguments: dict[str, Any], error: str | None, text: str, tmp_path: Path
) -> None:
    limit = 0.2 if "hangs" in function.__name__ else 20
    script = [act(function.__name__, **arguments), act("calculate_nothing"), final("done")]
    played = play(script, tmp_path, tools=[function, calculate_nothing], tool_seconds=limit)
    (seen,) = played.run.steps[0].observations
    assert (seen.error, seen.text, seen.tool) == (error, text, function.__name__)
    assert (played.run.stop, played.run.output) == ("answered", "done")
    assert text in json.loads(played.model.asks[1].messages[-1].body)["content"]


def test_words_of_an_error_are_bounded(tmp_path: Path) -> None:
    played = play([act("raises_much"), final("done")], tmp_path, tools=[raises_much], observation_chars=400)
    (seen,) = played.run.steps[0].observations
    assert len(seen.text) == 400
    assert seen.text.startswith("Error: raises_much failed: ValueError: \ufffdxxx")


WORKER_TOOLS = '''
"""Tools that misbehave, for a worker process."""
import os, time
from orion.errors import ToolRetry
from orion.tools import tool

def die() -> str:
    """Die."""
    os._exit(7)

def eat() -> str:
    """Eat."""
    return str(len(bytearray(9_000_000_000)))

@tool(seconds=1)
def sleep() -> str:
    """Sleep."""
    time.sleep(60)
    return "late"

def flood() -> str:
    """Flood."""
    return "x" * 100_000_000

def odd() -> list:
    """Odd."""
    return [b"bytes"]

def retry() -> str:
    """Retry."""
    raise ToolRetry("page 9 of 3")

def pid() -> int:
    """Tell the process."""
    return os.getpid()
'''


@pytest.fixture
def wild(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Toolset]:
    """A toolset in a module that only this test knows."""
    name = f"wild_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(WORKER_TOOLS)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = __import__(name)
    names = ("die", "eat", "sleep", "flood", "odd", "retry", "pid")
    yield Toolset("wild", "tools that misbehave", tuple(getattr(module, tool_name) for tool_name in names))
    del sys.modules[name]


def test_a_toolsets_tool_may_die_in_any_way_and_the_run_goes_on(wild: Toolset, tmp_path: Path) -> None:
    names = [as_tool(function).name for function in wild.tools]
    played = play(
        [*(act(name) for name in names), final("alive")], tmp_path, toolsets=["wild"], extra=[wild], seconds=120
    )
    seen = {step.turn.calls[0].tool: step.observations[0] for step in played.run.steps[:-1]}
    assert {name: observation.error for name, observation in seen.items()} == {
        "die": "failed",
        "eat": "failed",
        "sleep": "timeout",
        "flood": "failed",
        "odd": "failed",
        "retry": "retry",
        "pid": None,
    }
    assert seen["die"].text == "Error: die failed: the worker ended with exit code 7"
    assert "out of memory" in seen["eat"].text
    assert seen["sleep"].text == "Error: sleep gave no result within 1 s; it was stopped."
    assert "bytes" in seen["odd"].text
    assert seen["retry"].text == "Error: page 9 of 3"
    assert int(seen["pid"].text) != __import__("os").getpid()
    assert (played.run.stop, played.run.output) == ("answered", "alive")
