"""The Python way in: from scripts, async code and threads, one object for many runs, and what it refuses."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from pydantic import BaseModel

from orion.api import Orion
from orion.errors import MediaError, ModelBroke, NotConfigured, OrionError, SchemaError, UserError
from orion.events import (
    Answering,
    Attached,
    Event,
    Finished,
    Looked,
    Selected,
    Started,
    TextDelta,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from orion.result import Result, file_name
from orion.run import Limits
from orion.scripted import ScriptedModel
from orion.settings import Settings
from orion.tools import tool
from orion.wire import Ask, Reply
from tests.scenes import NOTE, SHARED, act, final, scripted


class Echo(ScriptedModel):
    """Answers each request with the request: calls `say` first, then gives what it was told."""

    def __init__(self) -> None:
        super().__init__([])

    async def complete(self, ask: Ask, **_more: Any) -> Reply:
        texts = [json.loads(message.body)["content"] for message in ask.messages]
        request = texts[1].split("Request: ")[1].split("\n")[0]
        said = [text for text in texts if text.startswith("Observation from say:")]
        await asyncio.sleep(0.001)
        if len(said) < 3:
            return Reply(act("say", text=f"{request} {len(said)}"), finish_reason="stop")
        assert all(request in text for text in said)
        return Reply(final(request), finish_reason="stop")


def say(text: str) -> str:
    """Say."""
    return text


def closed_at_end(model: Any, folder: Path, **options: Any) -> Orion:
    return Orion(model, store=folder, toolsets=["core"], **options)


def is_whole(result: Result, prompt: str) -> bool:
    texts = [step.observations[0].text for step in result.steps[:3]]
    return result.text == prompt and texts == [f"{prompt} {number}" for number in range(3)]


# ---- ways in ----------------------------------------------------------------------------------------------------


def test_a_script(tmp_path: Path) -> None:
    with closed_at_end(scripted([final("4")]), tmp_path) as agent:
        result = agent.run("2 + 2?")
    assert (result.output, result.text, result.stop) == ("4", "4", "answered")
    assert (result.artifacts, result.inputs, len(result.steps), result.usage.calls) == ([], [], 1, 1)
    assert result.trace == tmp_path / "runs" / result.run.id / "trace.jsonl"


def test_sync_inside_a_running_event_loop(tmp_path: Path) -> None:
    async def main() -> str:
        with closed_at_end(Echo(), tmp_path, tools=[say]) as agent:
            return agent.run("one").text  # blocks this loop, as in a notebook cell

    assert asyncio.run(main()) == "one"


def test_async(tmp_path: Path) -> None:
    async def main() -> list[str]:
        with closed_at_end(Echo(), tmp_path, tools=[say]) as agent:
            return [(await agent.arun(prompt)).text for prompt in ("one", "two")]

    assert asyncio.run(main()) == ["one", "two"]


def test_one_object_in_two_event_loops_one_after_the_other(tmp_path: Path) -> None:
    with closed_at_end(Echo(), tmp_path, tools=[say]) as agent:
        assert asyncio.run(agent.arun("one")).text == "one"
        assert asyncio.run(agent.arun("two")).text == "two"


def test_several_threads_at_once(tmp_path: Path) -> None:
    prompts = [f"thread {number}" for number in range(12)]
    with closed_at_end(Echo(), tmp_path, tools=[say]) as agent, ThreadPoolExecutor(6) as pool:
        results = list(pool.map(agent.run, prompts))
    assert all(is_whole(result, prompt) for result, prompt in zip(results, prompts, strict=True))


def test_twenty_runs_at_once_share_nothing(tmp_path: Path) -> None:
    prompts = [f"task {number}" for number in range(20)]

    async def main(agent: Orion) -> list[Result]:
        return await asyncio.gather(*map(agent.arun, prompts))

    with closed_at_end(Echo(), tmp_path, tools=[say]) as agent:
        results = asyncio.run(main(agent))
    assert all(is_whole(result, prompt) for result, prompt in zip(results, prompts, strict=True))
    assert len({result.run.id for result in results}) == 20
    assert all(result.usage.calls == 4 for result in results)


def test_each_run_has_its_own_limits_and_schema(tmp_path: Path) -> None:
    async def main(agent: Orion) -> tuple[Result, Result, Result]:
        return await asyncio.gather(
            agent.arun("a", limits=Limits(steps=1)),
            agent.arun("b", response_format={"type": "string"}),
            agent.arun("c"),
        )

    with closed_at_end(Echo(), tmp_path, tools=[say]) as agent:
        one, two, three = asyncio.run(main(agent))
    assert (one.stop, len(one.steps)) == ("steps", 1)
    assert (two.run.response_schema, two.text) == ({"type": "string"}, "b")
    assert (three.run.response_schema, len(three.steps)) == (None, 4)


# ---- streams ----------------------------------------------------------------------------------------------------


def kinds(events: list[Event]) -> list[type]:
    return [type(event) for event in events if not isinstance(event, TextDelta)]


ORDER = [Started, Attached, Looked, Selected, TurnEnded, ToolStarted, ToolEnded, TurnEnded, Answering, Finished]
SCRIPT = [act("say", text="hi"), final({"n": "x"}), '{"n": 1}']
N = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_events_in_order(tmp_path: Path) -> None:
    with closed_at_end(scripted(SCRIPT), tmp_path, tools=[say]) as agent:
        events = list(agent.stream("Do it.", [NOTE], response_format=N))
    assert kinds(events) == ORDER
    last = events[-1]
    assert isinstance(last, Finished)
    assert last.result.output == {"n": 1}
    started, turns = events[0], [event.index for event in events if isinstance(event, TurnEnded)]
    assert isinstance(started, Started)
    assert started.run_id == last.result.run.id
    assert turns == [0, 1]


def test_the_same_events_for_async_code(tmp_path: Path) -> None:
    async def main(agent: Orion) -> list[Event]:
        return [event async for event in agent.astream("Do it.", [NOTE], response_format=N)]

    with closed_at_end(scripted(SCRIPT), tmp_path, tools=[say]) as agent:
        assert kinds(asyncio.run(main(agent))) == ORDER


def test_a_stream_of_a_run_that_cannot_begin_raises(tmp_path: Path) -> None:
    async def main(agent: Orion) -> None:
        async for _event in agent.astream("Do it.", [tmp_path / "none"]):
            pass

    with closed_at_end(scripted([]), tmp_path) as agent:
        with pytest.raises(MediaError):
            list(agent.stream("Do it.", [tmp_path / "none"]))
        with pytest.raises(MediaError):
            asyncio.run(main(agent))


# ---- closing ----------------------------------------------------------------------------------------------------


def test_closing_twice_and_using_it_again(tmp_path: Path) -> None:
    """A closed agent starts anew when it is used: nothing but time was lost."""
    agent = closed_at_end(Echo(), tmp_path, tools=[say])

    async def crowd() -> list[Result]:
        return await asyncio.gather(*(agent.arun(f"task {number}") for number in range(10)))

    for _ in range(3):
        assert all(is_whole(result, f"task {number}") for number, result in enumerate(asyncio.run(crowd())))
        agent.close()
        agent.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "orion"]


class Unknown(Echo):
    """A model whose capabilities must be asked for first."""

    def __init__(self) -> None:
        super().__init__()
        self.capabilities = None  # type: ignore[assignment]
        self.probes = 0

    async def complete(self, ask: Ask, **more: Any) -> Reply:
        if ask.messages[0].role == "system":
            return await super().complete(ask, **more)
        self.probes += 1
        await asyncio.sleep(0.01)
        return Reply("no", finish_reason="stop")


def test_many_runs_wait_for_one_probe_also_after_closing(tmp_path: Path) -> None:
    settings = Settings(store_dir=tmp_path, cache_dir=tmp_path / "cache")
    model = Unknown()
    agent = closed_at_end(model, tmp_path, tools=[say], settings=settings)

    async def crowd() -> list[Result]:
        return await asyncio.gather(*(agent.arun(f"task {number}") for number in range(5)))

    for times in (1, 2):
        assert all(is_whole(result, f"task {number}") for number, result in enumerate(asyncio.run(crowd())))
        assert model.probes == 3 * times
        agent.close()
        shutil.rmtree(tmp_path / "cache")


def test_closing_what_was_never_used(tmp_path: Path) -> None:
    closed_at_end(scripted([]), tmp_path).close()


def test_closing_stops_what_still_runs(tmp_path: Path) -> None:
    class Stuck(ScriptedModel):
        begun = threading.Event()

        async def complete(self, ask: Ask, **_more: Any) -> Reply:
            self.begun.set()
            await asyncio.sleep(60)
            raise AssertionError

    model = Stuck([])
    agent = closed_at_end(model, tmp_path)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(agent.run, "Do it.")
        assert model.begun.wait(20)
        agent.close()
        assert running.exception(20) is not None


def test_a_model_of_the_callers_own_stays_open(tmp_path: Path) -> None:
    model = scripted([final("x")])
    with closed_at_end(model, tmp_path) as agent:
        agent.run("Do it.")
    assert model.closed is False


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    before = threading.active_count()
    for _ in range(5):
        with closed_at_end(Echo(), tmp_path, tools=[say]) as agent:
            agent.run("one")
    gc.collect()
    assert threading.active_count() == before


# ---- what is refused --------------------------------------------------------------------------------------------


class Holder(BaseModel):
    call: Callable[[], int]


@pytest.mark.parametrize(
    ("arguments", "error", "param", "words"),
    [
        ({"prompt": ""}, UserError, "prompt", "the prompt is empty"),
        ({"prompt": "  \n"}, UserError, "prompt", "the prompt is empty"),
        ({"prompt": None}, UserError, "prompt", "the prompt is empty"),
        ({"files": "a.pdf"}, UserError, "files", "files must be a list"),
        ({"files": b"%PDF"}, UserError, "files", "files must be a list"),
        ({"files": Path("a.pdf")}, UserError, "files", "files must be a list"),
        ({"files": {"a.pdf"}}, UserError, "files", "files must be a list"),
        ({"toolsets": ["docment"]}, UserError, "toolsets", "Did you mean 'document'? Known: core, document, image"),
        ({"toolsets": "core"}, UserError, "toolsets", "toolsets must be a list of names"),
        ({"toolsets": [None]}, UserError, "toolsets", "no name of a toolset"),
        ({"response_format": {"type": "strin"}}, SchemaError, "/type", "strin"),
        ({"response_format": {"$ref": "https://example.org/s.json"}}, SchemaError, "/$ref", "example.org"),
        ({"response_format": {"$ref": "#/$defs/none"}}, SchemaError, "/$ref", "#/$defs/none"),
        ({"response_format": {"type": "string", "pattern": "("}}, SchemaError, "/pattern", "("),
        ({"response_format": 5}, SchemaError, None, "Pass a pydantic model class or a JSON schema"),
        ({"response_format": Holder}, SchemaError, None, "Pass a pydantic model class or a JSON schema"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused_before_any_model_call(
    arguments: dict[str, Any], error: type[OrionError], param: str | None, words: str, tmp_path: Path
) -> None:
    model = scripted([final("x")])
    with closed_at_end(model, tmp_path) as agent, pytest.raises(error) as caught:
        agent.run(**{"prompt": "Do it.", **arguments})
    assert words in str(caught.value)
    if param is not None:
        assert caught.value.param == param
    assert model.asks == []
    assert list(tmp_path.glob("runs/*")) == []


def test_bad_tools_are_refused_at_once(tmp_path: Path) -> None:
    def crop(image: Image.Image) -> Image.Image:
        """Cut."""
        return image

    @tool(name="say")
    def other(text: str) -> str:
        """Say it too."""
        return text

    for tools, message in (
        ([lambda text: text], "has no docstring"),
        ([crop], "the toolset image has a tool named 'crop' already"),
        ([say, other], "your list has a tool named 'say' already"),
    ):
        with pytest.raises(UserError, match=message):
            Orion(scripted([]), tools=tools, store=tmp_path)


@pytest.fixture
def bad_files(tmp_path: Path) -> dict[str, Any]:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "empty.pdf").touch()
    (folder / "odd.bin").write_bytes(bytes(range(256)) * 4)
    (folder / "cut.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
    (folder / "bad.pdf").write_bytes(b"%PDF-1.7\nnothing of the kind\n")
    return {
        "missing": (folder / "none.pdf", "not_found"),
        "missing text": (str(folder / "none.pdf"), "not_found"),
        "folder": (folder, "not_a_file"),
        "empty": (folder / "empty.pdf", "empty_file"),
        "empty bytes": (b"", "empty_file"),
        "unknown": (folder / "odd.bin", "unsupported"),
        "cut": (folder / "cut.png", "corrupt_file"),
        "bad": (folder / "bad.pdf", "corrupt_file"),
        "scheme": ("ftp://example.org/a.pdf", "fetch_refused"),
        "loopback": ("http://127.0.0.1:9/a.pdf", "fetch_refused"),
        "data": ("data:image/png;base64,####", "corrupt_file"),
        "nul": ("a\0b", "not_found"),
        "number": (5, None),
        "nothing": (None, None),
    }


def test_files_that_cannot_be_used(bad_files: dict[str, Any], tmp_path: Path) -> None:
    model = scripted([])
    with closed_at_end(model, tmp_path) as agent:
        for name, (source, code) in bad_files.items():
            with pytest.raises(UserError) as caught:
                agent.run("Do it.", [NOTE, source])
            assert (name, getattr(caught.value, "code", None)) == (name, code)
            assert caught.value.param == "files[1]"
    assert model.asks == []


HOSTILE = {
    "bomb_20000x20000.png": "too_large",
    "truncated.jpg": "corrupt_file",
    "encrypted.pdf": "password_required",
    "corrupt_trunc.pdf": "corrupt_file",
    "corrupt_noxref.pdf": "corrupt_file",
}


@pytest.mark.skipif(not (SHARED / "samples").is_dir(), reason="the shared samples are not here")
def test_hostile_samples(tmp_path: Path) -> None:
    seen = {}
    with closed_at_end(scripted([]), tmp_path) as agent:
        for name in HOSTILE:
            with pytest.raises(MediaError) as caught:
                agent.run("Do it.", [SHARED / "samples" / name])
            seen[name] = caught.value.code
            assert caught.value.param == "files[0]"
    assert seen == HOSTILE


def test_a_password_opens_an_encrypted_pdf_and_is_kept_nowhere(tmp_path: Path) -> None:
    from reportlab.lib.pdfencrypt import StandardEncryption

    from tests.test_media import drawn_pdf

    locked = drawn_pdf(2, encrypt=StandardEncryption("s3same", ownerPassword="owner"))
    with closed_at_end(scripted([final("two")] * 2), tmp_path) as agent:
        result = agent.run("How many pages?", [locked], password="s3same")
        assert "page 2" in result.run.looks[0].text
        with pytest.raises(MediaError) as caught:
            agent.run("How many pages?", [locked], password="wrong")
        assert (caught.value.code, caught.value.param) == ("wrong_password", "files[0]")
    assert b"s3same" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_results_repr_is_one_short_line(tmp_path: Path) -> None:
    with closed_at_end(scripted([final("long " * 1000)]), tmp_path) as agent:
        shown = repr(agent.run("Say it."))
    assert shown.startswith("<Result answered: 'long long ")
    assert len(shown) < 300
    assert "\n" not in shown


# ---- files, tools and results -----------------------------------------------------------------------------------


def test_an_async_tool_that_swallows_its_cancellation_is_abandoned(tmp_path: Path) -> None:
    released = threading.Event()

    async def stubborn() -> str:
        """Wait."""
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.05)
        return "late"

    model = scripted([act("stubborn"), final("gave up")])
    with closed_at_end(model, tmp_path, tools=[stubborn]) as agent:
        try:
            result = agent.run("Wait.", limits=Limits(tool_seconds=0.2))
        finally:
            released.set()
    assert result.text == "gave up"
    assert result.steps[0].observations[0].error == "timeout"


def test_a_users_tool_is_offered_and_called(tmp_path: Path) -> None:
    seen: list[tuple[Any, ...]] = []

    def brightness(image: Image.Image, zone: list[int] | None = None) -> float:
        """Tell the mean brightness.

        Args:
            image: the picture.
        """
        seen.append((image.size, zone))
        return sum(image.convert("L").tobytes()) / (image.width * image.height)

    picture = Image.new("L", (40, 30), 100)
    model = scripted([act("brightness", zone="7"), final("100")])
    with closed_at_end(model, tmp_path, tools=[brightness], limits=Limits(look_tokens=0)) as agent:
        result = agent.run("How bright?", [picture])
    assert (result.text, seen) == ("100", [((40, 30), [7])])
    assert result.steps[0].observations[0].text == "100.0"
    assert "yours" in result.run.toolsets
    system = json.loads(model.asks[0].messages[0].body)["content"]
    assert "brightness(image, zone: list of integer?): Tell the mean brightness." in system


def test_the_same_file_twice_is_one_input(tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    path.write_bytes(NOTE)
    with closed_at_end(scripted([act("calculate", expression="1"), final("x")]), tmp_path) as agent:
        result = agent.run("Do it.", [path, NOTE, path])
    assert len(result.inputs) == 1
    assert result.inputs[0].name == "note.txt"


def test_a_result_saves_itself(tmp_path: Path) -> None:
    def paint() -> Image.Image:
        """Paint."""
        return Image.new("RGB", (20, 10), "red")

    with closed_at_end(scripted([act("paint"), final({"n": 1})]), tmp_path / "store", tools=[paint]) as agent:
        result = agent.run("Do it.", response_format=N)
        folder = result.save(tmp_path / "out")
    (made,) = result.artifacts
    assert file_name(made) == f"{made.id}.png"
    assert sorted(path.name for path in folder.iterdir()) == sorted(["answer.json", f"{made.id}.png", "trace.jsonl"])
    assert json.loads((folder / "answer.json").read_text()) == {"n": 1}
    with Image.open(folder / f"{made.id}.png") as picture:
        assert picture.size == (20, 10)
    with closed_at_end(scripted([final("four")]), tmp_path / "store") as agent:
        assert (agent.run("Do it.").save(tmp_path / "text") / "answer.txt").read_text() == "four\n"


def test_an_artifact_of_one_run_can_be_attached_to_the_next(tmp_path: Path) -> None:
    def paint() -> Image.Image:
        """Paint."""
        return Image.new("RGB", (20, 10), "red")

    script = [act("paint"), final("x"), act("calculate", expression="1"), final("y")]
    with closed_at_end(scripted(script), tmp_path, tools=[paint], limits=Limits(look_tokens=0)) as agent:
        (made,) = agent.run("Do it.").artifacts
        assert agent.run("Look.", [made]).run.inputs == [made.id]


def test_a_model_that_cannot_be_had(tmp_path: Path) -> None:
    settings = Settings(store_dir=tmp_path, cache_dir=tmp_path)
    with Orion("http://127.0.0.1:9/v1", settings=settings) as agent, pytest.raises(OrionError) as caught:
        agent.run("Do it.")
    assert "127.0.0.1:9" in str(caught.value)
    with Orion(str(tmp_path / "none.gguf"), settings=settings) as agent, pytest.raises((UserError, NotConfigured)):
        agent.run("Do it.")


def test_a_run_after_a_failed_one(tmp_path: Path) -> None:
    with closed_at_end(scripted([ModelBroke("gone"), final("back")]), tmp_path) as agent:
        assert agent.run("Do it.").stop == "model_failed"
        assert agent.run("Do it.").text == "back"


def test_traces_of_runs_in_one_second_do_not_meet(tmp_path: Path) -> None:
    began = time.time()
    with closed_at_end(Echo(), tmp_path, tools=[say]) as agent:
        ids = {agent.run("one").run.id for _ in range(8)}
    assert len(ids) == 8
    assert began > 0
    assert len(list(tmp_path.glob("runs/*/trace.jsonl"))) == 8


# ---- agents that are not closed ---------------------------------------------------------------------------------


def test_an_agent_that_nobody_closed_gives_back_its_processes(tmp_path: Path) -> None:
    threads = threading.active_count()
    agent = Orion(scripted([final("x")]), store=tmp_path)
    agent.run("Do it.", [Image.new("RGB", (40, 30))], toolsets=["image"])
    assert agent._workers is not None
    pids = [child.pid for child in agent._workers._idle]
    assert pids
    del agent
    gc.collect()
    until = time.monotonic() + 20
    while threading.active_count() > threads and time.monotonic() < until:
        time.sleep(0.02)
    assert threading.active_count() <= threads
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


FORKED = """
import os, signal, sys
from orion.api import Orion
from orion.scripted import ScriptedModel

agent = Orion(ScriptedModel(['{"final": "one"}', '{"final": "two"}']), store=sys.argv[1])
agent.run("Do it.")
child = os.fork()
if child == 0:
    signal.alarm(30)
    ended = agent.run("Do it.").text == "two"
    agent.close()
    os._exit(0 if ended else 1)
print(os.waitpid(child, 0)[1], agent.run("Do it.").text)
agent.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_an_agent_can_be_used_in_a_forked_process(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.returncode) == ("0 two\n", 0), done.stderr


def test_a_file_that_nothing_can_read_is_refused(tmp_path: Path) -> None:
    """Rather than an invented answer; beside a file that can be read it is an observation that says so."""
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.txt", "hello")
    model = ScriptedModel([final("invented"), final("read")])
    with Orion(model, store=tmp_path / "store") as agent:
        with pytest.raises(MediaError, match="ZIP archive, which this version of Orion cannot read") as refused:
            agent.run("What is in it?", [tmp_path / "a.zip"])
        assert (refused.value.code, refused.value.param) == ("unsupported", "files[0]")
        assert model.asks == []
        result = agent.run("What is in them?", [tmp_path / "a.zip", b"some words"])
    assert [look.error for look in result.run.looks] == ["failed", None]
