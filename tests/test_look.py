"""The first look: taken before the model is asked, within a budget, and never a reason to fail."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orion.events import Looked
from orion.job import Job
from orion.look import describe, look
from orion.tools import AnyFile, Toolset, tool
from orion.worker import WorkerPool
from tests.scenes import NOTE, act, attach, final, job_of, play

LOOKS = '''
"""Looks for a worker process."""
import time
from orion.errors import ToolFailed
from orion.tools import AnyFile, Look

def weigh(file: AnyFile) -> int:
    """Weigh."""
    return file.stat().st_size

def read(file: AnyFile) -> str:
    """Read."""
    return file.read_text()

def see(path, meta, budget_chars, text_only):
    text = path.read_text()
    if text.startswith("raise"):
        raise ToolFailed("it is damaged")
    if text.startswith("odd"):
        raise KeyError("odd")
    return Look(f"a recording; {text}; {budget_chars} chars; text only {text_only}; {meta['tone']}",
                covers=("weigh",), whole=text.startswith("all"))
'''


@pytest.fixture
def radio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Toolset]:
    """A toolset for audio whose look runs in a worker."""
    name = f"radio_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(LOOKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = __import__(name)
    yield Toolset("radio", "sounds", (module.weigh, module.read), media=("audio",), look=module.see)
    del sys.modules[name]


def looked(radio: Toolset, folder: Path, *texts: bytes, text_only: bool = True, **limits: Any) -> Job:
    async def main() -> Job:
        async with WorkerPool(2) as workers:
            with job_of(folder, extra=[radio], workers=workers, **limits) as job:
                for number, text in enumerate(texts):
                    attach(job, text, "audio", f"{number}.wav", meta={"tone": "high"})
                await look(job, text_only=text_only)
                return job

    return asyncio.run(main())


def test_each_medium_is_described_in_order_and_shares_the_budget(radio: Toolset, tmp_path: Path) -> None:
    job = looked(radio, tmp_path, b"all of one", b"part of two", text_only=False, look_tokens=1000)
    chars = int(1000 * job.model.profile.chars_per_token / 2)
    one, two = job.run.inputs
    assert [seen.text for seen in job.run.looks] == [
        f'{one} "0.wav": a recording; all of one; {chars} chars; text only False; high',
        f'{two} "1.wav": a recording; part of two; {chars} chars; text only False; high',
    ]
    assert [seen.tool for seen in job.run.looks] == ["radio.look"] * 2
    assert job.covered == {("weigh", one), ("weigh", two)}
    assert job.unread == {two}


@pytest.mark.parametrize(("text", "words"), [(b"raise it", "it is damaged"), (b"odd one", "KeyError: 'odd'")])
def test_a_look_that_fails_says_so_and_the_others_stand(
    text: bytes, words: str, radio: Toolset, tmp_path: Path
) -> None:
    job = looked(radio, tmp_path, text, b"all of two")
    bad, good = job.run.looks
    id_ = job.run.inputs[0]
    assert (bad.error, bad.text) == ("failed", f'{id_} "0.wav": audio. Its content could not be read: {words}')
    assert good.error is None
    assert job.unread == {id_}


@pytest.mark.parametrize(
    "raw", [{}, {"text": 5, "covers": [], "whole": True}, {"text": "", "covers": 5, "whole": True}], ids=str
)
def test_a_worker_that_was_taken_over(raw: dict[str, Any], radio: Toolset, tmp_path: Path) -> None:
    class Taken(WorkerPool):
        async def call(self, target: str, payload: Any, *, seconds: float) -> dict[str, Any]:
            return raw

    async def main() -> None:
        with job_of(tmp_path, extra=[radio], workers=Taken()) as job:
            attach(job, b"all", "audio", "a.wav")
            await look(job, text_only=True)
            assert [seen.error for seen in job.run.looks] == ["failed"]
            assert job.unread == set(job.run.inputs)

    asyncio.run(main())


def test_no_budget_no_look(radio: Toolset, tmp_path: Path) -> None:
    job = looked(radio, tmp_path, b"all of one", look_tokens=0)
    assert job.run.looks == []
    assert job.unread == set(job.run.inputs)


def test_a_kind_nobody_looks_at_is_named(radio: Toolset, tmp_path: Path) -> None:
    async def main() -> None:
        with job_of(tmp_path, extra=[radio]) as job:
            film = attach(job, b"film", "video", "a.mp4")
            await look(job, text_only=True)
            assert [seen.text for seen in job.run.looks] == [f'{film.id} "a.mp4": video']

    asyncio.run(main())


def test_a_look_that_needs_a_library_names_its_install_line(tmp_path: Path) -> None:
    @tool(needs=("no_such_module_x",), extra="audio")
    def hear(file: AnyFile) -> str:
        """Hear."""
        return str(file)

    async def main() -> None:
        deaf = Toolset("deaf", "sounds", (hear,), media=("audio",), look=lambda *_args: None)  # type: ignore[arg-type]
        with job_of(tmp_path, extra=[deaf]) as job:
            sound = attach(job, b"sound", "audio", None)
            await look(job, text_only=True)
            (seen,) = job.run.looks
            assert seen.error == "failed"
            assert seen.text == (
                f'{sound.id}: audio. Its content could not be read: run pip install "orion-visual-agent[audio]"'
            )

    asyncio.run(main())


def test_describe() -> None:
    from orion.artifacts import Artifact

    plain = Artifact(id="img_0a1b2c", kind="image", media_type="image/png", size=1, sha256="")
    assert describe(plain) == "img_0a1b2c: image"
    assert describe(plain.model_copy(update={"name": "a.png"})) == 'img_0a1b2c "a.png": image'


def test_a_run_begins_with_what_was_seen(tmp_path: Path) -> None:
    played = play([act("calculate", expression="1"), final("Monday")], tmp_path, prompt="When?", files=[NOTE])
    (seen,) = played.run.looks
    (id_,) = played.run.inputs
    assert seen.text.startswith(id_)
    assert "The meeting is on Monday." in seen.text
    assert [event.artifact_id for event in played.events if isinstance(event, Looked)] == [id_]
    system, first = (json.loads(message.body)["content"] for message in played.model.asks[0].messages)
    assert first.startswith(f"Observation:\n{seen.text}")
    assert first.endswith("Request: When?")
    assert id_ not in system


@pytest.mark.parametrize(("text_only", "unread"), [(False, 0), (True, 1)])
def test_an_image_that_the_model_sees_is_read(text_only: bool, unread: int, tmp_path: Path) -> None:
    async def main() -> None:
        with job_of(tmp_path, look_tokens=0) as job:
            attach(job, b"png", "image", "a.png", width=1, height=1)
            await look(job, text_only=text_only)
            assert len(job.unread) == unread

    asyncio.run(main())
