"""The actor: what it asks for at each step, how it reads a turn, and how it runs the calls."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from PIL import Image

from orion.actors import ARGUMENT_CHARS, CUT_SHOWN, NO_ACTION, READY, TRUNCATED, UNCORRECTED, UNREAD, CallTools
from orion.events import ToolEnded, ToolStarted
from orion.job import Job
from orion.run import Call, Observation, Step, Turn
from orion.schema import OutputSchema
from orion.toolkit import ADD_TOOLSET
from orion.tools import AnyFile, Document, Toolset
from orion.wire import REPETITION, NativeCall, Reply
from tests.scenes import attach, job_of


def crop_it(image: Image.Image, x: float = 0, note: str | None = None) -> Image.Image:
    """Cut."""
    return image


def count(file: AnyFile) -> int:
    """Count bytes."""
    return file.stat().st_size


def pages(document: Document) -> int:
    """Count pages."""
    return document.stat().st_size


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def say(text: str) -> str:
    """Say."""
    return text


TOOLS: list[Callable[..., Any]] = [crop_it, count, pages, add, say]
INVOICE = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    with job_of(tmp_path, tools=TOOLS) as made:
        del made.catalogue["core"], made.catalogue["image"], made.catalogue["document"]
        yield made


def arms(actor: CallTools) -> dict[str, Any]:
    """The action schema's arms by tool, the answer's as "final"."""
    schema = actor.action_schema()
    Draft202012Validator.check_schema(schema)
    found = {}
    for arm in schema.get("anyOf", [schema]):
        fields = arm["properties"]
        found["final" if "final" in fields else fields["tool"]["const"]] = fields.get("final", fields.get("arguments"))
    return found


def schema_actor(job: Job) -> CallTools:
    return CallTools(job, native=False, sees=False)


def native_actor(job: Job) -> CallTools:
    return CallTools(job, native=True, sees=False)


# ---- asking -----------------------------------------------------------------------------------------------------


def test_the_arms_follow_what_exists(job: Job) -> None:
    actor = schema_actor(job)
    assert list(arms(actor)) == ["final", "add", "say"]
    note = attach(job)
    assert list(arms(actor)) == ["final", "add", "count", "say"]
    assert arms(actor)["count"]["properties"]["file"] == {"type": "string", "enum": [note.id]}
    pdf = attach(job, b"pdf", "document", "a.pdf")
    assert arms(actor)["count"]["properties"]["file"]["enum"] == [note.id, pdf.id]
    assert arms(actor)["pages"]["properties"]["document"]["enum"] == [pdf.id]
    assert "crop_it" not in arms(actor)
    picture = attach(job, b"png", "image", "a.png", width=1, height=1)
    assert arms(actor)["crop_it"]["properties"]["image"]["enum"] == [picture.id]


def test_a_tool_that_could_only_repeat_the_look_is_withdrawn(job: Job) -> None:
    actor = schema_actor(job)
    first, second = attach(job, b"1", "document", "1.pdf"), attach(job, b"2", "document", "2.pdf")
    job.covered.add(("pages", first.id))
    assert arms(actor)["pages"]["properties"]["document"]["enum"] == [second.id]
    assert arms(actor)["count"]["properties"]["file"]["enum"] == [first.id, second.id]
    job.covered.add(("pages", second.id))
    assert "pages" not in arms(actor)


def test_no_answer_before_the_files_were_read(job: Job) -> None:
    actor = schema_actor(job)
    note = attach(job)
    job.unread.add(note.id)
    assert list(arms(actor)) == ["add", "count", "say"]
    assert actor.ask().max_tokens == job.run.limits.action_tokens
    turn = actor.read(Reply('{"final": "made up"}', finish_reason="stop"))
    assert (turn.final, turn.problem) == (None, UNREAD)
    # A model strong enough for native calls may know better; only a small one is held to looking first.
    assert native_actor(job).read(Reply("It is empty.", finish_reason="stop")).final == "It is empty."
    job.run.steps.append(Step(turn=Turn(), observations=[Observation(text="26")]))
    assert "final" in arms(actor)
    assert actor.ask().max_tokens == job.run.limits.answer_tokens


def bad_step() -> Step:
    return Step(turn=Turn(calls=[Call(tool="add")]), observations=[Observation(text="Error", error="bad_arguments")])


def test_a_wrong_call_is_corrected_before_an_answer(job: Job) -> None:
    actor = schema_actor(job)
    job.run.steps.append(bad_step())
    assert "final" not in arms(actor)
    turn = actor.read(Reply('{"final": "never mind"}', finish_reason="stop"))
    assert (turn.final, turn.problem) == (None, UNCORRECTED)
    job.run.steps.append(bad_step())
    assert "final" in arms(actor)  # it cannot be done, then


def test_a_tool_can_be_left_out_once_unless_it_is_all_there_is(job: Job) -> None:
    actor = schema_actor(job)

    def tools_without(name: str) -> list[str]:
        schema = actor.action_schema(without=name)
        return [
            arm["properties"]["tool"]["const"] for arm in schema.get("anyOf", [schema]) if "tool" in arm["properties"]
        ]

    assert tools_without("add") == ["say"]
    job.unread.add("img_0000aa")
    del job.tools["say"]
    assert tools_without("add") == ["add"]


@pytest.mark.parametrize(
    ("calls", "error", "repeated"),
    [
        ([Call(tool="add", arguments={"a": 1, "b": 2})], None, "add"),
        ([Call(tool="add", arguments={"a": 1, "b": 3})], None, None),
        ([Call(tool="say", arguments={"a": 1, "b": 2})], None, None),
        ([Call(tool="add", arguments={"a": 1, "b": 2})], "failed", None),
        ([], None, None),
    ],
)
def test_what_counts_as_repeated(job: Job, calls: list[Call], error: Any, repeated: str | None) -> None:
    earlier = Turn(calls=[Call(tool="add", arguments={"a": 1, "b": 2})])
    job.run.steps.append(Step(turn=earlier, observations=[Observation(text="3", error=error)]))
    assert schema_actor(job).repeated(Turn(calls=calls)) == repeated
    assert native_actor(job).repeated(Turn(calls=calls)) is None


def test_more_toolsets_only_while_some_wait(job: Job) -> None:
    actor = schema_actor(job)
    assert ADD_TOOLSET not in arms(actor)
    assert [entry["function"]["name"] for entry in actor.wire()] == ["add", "count", "crop_it", "pages", "say"]

    def extra(word: str) -> str:
        """Do more."""
        return word

    job.catalogue["spare"] = Toolset("spare", "more of it", (extra,))  # type: ignore[index]
    assert arms(actor)[ADD_TOOLSET]["properties"]["name"] == {"type": "string", "enum": ["spare"]}
    assert actor.wire()[-1]["function"]["name"] == ADD_TOOLSET
    assert f"{ADD_TOOLSET}(name: spare): Get more tools: spare: more of it" in actor.system()
    seen = asyncio.run(actor.act(Turn(calls=[Call(tool=ADD_TOOLSET, arguments={"name": " Spare "})])))
    assert (seen[0].error, seen[0].text) == (None, "Added spare. More tools:\nextra(word: text): Do more.")
    assert ADD_TOOLSET not in arms(actor)
    assert "extra" in arms(actor)


def test_text_and_lists_are_bounded_in_the_grammar(job: Job) -> None:
    assert arms(schema_actor(job))["say"]["properties"]["text"] == {"type": "string", "maxLength": ARGUMENT_CHARS}


def test_the_answers_schema_is_one_arm(job: Job) -> None:
    actor = schema_actor(job)
    job.output = OutputSchema.prepare(INVOICE)
    assert arms(actor)["final"] == job.output.grammar
    actor.answer_inline = False
    assert arms(actor)["final"] == {"const": READY}
    assert actor.ask().max_tokens == job.run.limits.action_tokens


TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["name", "children"],
            "additionalProperties": False,
        }
    },
}


def test_definitions_of_the_answers_schema_stay_reachable(job: Job) -> None:
    actor = schema_actor(job)
    job.output = OutputSchema.prepare(TREE)
    validator = Draft202012Validator(actor.action_schema())
    leaf = {"name": "b", "children": []}
    assert validator.is_valid({"final": {"name": "a", "children": [leaf]}})
    assert not validator.is_valid({"final": {"name": "a", "children": [{"name": "b"}]}})
    assert validator.is_valid({"tool": "add", "arguments": {"a": 1, "b": 2}})
    assert not validator.is_valid({"tool": "add", "arguments": {"a": "one", "b": 2}})
    assert not validator.is_valid({"tool": "subtract", "arguments": {}})


def test_an_answer_that_needs_an_id_not_made_yet_waits(job: Job) -> None:
    actor = schema_actor(job)
    schema = {
        "type": "object",
        "properties": {"picture": {"type": "string", "pattern": "^img_[0-9a-f]{6}$"}},
        "required": ["picture"],
    }
    job.output = OutputSchema.prepare(schema)
    job.output_refers = True
    assert arms(actor)["final"] == {"const": READY}
    picture = attach(job, b"png", "image", None, width=1, height=1)
    assert arms(actor)["final"]["properties"]["picture"]["enum"] == [picture.id]


def test_native_asks_hold_tools_and_no_schema(job: Job) -> None:
    ask = native_actor(job).ask()
    assert (ask.schema, ask.tool_choice) == (None, "auto")
    assert [entry["function"]["name"] for entry in ask.tools] == sorted(job.tools)
    before = native_actor(job).wire()
    attach(job)
    assert native_actor(job).wire() == before  # ids would change the prompt's start
    job.tools.clear()
    ask = native_actor(job).ask()
    assert (list(ask.tools), ask.tool_choice) == ([], None)


# ---- reading ----------------------------------------------------------------------------------------------------

ADD = Call(tool="add", arguments={"a": 1, "b": 2})
ARGUMENTS = '{"a": 1, "b": 2}'


@pytest.mark.parametrize(
    "text",
    [
        f'{{"tool": "add", "arguments": {ARGUMENTS}}}',
        f'```json\n{{"tool": "add", "arguments": {ARGUMENTS}}}\n```',
        f'I will add.\n{{"name": "add", "arguments": {ARGUMENTS}}}',
        f'<tool_call>{{"name": "add", "arguments": {ARGUMENTS}}}</tool_call>',
        f'<tool_call>{{"name": "add", "arguments": {ARGUMENTS}}}',
        f'<tool_call>{{"name": "add", "arguments": {ARGUMENTS}}}}}</tool_call>',
        f'<tools>[{{"name": "add", "arguments": {ARGUMENTS}}}]</tools>',
        f'[TOOL_CALLS][{{"name": "add", "arguments": {ARGUMENTS}}}]',
        f'{{"tool_calls": [{{"function": {{"name": "add", "arguments": {json.dumps(ARGUMENTS)}}}}}]}}',
        "{'tool': 'add', 'arguments': {'a': 1, 'b': 2}}",
        "add(a=1, b=2)",
        f'<think>Should I add?</think>{{"tool": "add", "arguments": {ARGUMENTS}}}',
    ],
)
@pytest.mark.parametrize("native", [False, True])
def test_calls_are_found_in_any_syntax(job: Job, text: str, native: bool) -> None:
    turn = CallTools(job, native=native, sees=False).read(Reply(text, finish_reason="stop"))
    assert (turn.calls, turn.final, turn.problem) == ([ADD], None, None)
    assert turn.salvaged is native


def test_xml_arguments_are_text_until_the_tool_reads_them(job: Job) -> None:
    values = "<parameter=a>\n1\n</parameter>\n<parameter=b>\n2\n</parameter>"
    text = f"<tool_call>\n<function=add>\n{values}\n</function>\n</tool_call>"
    actor = schema_actor(job)
    turn = actor.read(Reply(text, finish_reason="stop"))
    assert turn.calls == [Call(tool="add", arguments={"a": "1", "b": "2"})]
    assert asyncio.run(actor.act(turn))[0].text == "3"


def test_a_call_in_the_reasoning_counts_when_there_is_nothing_else(job: Job) -> None:
    reply = Reply("", f'<tool_call>{{"name": "add", "arguments": {ARGUMENTS}}}</tool_call>', finish_reason="stop")
    assert native_actor(job).read(reply).calls == [ADD]


@pytest.mark.parametrize(
    ("text", "final"),
    [
        ('{"final": "Two pages."}', "Two pages."),
        ('```json\n{"final": "Two pages."}\n```', "Two pages."),
        ('{"thought": "easy", "final": "Two pages."}', "Two pages."),
        ('{"final": {"a": 1}}', {"a": 1}),
        ('{"final": 0}', 0),
        ('{"final": false}', False),
        ("Two pages.", "Two pages."),
        ("You could use add(a=1, b=2) here.", "You could use add(a=1, b=2) here."),
        ('{"total": 3}', '{"total": 3}'),
    ],
)
def test_answers_are_read(job: Job, text: str, final: Any) -> None:
    turn = schema_actor(job).read(Reply(text, finish_reason="stop"))
    assert (turn.final, turn.calls, turn.problem) == (final, [], None)


@pytest.mark.parametrize("text", ["", "  \n", "<think>hm</think>", '{"final": null}'])
def test_nothing_is_no_action(job: Job, text: str) -> None:
    turn = schema_actor(job).read(Reply(text, finish_reason="stop"))
    assert (turn.final, turn.calls, turn.problem) == (None, [], NO_ACTION)


def test_null_may_be_the_asked_answer(job: Job) -> None:
    job.output = OutputSchema.prepare({"type": ["integer", "null"]})
    turn = schema_actor(job).read(Reply('{"final": null}', finish_reason="stop"))
    assert (turn.final, turn.problem) == (READY, None)


def native(name: str, arguments: str = "{}", call_id: str = "c1") -> Reply:
    return Reply("", "", [NativeCall(call_id, name, arguments)], "tool_calls")


@pytest.mark.parametrize(
    ("reply", "calls"),
    [
        (native("add", ARGUMENTS), [Call(tool="add", arguments={"a": 1, "b": 2}, id="c1")]),
        (native("add", ARGUMENTS, ""), [Call(tool="add", arguments={"a": 1, "b": 2}, id="call_0_0")]),
        (native("", ARGUMENTS), [Call(tool="add", arguments={"a": 1, "b": 2}, id="c1")]),
        (native("", '{"z": 1}'), [Call(tool="", arguments={"z": 1}, id="c1")]),
        (native("add", ""), [Call(tool="add", id="c1")]),
        (native("magic", "{}"), [Call(tool="magic", id="c1")]),
        (native("say", "{'text': 'it'}"), [Call(tool="say", arguments={"text": "it"}, id="c1")]),
        (native("say", '{"text": "\\ud800"}'), [Call(tool="say", arguments={"text": "\ufffd"}, id="c1")]),
    ],
)
def test_native_calls(job: Job, reply: Reply, calls: list[Call]) -> None:
    turn = native_actor(job).read(reply)
    assert (turn.calls, turn.problem, turn.salvaged) == (calls, None, False)


def test_native_arguments_that_are_no_object(job: Job) -> None:
    turn = native_actor(job).read(native("add", "[1, 2]"))
    assert (turn.calls, turn.problem) == ([], "The arguments of add are not a JSON object.")


@pytest.mark.parametrize("reason", ["length", REPETITION])
@pytest.mark.parametrize(
    ("reply", "is_native", "final"),
    [
        (Reply(f'{{"tool": "add", "arguments": {ARGUMENTS}}}'), False, None),
        (Reply('{"tool": "say", "arguments": {"text": "long'), False, None),
        (Reply('{"final": {"total": 1'), False, READY),
        (Reply('  {"final": "long'), False, READY),
        (Reply("a long text"), True, READY),
        (native("add", ARGUMENTS), True, READY),
    ],
    ids=lambda value: value.text if isinstance(value, Reply) else None,
)
def test_what_was_cut_is_never_acted_upon(
    job: Job, reply: Reply, is_native: bool, final: str | None, reason: str
) -> None:
    cut = Reply(reply.text, "", reply.calls, reason)
    actor = CallTools(job, native=is_native, sees=False)
    turn = actor.read(cut)
    assert turn.calls == []
    assert (turn.final, turn.problem) == (final, None if final else TRUNCATED)


def test_a_cut_turn_is_kept_short_in_the_transcript(job: Job) -> None:
    actor = schema_actor(job)
    said = actor.said(actor.read(Reply('{"tool": "say", "arguments": {"text": "' + "x" * 9000, finish_reason="length")))
    assert said.chars == CUT_SHOWN + 2
    assert actor.said(actor.read(Reply("", finish_reason="stop"))).body == b'{"role":"assistant","content":"(nothing)"}'


# ---- acting -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (Call(tool="add", arguments={"a": "1", "b": 2}), None, "3"),
        (Call(tool="magic"), "unknown_tool", "There is no tool 'magic'. Tools: add, count, say."),
        (Call(tool=""), "unknown_tool", "There is no tool ''. Tools: add, count, say."),
        (Call(tool="add", arguments={"a": 1}), "bad_arguments", "Error: add: b is missing; expected integer"),
        (
            Call(tool="count", arguments={"file": "doc_ffffff"}),
            "bad_arguments",
            "Error: count: file: there is no 'doc_ffffff'; known: file_",
        ),
        (Call(tool="count", arguments={"file": "note.txt"}), None, "26"),
        (
            Call(tool="crop_it", arguments={"image": "note.txt"}),
            "bad_arguments",
            "Error: crop_it: image: note.txt is a file; there is none to use",
        ),
        (Call(tool=ADD_TOOLSET), "bad_arguments", "Error: there is no toolset '' to add. Known: []."),
    ],
    ids=str,
)
def test_each_call_brings_one_observation(job: Job, call: Call, error: str | None, text: str) -> None:
    attach(job)
    (seen,) = asyncio.run(schema_actor(job).act(Turn(calls=[call])))
    assert (seen.error, seen.tool) == (error, call.tool)
    assert seen.text.startswith(text)


def test_parallel_calls_run_at_once_up_to_the_limit_and_answer_in_order(tmp_path: Path) -> None:
    running, most, guard = 0, 0, threading.Lock()
    together = threading.Barrier(3)

    def wait(number: int) -> int:
        """Wait for two others."""
        nonlocal running, most
        with guard:
            running += 1
            most = max(most, running)
        together.wait(20)  # passes only when three are really at it
        time.sleep((9 - number) / 100)  # the last ones are done first
        with guard:
            running -= 1
        return number

    events: list[Any] = []
    with job_of(tmp_path, tools=[wait], parallel_tools=3) as job:
        job.emit = events.append
        calls = [Call(tool="wait", arguments={"number": number}) for number in range(9)]
        seen = asyncio.run(schema_actor(job).act(Turn(calls=calls)))
    assert [observation.text for observation in seen] == [str(number) for number in range(9)]
    assert most == 3
    assert sum(isinstance(event, ToolStarted) for event in events) == 9
    assert sum(isinstance(event, ToolEnded) for event in events) == 9


def test_observations_as_messages(job: Job) -> None:
    calls, seen = (
        [Call(tool="add", id="c1"), Call(tool="say", id="c2")],
        [Observation(text="3"), Observation(text="hi")],
    )
    (first, stub), (second, _) = native_actor(job).observed(Turn(calls=calls), seen)
    assert json.loads(first.body) == {"role": "tool", "tool_call_id": "c1", "content": "3"}
    assert json.loads(second.body) == {"role": "tool", "tool_call_id": "c2", "content": "hi"}
    assert "the result of add" in stub
    for messages in (
        schema_actor(job).observed(Turn(calls=calls), seen),
        native_actor(job).observed(Turn(calls=calls, salvaged=True), seen),
    ):
        said = json.loads(messages[0][0].body)
        assert said["role"] == "user"
        assert said["content"].startswith("Observation from add:\n3")


def test_what_was_said_in_each_form(job: Job) -> None:
    turn = Turn(text="Adding.", calls=[Call(tool="add", arguments={"a": 1}, id="c1")])
    said = json.loads(native_actor(job).said(turn).body)
    assert said["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a":1}'}
    assert json.loads(schema_actor(job).said(turn).body) == {"role": "assistant", "content": "Adding."}
    assert "tool_calls" not in json.loads(native_actor(job).said(turn.model_copy(update={"salvaged": True})).body)
