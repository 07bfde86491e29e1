"""The final answer: taken when it is right, repaired when it is not, left out when it stays wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from pydantic import BaseModel, Field, field_validator, model_validator

from orion.errors import ModelBroke
from orion.output import CUT_OFF, LOOP_PENALTY, accept
from orion.schema import OutputSchema
from orion.trace import read_trace
from orion.wire import Reply
from tests.scenes import Played, act, attach, cut, final, job_of, play

SCHEMA = {
    "type": "object",
    "properties": {"total": {"type": "number"}, "currency": {"enum": ["EUR", "USD"]}},
    "required": ["total", "currency"],
    "additionalProperties": False,
}
RIGHT = {"total": 12.5, "currency": "EUR"}
WRONG = {"total": "twelve", "currency": "GBP"}


class Invoice(BaseModel):
    number: str
    total: float = Field(gt=0)

    @field_validator("number")
    @classmethod
    def _known(cls, value: str) -> str:
        if not value.startswith("R-"):
            raise ValueError("an invoice number begins with R-")
        return value


class Span(BaseModel):
    start: int
    end: int

    @model_validator(mode="after")
    def _ordered(self) -> Span:
        if self.end < self.start:
            raise ValueError("end lies before start")
        return self


def ended(played: Played) -> tuple[Any, ...]:
    return played.run.stop, played.run.output, len(played.model.asks)


@pytest.mark.parametrize(
    "last",
    [
        final(RIGHT),
        final({"total": "12.50", "currency": "EUR"}),
        final(json.dumps(RIGHT)),
        f"```json\n{json.dumps(RIGHT)}\n```",
        json.dumps(RIGHT),
        f"Here it is: {json.dumps(RIGHT)}",
    ],
)
def test_a_valid_last_turn_needs_no_second_call(last: str, tmp_path: Path) -> None:
    played = play([last], tmp_path, response_format=SCHEMA)
    assert ended(played) == ("answered", RIGHT, 1)
    assert played.result.text == json.dumps(RIGHT)


def test_a_wrong_answer_is_asked_for_and_repaired_with_its_problems(tmp_path: Path) -> None:
    played = play([final(WRONG), json.dumps(WRONG), json.dumps(RIGHT)], tmp_path, response_format=SCHEMA)
    assert ended(played) == ("answered", RIGHT, 3)
    asked, repaired = (json.loads(ask.messages[-1].body)["content"] for ask in played.model.asks[1:])
    assert "total" in asked
    assert "currency" in asked
    assert "- total: expected number, got 'twelve'" in repaired
    assert "- currency: expected one of 'EUR', 'USD', got 'GBP'" in repaired
    for ask in played.model.asks[1:]:
        assert ask.schema is not None
        assert set(ask.schema["properties"]) == {"total", "currency"}
        assert ask.max_tokens == played.run.limits.answer_tokens


@pytest.mark.parametrize("repairs", [0, 1, 3])
def test_repairs_are_bounded_and_nothing_wrong_comes_out(repairs: int, tmp_path: Path) -> None:
    played = play([final(WRONG)] + [json.dumps(WRONG)] * 9, tmp_path, response_format=SCHEMA, repairs=repairs)
    assert ended(played) == ("schema_unsatisfied", None, 2 + repairs)
    assert "total: expected number, got 'twelve'" in played.run.detail
    assert (played.result.output, played.result.text) == (None, "")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [("no JSON at all", "it is not JSON"), ("", "it is not JSON"), (cut('{"total": 12.5, "curr'), CUT_OFF)],
)
def test_what_is_not_json_or_not_whole_is_repaired(answer: Any, problem: str, tmp_path: Path) -> None:
    played = play(["Let me think.", answer, json.dumps(RIGHT)], tmp_path, response_format=SCHEMA)
    assert ended(played) == ("answered", RIGHT, 3)
    assert f"- {problem}" in json.loads(played.model.asks[2].messages[-1].body)["content"]
    was_cut = isinstance(answer, Reply)
    assert played.model.asks[2].extra == ({"frequency_penalty": LOOP_PENALTY} if was_cut else {})


def test_an_answer_in_the_reasoning_field_counts(tmp_path: Path) -> None:
    reply = Reply("", json.dumps(RIGHT), finish_reason="stop")
    assert ended(play([final(WRONG), reply], tmp_path, response_format=SCHEMA)) == ("answered", RIGHT, 2)


def test_a_limit_stays_the_reason_when_the_answer_is_wrong_too(tmp_path: Path) -> None:
    steps = [act("calculate", expression="1/0")]
    played = play([*steps, json.dumps(RIGHT)], tmp_path, response_format=SCHEMA, steps=1)
    assert ended(played) == ("steps", RIGHT, 2)
    played = play([*steps, *[json.dumps(WRONG)] * 3], tmp_path, response_format=SCHEMA, steps=1)
    assert ended(played) == ("steps", None, 4)
    assert played.run.detail == "1 turns were used"
    played = play([*steps, ModelBroke("gone")], tmp_path, response_format=SCHEMA, steps=1)
    assert ended(played) == ("steps", None, 2)


def test_a_broken_model_in_the_answer_is_the_reason_when_there_is_no_other(tmp_path: Path) -> None:
    played = play([final(WRONG), ModelBroke("gone")], tmp_path, response_format=SCHEMA)
    assert (played.run.stop, played.run.detail) == ("model_failed", "gone")


@pytest.mark.parametrize(
    ("said", "text"),
    [("Four.", "Four."), (final("Four."), "Four."), ("<think>2+2</think>Four.", "Four."), ('{"answer": "4"}', "4")],
)
def test_a_text_answer_is_unwrapped(said: str, text: str, tmp_path: Path) -> None:
    played = play([act("nothing"), said], tmp_path, steps=1)
    assert ended(played) == ("steps", text, 2)


def test_a_text_that_was_cut_is_the_best_there_is(tmp_path: Path) -> None:
    played = play([cut('{"final": "It s'), cut("It says that")], tmp_path)
    assert ended(played) == ("answered", "It says that", 2)


def test_an_empty_text_is_no_answer(tmp_path: Path) -> None:
    played = play([final(" "), "", "", ""], tmp_path)
    assert ended(played) == ("schema_unsatisfied", None, 4)
    assert played.run.detail == "the answer is empty"


def test_native_answers_keep_the_tools_but_switch_them_off(tmp_path: Path) -> None:
    played = play(["no", json.dumps(RIGHT)], tmp_path, native=True, response_format=SCHEMA)
    assert ended(played) == ("answered", RIGHT, 2)
    first, second = played.model.asks
    assert (first.tool_choice, second.tool_choice) == ("auto", "none")
    assert list(first.tools) == list(second.tools) != []


# ---- python types -----------------------------------------------------------------------------------------------


def test_a_model_class_comes_back_as_an_object(tmp_path: Path) -> None:
    played = play([final({"number": "R-1", "total": 3})], tmp_path, response_format=Invoice)
    assert played.result.output == Invoice(number="R-1", total=3)
    assert played.run.output == {"number": "R-1", "total": 3}


@pytest.mark.parametrize(
    ("asked", "answer", "output"),
    [
        (list[int], [1, 2], [1, 2]),
        (int, 3, 3),
        (Invoice | None, {"number": "R-1", "total": 1}, Invoice(number="R-1", total=1)),
        (dict[str, float], {"a": 1.5}, {"a": 1.5}),
    ],
)
def test_any_annotated_type_may_be_asked_for(asked: Any, answer: Any, output: Any, tmp_path: Path) -> None:
    assert play([final(answer)], tmp_path, response_format=asked).result.output == output


def test_validators_of_the_class_are_repaired_like_the_schema(tmp_path: Path) -> None:
    wrong, right = {"number": "17", "total": 3}, {"number": "R-17", "total": 3}
    played = play([final(wrong), json.dumps(wrong), json.dumps(right)], tmp_path, response_format=Invoice)
    assert ended(played) == ("answered", right, 3)
    assert played.result.output == Invoice(number="R-17", total=3)
    assert "an invoice number begins with R-" in json.loads(played.model.asks[2].messages[-1].body)["content"]


def test_a_validator_that_never_agrees_leaves_no_output(tmp_path: Path) -> None:
    wrong = {"start": 5, "end": 1}
    played = play([final(wrong)] + [json.dumps(wrong)] * 5, tmp_path, response_format=Span, repairs=1)
    assert ended(played) == ("schema_unsatisfied", None, 3)
    assert "end lies before start" in played.run.detail
    assert played.result.output is None
    assert read_trace(played.result.trace) == played.run


class Rate(BaseModel):
    parts: int

    @field_validator("parts")
    @classmethod
    def _share(cls, parts: int) -> int:
        return 100 // parts


def test_a_validator_with_a_fault_of_its_own_ends_the_run_and_not_the_program(tmp_path: Path) -> None:
    played = play([final({"parts": 0})] + ['{"parts": 0}'] * 5, tmp_path, response_format=Rate, repairs=1)
    assert ended(played) == ("schema_unsatisfied", None, 3)
    assert "ZeroDivisionError" in played.run.detail


# ---- references -------------------------------------------------------------------------------------------------

PICTURES = {
    "type": "object",
    "properties": {
        "best": {"type": "string", "pattern": "^img_[0-9a-f]{6}$"},
        "all": {"type": "array", "items": {"type": "string", "format": "artifact"}},
    },
    "required": ["best"],
    "additionalProperties": False,
}


def paint(shade: int) -> Image.Image:
    """Paint."""
    return Image.new("L", (40, 30), shade)


def test_ids_made_later_may_be_answered_and_no_others(tmp_path: Path) -> None:
    first = play([act("paint", shade=7), final({"best": "img_ffffff"})], tmp_path / "a", tools=[paint], repairs=0)
    (id_,) = first.result.made
    answer = {"best": id_, "all": [id_]}
    played = play(
        [act("paint", shade=7), final({"best": "img_ffffff"}), json.dumps({"best": "img_eeeeee"}), json.dumps(answer)],
        tmp_path / "b",
        tools=[paint],
        response_format=PICTURES,
    )
    assert ended(played) == ("answered", answer, 4)
    before, after, asked, repair = played.model.asks
    assert '"const": "ready"' in json.dumps(before.schema)
    assert f'"enum": ["{id_}"]' in json.dumps(after.schema)
    assert asked.schema is not None
    assert asked.schema["properties"]["best"]["enum"] == [id_]
    assert f"there is no image 'img_eeeeee'; known: {id_}" in json.loads(repair.messages[-1].body)["content"]


def test_a_reference_to_what_was_never_made_cannot_be_answered(tmp_path: Path) -> None:
    played = play([final("ready")], tmp_path, tools=[paint], response_format=PICTURES)
    assert ended(played) == ("schema_unsatisfied", None, 1)
    assert "image" in played.run.detail


def test_accept_judges_by_the_ids_of_the_moment(tmp_path: Path) -> None:
    with job_of(tmp_path) as job:
        job.output, job.output_refers = OutputSchema.prepare(PICTURES), True
        picture = attach(job, b"png", "image", None, width=1, height=1)
        assert accept(job, {"best": picture.id}) == ({"best": picture.id}, [])
        assert accept(job, json.dumps({"best": picture.id}))[1] == []
        assert len(accept(job, {"best": "img_000000"})[1]) == 1


# ---- schemas of every shape -------------------------------------------------------------------------------------

SHAPES = [
    ({"anyOf": [{"type": "integer"}, {"type": "object", "properties": {"why": {"type": "string"}}}]}, 3, "x"),
    (
        {
            "type": "object",
            "properties": {"next": {"$ref": "#"}, "value": {"type": "integer"}},
            "required": ["value"],
            "additionalProperties": False,
        },
        {"value": 1, "next": {"value": 2}},
        {"value": 1, "next": {"value": "two"}},
    ),
    ({"type": "string", "pattern": "^[A-Z]{2}[0-9]+$"}, "DE44", "de44"),
    ({"type": "array", "items": {"type": "string", "format": "date"}, "minItems": 1}, ["2026-02-28"], ["2026-02-30"]),
    ({"type": "object", "properties": {"größe": {"const": "groß"}}, "required": ["größe"]}, {"größe": "groß"}, {}),
]


@pytest.mark.parametrize(("schema", "right", "wrong"), SHAPES)
@pytest.mark.parametrize("native", [False, True])
def test_shapes_of_schemas(schema: dict[str, Any], right: Any, wrong: Any, native: bool, tmp_path: Path) -> None:
    whole = json.dumps(right, ensure_ascii=False)
    first = whole if native else final(right)
    assert ended(play([first], tmp_path, native=native, response_format=schema)) == ("answered", right, 1)
    bad = json.dumps(wrong)
    replies = [bad if native else final(wrong), bad, whole]
    assert ended(play(replies, tmp_path, native=native, response_format=schema)) == ("answered", right, 3)


def test_what_no_grammar_checks_is_told(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "multipleOf": 7}}, "required": ["n"]}
    played = play([final({"n": 8}), '{"n": 14}'], tmp_path, response_format=schema)
    assert ended(played) == ("answered", {"n": 14}, 2)
    assert played.run.unchecked_by_grammar == list(OutputSchema.prepare(schema).unchecked)


def test_a_tool_call_is_no_answer(tmp_path: Path) -> None:
    """At a limit a small model may go on with actions: they are never given out as the answer."""
    played = play([act("calculate", expression="1 + 1")] * 4, tmp_path, steps=1)
    assert (played.run.stop, played.run.output) == ("steps", None)
    assert played.run.detail == "1 turns were used"
