"""The trace: it tells the whole run, survives being cut, and replays without a model."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from orion.api import Orion
from orion.errors import MediaError, ModelBroke, UserError
from orion.events import Finished
from orion.run import Run
from orion.scripted import ScriptedModel
from orion.trace import TraceWriter, read_replies, read_trace
from orion.wire import Reply
from tests.scenes import NOTE, Played, act, cut, final, play


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def paint(shade: int) -> Image.Image:
    """Paint."""
    return Image.linear_gradient("L").resize((300, 200)).point(lambda value: value ^ shade)


def much() -> str:
    """Talk."""
    return "words\n" * 3000


TOOLS: list[Callable[..., Any]] = [add, paint, much]
N = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
SAME = act("add", a=1, b=1)
AGAIN = [("add", {"a": 1, "b": 1})]
RUNS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "answer": ([final("4")], {}),
    "tools": ([act("add", a="2", b=2), act("paint", shade=3), act("much"), act("nope"), final("x")], {}),
    "native": ([[("add", {"a": 1, "b": 2}), ("paint", {"shade": 1})], "three"], {"native": True}),
    "salvaged": (['<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>', "x"], {"native": True}),
    "schema": ([final({"n": "x"}), '{"m": 1}', '{"n": 1}'], {"response_format": N}),
    "unsatisfied": ([final("x")] + ["x"] * 3, {"response_format": N}),
    "no progress": ([AGAIN, AGAIN, AGAIN, "x"], {"native": True}),
    "steps": ([SAME, act("add", a=1, b=2), "x"], {"steps": 2}),
    "invalid": (["", cut("{"), "", "x"], {}),
    "broken": ([SAME, ModelBroke("gone")], {}),
    "files": ([act("read_more", file="note.txt"), final("Monday")], {"files": [NOTE]}),
    "pictures": ([act("paint", shade=9), final("x")], {"images": True}),
    "odd text": ([final("\ud800 é 😀")], {"prompt": "Say \udfff."}),
    "compacted": (
        [*(act("add", a=n, b=0) for n in range(12)), act("much"), final("x")],
        {"context": 4096, "steps": 20, "answer_tokens": 2000},
    ),
}


def played(name: str, folder: Path) -> Played:
    replies, options = RUNS[name]
    return play(list(replies), folder, tools=TOOLS, **options)


@pytest.mark.parametrize("name", RUNS)
def test_a_trace_tells_the_whole_run(name: str, tmp_path: Path) -> None:
    run = played(name, tmp_path)
    assert read_trace(run.result.trace) == run.run
    events = [json.loads(line)["event"] for line in run.result.trace.read_bytes().splitlines()]
    assert events[0] == "start"
    assert events[-1] == "end"
    assert events.count("step") == len(run.run.steps)
    assert events.count("reply") == run.run.usage.calls


@pytest.mark.parametrize("name", [name for name in RUNS if name != "broken"])
def test_a_run_replays_from_its_trace_without_a_model(name: str, tmp_path: Path) -> None:
    first = played(name, tmp_path / "first")
    options = RUNS[name][1]
    replies = read_replies(first.result.trace)
    again = play(list(replies), tmp_path / "again", tools=TOOLS, **options)
    assert again.run.output == first.run.output
    assert (again.run.stop, again.run.detail) == (first.run.stop, first.run.detail)
    assert [timeless(step) for step in again.run.steps] == [timeless(step) for step in first.run.steps]
    assert again.run.usage == first.run.usage
    for one, other in zip(first.model.asks, again.model.asks, strict=True):
        assert [message.body for message in one.messages] == [message.body for message in other.messages]


def timeless(step: Any) -> Any:
    dumped = step.model_dump(exclude={"turn": {"seconds"}})
    for seen in dumped["observations"]:
        del seen["seconds"]
    return dumped


def test_no_picture_lies_in_the_trace(tmp_path: Path) -> None:
    run = played("pictures", tmp_path)
    data = run.result.trace.read_text()
    assert "base64" in run.said_to_model()
    assert "base64" not in data
    assert len(data) < 12_000
    assert run.result.made[0] in data


@pytest.mark.parametrize("kept", ["start", "looks", "reply", "step"])
def test_a_trace_cut_at_any_line_gives_what_was_done(kept: str, tmp_path: Path) -> None:
    run = played("tools", tmp_path)
    lines = run.result.trace.read_bytes().splitlines(keepends=True)
    end = max(index for index, line in enumerate(lines) if json.loads(line)["event"] == kept)
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(b"".join(lines[: end + 1]) + lines[end + 1][: len(lines[end + 1]) // 2])
    told = read_trace(torn)
    assert told.stop is None
    assert told.prompt == run.run.prompt
    whole = [json.loads(line)["event"] for line in lines[: end + 1]]
    assert told.steps == run.run.steps[: whole.count("step")]
    assert len(read_replies(torn)) == whole.count("reply")


def test_what_was_done_is_on_disk_at_once(tmp_path: Path) -> None:
    """A run that is killed leaves everything up to then: the tool reads the trace of its own run."""

    def peek() -> list[str]:
        """List events."""
        (path,) = tmp_path.glob("runs/*/trace.jsonl")
        return [json.loads(line)["event"] for line in path.read_text().splitlines()]

    run = play([act("add", a=1, b=2), act("peek"), final("x")], tmp_path, tools=[add, peek])
    assert run.run.steps[1].observations[0].value == ["start", "looks", "reply", "step", "reply"]


def test_a_torn_last_line_is_noted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = played("answer", tmp_path)
    run.result.trace.write_bytes(run.result.trace.read_bytes()[:-20])
    assert read_trace(run.result.trace).stop is None
    assert "the last line of trace.jsonl is incomplete" in caplog.text


STEP = b'{"event":"step","step":{"turn":{}}}\n'
FOREIGN = {
    "empty": b"",
    "text": b"Dear Sir or Madam,\n",
    "picture": b"\x89PNG\r\n\x1a\n\x00\x00\xff\xfe\n",
    "json": b'{"a": 1}\n',
    "list": b"[1]\n",
    "number": b"7\n",
    "no start": STEP,
    "bad run": b'{"event":"start","run":{"id":5}}\n',
    "no run": b'{"event":"start"}\n',
    "bad step": b'{"event":"start","run":{"id":"r","prompt":"p"}}\n{"event":"step","step":[]}\n',
    "bad looks": b'{"event":"start","run":{"id":"r","prompt":"p"}}\n{"event":"looks","looks":5}\n',
    "deep": b"[" * 100_000 + b"\n",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_no_trace_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(FOREIGN[name])
    with pytest.raises(UserError) as caught:
        read_trace(path)
    assert caught.value.param == "trace"
    assert str(path) in caught.value.message


@pytest.mark.parametrize("line", [b'{"event":"reply"}', b'{"event":"reply","text":"","reasoning":"","calls":[[1]]}'])
def test_replies_that_are_none_are_refused(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(line + b"\n")
    with pytest.raises(UserError, match="is not a trace of Orion"):
        read_replies(path)


@pytest.mark.parametrize("reader", [read_trace, read_replies])
@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_a_trace_that_cannot_be_read(reader: Callable[[Path], object], name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read"):
        reader(tmp_path / name)


def test_a_file_that_cannot_be_used_ends_in_the_trace(tmp_path: Path) -> None:
    with Orion(ScriptedModel([]), store=tmp_path) as agent, pytest.raises(MediaError):
        agent.run("Read it.", [tmp_path / "missing.pdf"])
    (trace,) = tmp_path.glob("runs/*/trace.jsonl")
    told = read_trace(trace)
    assert isinstance(told, Run)
    assert "there is no file" in told.detail
    assert (told.stop, told.steps) == (None, [])


def test_replies_come_back_word_for_word(tmp_path: Path) -> None:
    reply = Reply(final("x"), "because", finish_reason="stop", seconds=1.25)
    run = play([reply], tmp_path)
    assert read_replies(run.result.trace) == [reply]
    assert isinstance(run.events[-1], Finished)


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this platform")
    (tmp_path / "trace.jsonl").symlink_to("/dev/full")
    writer = TraceWriter(tmp_path / "trace.jsonl")
    with pytest.raises(MediaError) as caught:
        writer.start(Run(id="run_1", prompt="Do it."))
    writer.close()
    assert caught.value.code == "disk_full"
