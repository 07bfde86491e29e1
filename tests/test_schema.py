"""Schemas that are refused, lowered and judged."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator

from orion.errors import SchemaError
from orion.schema import MAX_PROBLEMS, OutputSchema, from_response_format
from orion.schema_formats import CHECKS
from orion.schema_grammar import SUPPORT, Dialect
from orion.schema_refuse import MAX_DEPTH


def obj(*optional: str, **properties: Any) -> dict[str, Any]:
    """An object schema; every property is required but the `optional` ones."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for level in range(depth):
        schema = obj(**{f"k{level}": schema})
    return schema


NODE = obj(value={"type": "integer"}, next={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})
LINKED = {**NODE, "$defs": {"node": NODE}}


@pytest.mark.parametrize(
    ("schema", "param", "word"),
    [
        ([], "", "JSON object"),
        ("string", "", "JSON object"),
        ({}, "", "says nothing"),
        ({"title": "x", "description": "y"}, "", "says nothing"),
        (True, "", "says nothing"),
        (False, "", "accepts nothing"),
        ({"type": "strng"}, "/type", "strng"),
        (obj(a={"type": ["string", "nul"]}), "/properties/a/type", "nul"),
        (obj(a={"type": "string", "minLength": "3"}), "/properties/a/minLength", "valid schema"),
        (obj(a={"properties": []}), "/properties/a/properties", "valid schema"),
        ({"type": "object", "required": "a"}, "/required", "valid schema"),
        (obj(a={"$ref": "https://example.com/s.json"}), "/properties/a/$ref", "not local"),
        (obj(a={"$ref": "other.json#/x"}), "/properties/a/$ref", "not local"),
        (obj(a={"$ref": "#/$defs/none"}), "/properties/a/$ref", "names nothing"),
        (obj(a={"$ref": "#none"}), "/properties/a/$ref", "names nothing"),
        ({"$ref": "#"}, "", "back to itself"),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
            "/$defs/a",
            "itself",
        ),
        ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "", "back to itself"),
        (obj(next={"$ref": "#"}), "", "without end"),
        (obj(a={"$dynamicRef": "#x"}), "/properties/a/$dynamicRef", "not supported"),
        (obj(a={"type": "string", "pattern": "[a"}), "/properties/a/pattern", "does not compile"),
        (obj(a={"type": "string", "pattern": r"^\p{L}+$"}), "/properties/a/pattern", "ECMAScript"),
        (obj(a={"patternProperties": {"(": {}}}), "/properties/a/patternProperties/(", "does not compile"),
        (obj(a={"enum": []}), "/properties/a/enum", "no values"),
        (obj(a={"type": "integer", "minimum": 5, "maximum": 4}), "/properties/a/minimum", "above"),
        (obj(a={"type": "integer", "minimum": 5, "exclusiveMaximum": 5}), "/properties/a/minimum", "no value"),
        (obj(a={"type": "string", "minLength": 5, "maxLength": 4}), "/properties/a/minLength", "above"),
        (obj(a={"type": "array", "minItems": 2, "maxItems": 1}), "/properties/a/minItems", "above"),
        ({"type": "object", "required": ["a"], "additionalProperties": False}, "/required", "'a'"),
        (obj(a={"type": "string", "description": "x" * 100_001}), "", "bytes"),
        (nested(MAX_DEPTH + 1), None, "deep"),
        ({"type": "object", "properties": {1: {"type": "string"}}}, "/properties", "not a string"),
        (obj(a={"enum": [float("nan")]}), "/properties/a/enum/0", "JSON value"),
        (obj(a={"enum": [{1, 2}]}), "/properties/a/enum/0", "JSON value"),
        ({"$schema": "https://example.com/mine", "type": "object"}, "/$schema", "version"),
        (obj(**{"a/b": {"type": "x"}}), "/properties/a~1b/type", "'x'"),
    ],
)
def test_refused_before_any_model_call(schema: Any, param: str | None, word: str) -> None:
    with pytest.raises(SchemaError) as caught:
        OutputSchema.prepare(schema)
    assert word in str(caught.value)
    assert caught.value.fix
    assert param is None or caught.value.param == param


def test_a_schema_that_holds_itself_is_refused_not_followed_for_ever() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    schema["properties"]["self"] = schema
    with pytest.raises(SchemaError, match="deep"):
        OutputSchema.prepare(schema)


CASES: list[tuple[dict[str, Any], Any, Any]] = [
    (LINKED, {"value": 1, "next": {"value": 2, "next": None}}, {"value": 1, "next": {"value": "x", "next": None}}),
    (obj(next={"anyOf": [{"$ref": "#"}, {"type": "null"}]}), {"next": {"next": None}}, {"next": 3}),
    (nested(20), json.loads('{"k19":' + "".join(f'{{"k{n}":' for n in range(18, -1, -1)) + "1" + "}" * 20), {"k19": 1}),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 1}, [1], []),
    ({"type": "string"}, "x", 3),
    ({"anyOf": [obj(a={"type": "integer"}), obj(b={"type": "string"})]}, {"b": "x"}, {"c": 1}),
    (obj(größe={"type": "integer"}, 价格={"type": "number"}), {"größe": 1, "价格": 2.5}, {"größe": 1}),
    (obj(a={"enum": ["x", 1, None, {"k": [1]}]}), {"a": {"k": [1]}}, {"a": {"k": [2]}}),
    (obj(a={"const": "fixed"}), {"a": "fixed"}, {"a": "other"}),
    (obj(a={"$ref": "#num"}) | {"$defs": {"n": {"$anchor": "num", "type": "number"}}}, {"a": 1}, {"a": "1x"}),
    (
        {
            "$id": "https://example.com/s",
            **obj(a={"$ref": "https://example.com/s#/$defs/n"}),
            "$defs": {"n": {"type": "number"}},
        },
        {"a": 1},
        {"a": "x"},
    ),
    (obj(a={"allOf": [{"type": "integer"}, {"minimum": 5}]}), {"a": 5}, {"a": 4}),
    (obj(a={"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 5}]}), {"a": 3}, {"a": 7}),
    (obj(a={"not": {"const": 1}, "type": "integer"}), {"a": 2}, {"a": 1}),
    (
        {"type": "object", "patternProperties": {"^x_": {"type": "integer"}}, "additionalProperties": False},
        {"x_1": 1},
        {"y": 1},
    ),
    (
        obj(a={"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False}),
        {"a": ["x", 1]},
        {"a": [1]},
    ),
    (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            **obj(a={"items": [{"type": "string"}], "additionalItems": False}),
        },
        {"a": ["x"]},
        {"a": ["x", 2]},
    ),
    (obj(a={"type": "string", "format": "date"}), {"a": "2026-02-28"}, {"a": "2026-02-30"}),
    (obj(a={"type": ["string", "null"], "pattern": "^[A-Z]+$"}), {"a": None}, {"a": "abc"}),
    (obj(a=True), {"a": [1]}, {}),
]


@pytest.mark.parametrize("dialect", sorted(SUPPORT))
@pytest.mark.parametrize(("schema", "good", "bad"), CASES)
def test_prepared_and_judged(schema: dict[str, Any], good: Any, bad: Any, dialect: Dialect) -> None:
    before = copy.deepcopy(schema)
    asked = OutputSchema.prepare(schema, dialect=dialect)
    assert asked.problems(good) == []
    assert asked.problems(bad)
    assert asked.coerce(good) == good
    assert schema == before
    # The grammar is a schema that stands alone, refuses nothing we mean, and lets the good value through.
    again = OutputSchema.prepare(asked.grammar)
    if dialect == "plain" or "patternProperties" not in str(schema):
        assert again.problems(good) == []


@pytest.mark.parametrize(
    ("node", "dialect", "kept", "unchecked"),
    [
        ({"type": "string", "pattern": "^[A-Z]{3}$"}, "llguidance", {"type": "string"}, ["pattern"]),
        ({"type": "string", "pattern": "^[A-Z]{3}$"}, "xgrammar", {"type": "string", "pattern": "^[A-Z]{3}$"}, []),
        ({"type": "string", "pattern": "^(?=A).*$"}, "xgrammar", {"type": "string"}, ["pattern"]),
        ({"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"}, "llguidance", {"type": "string", "format": "date"}, []),
        ({"type": "string", "format": "email"}, "llguidance", {"type": "string"}, ["format"]),
        ({"type": "string", "format": "email"}, "xgrammar", {"type": "string", "format": "email"}, []),
        (
            {"type": "string", "format": "date", "maxLength": 10},
            "xgrammar",
            {"type": "string", "format": "date"},
            ["maxLength"],
        ),
        (
            {"type": "string", "minLength": 2, "maxLength": 5},
            "llguidance",
            {"type": "string", "minLength": 2, "maxLength": 5},
            [],
        ),
        ({"type": "string", "minLength": 2}, "plain", {"type": "string"}, ["minLength"]),
        ({"type": "integer", "minimum": 1}, "llguidance", {"type": "integer", "minimum": 1}, []),
        ({"type": "number", "minimum": 1}, "llguidance", {"type": "number"}, ["minimum"]),
        ({"type": "integer", "multipleOf": 5}, "xgrammar", {"type": "integer"}, ["multipleOf"]),
        (
            {"type": "array", "items": {"type": "null"}, "uniqueItems": True, "minItems": 1},
            "xgrammar",
            {"type": "array", "minItems": 1, "items": {"type": "null"}},
            ["uniqueItems"],
        ),
        (
            {"type": "integer", "title": "T", "description": "D", "default": 3, "x-mine": 1},
            "plain",
            {"type": "integer"},
            [],
        ),
        ({"type": "string", "enum": ["a", 1]}, "llguidance", {"enum": ["a"]}, []),
        ({"allOf": [{"type": "integer"}, {"minimum": 5}]}, "llguidance", {"type": "integer", "minimum": 5}, []),
        (
            {"oneOf": [{"type": "integer"}, {"type": "null"}]},
            "llguidance",
            {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            ["oneOf"],
        ),
        (
            obj("b", a={"type": "null"}, b={"type": "null"}) | {"dependentRequired": {"a": ["b"]}},
            "llguidance",
            {**obj("b", a={"type": "null"}, b={"type": "null"}), "additionalProperties": False},
            ["dependentRequired"],
        ),
        ({"type": "object"}, "llguidance", {"type": "object"}, []),
        (True, "llguidance", {}, []),
    ],
)
def test_lowering(node: Any, dialect: Dialect, kept: dict[str, Any], unchecked: list[str]) -> None:
    asked = OutputSchema.prepare(obj(a=node), dialect=dialect)
    assert asked.grammar["properties"]["a"] == kept
    assert list(asked.unchecked) == [f"/properties/a/{keyword}" for keyword in unchecked]


def test_keywords_beside_a_ref_are_checked_after() -> None:
    schema = obj(a={"$ref": "#/$defs/n", "minimum": 5, "description": "x"}) | {"$defs": {"n": {"type": "integer"}}}
    asked = OutputSchema.prepare(schema)
    assert asked.grammar["properties"]["a"] == {"$ref": "#/$defs/d1"}
    assert asked.grammar["$defs"] == {"d1": {"type": "integer"}}
    assert asked.unchecked == ("/properties/a/minimum",)
    assert asked.problems({"a": 4})


IDS = {"image": ["img_1a2b3c", "img_00ff00"], "document": ["doc_0a0b0c"]}


@pytest.mark.parametrize("pattern", [r"^img_\w{6}$", "^img_[a-z0-9]{6}$", r"img_\w{6}", "^img_[0-9a-f]{6}$"])
def test_reference_fields_become_the_ids_of_this_run(pattern: str) -> None:
    asked = OutputSchema.prepare(obj(photo={"type": "string", "pattern": pattern}), ids=IDS)
    assert asked.grammar["properties"]["photo"] == {"enum": IDS["image"]}
    assert asked.unchecked == ()
    assert asked.problems({"photo": "img_1a2b3c"}) == []
    assert asked.problems({"photo": "img_abcdef"}) == [
        "photo: there is no image 'img_abcdef'; known: img_1a2b3c, img_00ff00"
    ]


def test_references_of_any_kind_and_in_lists() -> None:
    schema = obj(files={"type": "array", "items": {"type": "string", "format": "artifact"}})
    asked = OutputSchema.prepare(schema, ids=IDS)
    assert asked.grammar["properties"]["files"]["items"] == {"enum": [*IDS["image"], *IDS["document"]]}
    assert asked.problems({"files": ["vid_123456"]})


def test_a_reference_that_this_run_cannot_meet() -> None:
    clip = {"type": "string", "pattern": r"^vid_\w{6}$"}
    assert "clip" not in OutputSchema.prepare(obj("clip", a={"type": "null"}, clip=clip), ids=IDS).grammar["properties"]
    nullable = OutputSchema.prepare(obj(clip={"anyOf": [clip, {"type": "null"}]}), ids=IDS)
    assert nullable.grammar["properties"]["clip"] == {"type": "null"}
    clips = OutputSchema.prepare(obj(clips={"type": "array", "items": clip}), ids=IDS)
    assert clips.grammar["properties"]["clips"] == {"type": "array", "maxItems": 0}
    with pytest.raises(SchemaError, match="no video") as caught:
        OutputSchema.prepare(obj(clip=clip), ids=IDS)
    assert caught.value.param == "/properties/clip"
    # Before a run nothing is known of its artifacts, so nothing is refused.
    assert OutputSchema.prepare(obj(clip=clip)).problems({"clip": "vid_123456"}) == []


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (obj(a={"type": "number"}), {"a": "abc"}, ["a: expected number, got 'abc'"]),
        (
            obj(items={"type": "array", "items": obj(amount={"type": "number"})}),
            {"items": [{"amount": 1}, {"amount": "x"}]},
            ["items[1].amount: expected number, got 'x'"],
        ),
        (obj(a={"type": "null"}, b={"type": "null"}), {}, ["the answer: missing 'a', 'b'"]),
        (obj(a={"enum": ["x", "y"]}), {"a": "z"}, ["a: expected one of 'x', 'y', got 'z'"]),
        (
            obj(a={"type": "null"}) | {"additionalProperties": False},
            {"a": None, "q": 1},
            ["the answer: unexpected field 'q'"],
        ),
        (obj(a={"type": "string", "format": "email"}), {"a": "nobody"}, ["a: 'nobody' is not a valid email"]),
        (obj(a={"type": "string", "pattern": "^A"}), {"a": "b"}, ["a: 'b' does not match the pattern ^A"]),
        (
            obj(a={"anyOf": [{"type": "integer"}, {"type": "null"}]}),
            {"a": "x"},
            ["a: expected integer or null, got 'x'"],
        ),
        (
            obj(a={"anyOf": [obj(n={"type": "integer"}), {"type": "null"}]}),
            {"a": {"n": "x"}},
            ["a.n: expected integer, got 'x'"],
        ),
        ({"type": "array"}, {}, ["the answer: expected array, got {}"]),
    ],
)
def test_problems_are_lines_a_model_can_act_on(schema: dict[str, Any], value: Any, expected: list[str]) -> None:
    assert OutputSchema.prepare(schema).problems(value) == expected


def test_problems_are_few_and_short() -> None:
    asked = OutputSchema.prepare({"type": "array", "items": {"type": "number"}})
    problems = asked.problems(["x" * 5000] * 100)
    assert len(problems) == MAX_PROBLEMS
    assert all(len(line) < 300 for line in problems)


@pytest.mark.parametrize(
    ("format_", "good", "bad"),
    [
        ("date", "2024-02-29", "2025-02-29"),
        ("time", "09:30:00Z", "9:30"),
        ("date-time", "2026-03-01T09:30:00+01:00", "2026-03-01 25:00:00Z"),
        ("duration", "P3DT4H", "3 days"),
        ("email", "a.b@example.com", "a@b@"),
        ("idn-email", "größe@example.com", "none"),
        ("hostname", "a-b.example", "-a.example"),
        ("idn-hostname", "bücher.example", "a b"),
        ("ipv4", "192.0.2.1", "192.0.2.256"),
        ("ipv6", "2001:db8::1", "2001::db8::1"),
        ("uri", "https://example.com/a?b=c", "example.com/a b"),
        ("uri-reference", "/a/b", "a b"),
        ("iri", "https://example.com/größe", "größe"),
        ("iri-reference", "/größe", "a b"),
        ("uuid", "12345678-1234-5678-1234-567812345678", "1234567812345678123456781234567812345678"),
        ("json-pointer", "/a~1b", "a"),
        ("regex", "^a+$", "[a"),
        ("json", '{"a": 1}', "{a}"),
    ],
)
def test_every_format_is_really_checked(format_: str, good: str, bad: str) -> None:
    asked = OutputSchema.prepare({"type": "string", "format": format_})
    assert asked.problems(good) == []
    assert asked.problems(bad) == [f"the answer: {bad!r} is not a valid {format_}"]


@pytest.mark.parametrize("format_", sorted(CHECKS))
@given(text=st.text(max_size=40))
def test_format_checks_never_raise(format_: str, text: str) -> None:
    assert CHECKS[format_](text) in (True, False)


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (obj(a={"type": "number"}), {"a": "12.50"}, {"a": 12.5}),
        (obj(a={"type": "number"}), {"a": "12,50"}, {"a": "12,50"}),
        (obj(a={"type": "number"}), {"a": "$12"}, {"a": "$12"}),
        (obj(a={"type": "integer"}), {"a": 5.0}, {"a": 5}),
        (obj(a={"type": "integer"}), {"a": "5.0"}, {"a": 5}),
        (obj(a={"type": "integer"}), {"a": 5.5}, {"a": 5.5}),
        (obj(a={"type": "boolean"}), {"a": "True"}, {"a": True}),
        (obj(a={"type": "boolean"}), {"a": 1}, {"a": 1}),
        (obj(a={"type": "string"}), {"a": 117}, {"a": "117"}),
        (obj(a={"type": "string"}), {"a": True}, {"a": True}),
        (obj(a={"type": ["string", "number"]}), {"a": "5"}, {"a": "5"}),
        (obj(a={"type": ["number", "null"]}), {"a": "null"}, {"a": None}),
        (obj(a={"anyOf": [{"type": "number"}, {"type": "null"}]}), {"a": "3"}, {"a": 3}),
        (obj(a={"anyOf": [{"type": "number"}, {"type": "null"}]}), {}, {"a": None}),
        (obj(a={"type": "number"}), {}, {}),
        (obj("a", a={"type": "number"}), {"a": None}, {}),
        (obj(a={"enum": ["paid", "open"]}), {"a": " Paid "}, {"a": "paid"}),
        ({"type": "array", "items": obj(n={"type": "integer"})}, {"n": "1"}, [{"n": 1}]),
        (obj(a={"type": "array", "items": {"type": "integer"}}), {"a": "[1, 2]"}, {"a": [1, 2]}),
        (LINKED, {"value": "1", "next": {"value": "2"}}, {"value": 1, "next": {"value": 2, "next": None}}),
    ],
)
def test_coerce_keeps_the_meaning(schema: dict[str, Any], value: Any, expected: Any) -> None:
    fixed = OutputSchema.prepare(schema).coerce(value)
    assert json.dumps(fixed) == json.dumps(expected)


def test_outline_is_short_and_names_everything() -> None:
    schema = obj(
        "note",
        invoice_number={"type": "string"},
        date={"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$", "description": "day of issue"},
        status={"enum": ["paid", "open"]},
        items={"type": "array", "items": obj(item={"type": "string"}, quantity={"type": "number"})},
        scan={"type": "string", "pattern": r"^img_\w{6}$"},
        note={"anyOf": [{"type": "string", "maxLength": 80}, {"type": "null"}]},
    )
    assert OutputSchema.prepare(schema).outline().splitlines() == [
        "invoice_number: string",
        "date: string (YYYY-MM-DD) — day of issue",
        'status: "paid" | "open"',
        "items: list of {item: string, quantity: number}",
        "scan: string (id of image)",
        "note?: string (at most 80 characters) or null",
    ]


def test_outline_of_deep_recursive_and_other_shapes() -> None:
    assert OutputSchema.prepare(LINKED).outline() == (
        "value: integer\nnext: {value: integer, next: same as node or null} or null"
    )
    assert OutputSchema.prepare({"type": "array", "items": {"type": "integer"}, "minItems": 2}).outline() == (
        "list (at least 2) of integer"
    )
    long = obj(**{f"field_{n}": {"type": "string", "description": "d" * 200} for n in range(200)})
    outline = OutputSchema.prepare(long).outline(600)
    assert len(outline) <= 600
    assert outline.endswith("\n…")
    inner = obj(**{f"a_rather_long_name_{n}": {"type": "string"} for n in range(5)})
    assert OutputSchema.prepare(obj(a=inner)).outline().splitlines()[:2] == [
        "a: object",
        "  a_rather_long_name_0: string",
    ]


class Line(BaseModel):
    item: str
    amount: float = Field(ge=0)


class Invoice(BaseModel):
    number: str
    day: date
    lines: list[Line] = []
    parent: Invoice | None = None

    @field_validator("number")
    @classmethod
    def has_a_digit(cls, number: str) -> str:
        if not any(char.isdigit() for char in number):
            raise ValueError("no digit in it")
        return number


def test_a_pydantic_class_gives_its_objects() -> None:
    asked = from_response_format(Invoice)
    prepared = OutputSchema.prepare(asked.schema)
    value = {"number": "A1", "day": "2026-03-01", "lines": [{"item": "pen", "amount": 2}]}
    assert prepared.problems(value) == []
    assert asked.load(value) == Invoice(number="A1", day=date(2026, 3, 1), lines=[Line(item="pen", amount=2)])
    with pytest.raises(SchemaError, match="no digit"):
        asked.load({**value, "number": "none"})
    assert from_response_format(list[Line]).load([{"item": "pen", "amount": 2}]) == [Line(item="pen", amount=2)]


BARE = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    ("asked", "schema"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "object"}),
        (BARE, BARE),
        ({"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": BARE}}, BARE),
        ({"type": "json_schema", "schema": BARE}, BARE),
        ({"type": "json_schema", "json_schema": BARE}, BARE),
        ({"type": "json_schema", "json_schema": {"name": "x", **BARE}}, BARE),
    ],
)
def test_every_spelling_of_response_format(asked: Any, schema: Any) -> None:
    read = from_response_format(asked)
    assert read.schema == schema
    assert read.load({"a": "b"}) == {"a": "b"}


@pytest.mark.parametrize(
    "asked",
    [
        {"type": "json_schema"},
        {"type": "structural_tag"},
        {"type": "json_schema", "json_schema": {"name": "x"}},
        "json",
        3,
        [1],
    ],
)
def test_what_is_no_response_format(asked: Any) -> None:
    with pytest.raises(SchemaError):
        from_response_format(asked)


names = st.sampled_from(["a", "b", "größe", "x y"])
types = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null", "strng"])
bound = st.integers(-3, 9)


def deeper(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": types | st.lists(types, max_size=3),
            "properties": st.dictionaries(names, inner, max_size=3),
            "required": st.lists(names, unique=True, max_size=2),
            "additionalProperties": inner,
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "minItems": bound,
            "maxItems": bound,
            "minimum": bound,
            "maximum": bound,
            "minLength": bound,
            "enum": st.lists(st.none() | st.integers(0, 3) | names, max_size=3),
            "anyOf": st.lists(inner, max_size=3),
            "allOf": st.lists(inner, max_size=2),
            "oneOf": st.lists(inner, max_size=2),
            "not": inner,
            "pattern": st.sampled_from(["^a", "[", r"^img_\w{6}$"]),
            "format": st.sampled_from(["date", "email", "artifact", "unknown"]),
            "$ref": st.sampled_from(["#", "#/$defs/a", "#/properties/a", "http://x"]),
            "$defs": st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
            "description": st.text(max_size=5),
        },
    )


schemas = st.recursive(st.booleans() | st.builds(lambda name: {"type": name}, types), deeper, max_leaves=6)
scalars = st.none() | st.booleans() | st.integers(-3, 9) | st.floats(allow_nan=False) | st.text(max_size=4) | names
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=6
)


@settings(max_examples=300, deadline=None)
@given(schema=schemas, value=values, ids=st.sampled_from([{}, IDS]), dialect=st.sampled_from(sorted(SUPPORT)))
def test_any_schema_is_refused_or_prepared(schema: Any, value: Any, ids: Any, dialect: Dialect) -> None:
    try:
        asked = OutputSchema.prepare(schema, dialect=dialect, ids=ids)
    except SchemaError as error:
        fix = error.fix
        asked = None
    if asked is None:
        assert fix
        return
    json.dumps(asked.grammar)
    asked.outline()
    fixed = asked.coerce(value)
    if not asked.problems(value):
        assert fixed == value
    assert asked.coerce(fixed) == fixed


def test_importing_costs_nothing_heavy() -> None:
    code = (
        "import sys, orion.schema, orion.salvage; print([m for m in ('jsonschema', 'referencing') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_the_deepest_schema_allowed_works_throughout() -> None:
    asked = OutputSchema.prepare(nested(MAX_DEPTH))
    value: Any = "1"
    for level in range(MAX_DEPTH):
        value = {f"k{level}": value}
    assert asked.problems(value)
    assert asked.problems(asked.coerce(value)) == []
    assert asked.outline()


def test_an_answer_nested_without_end_is_a_problem_not_a_crash() -> None:
    asked = OutputSchema.prepare(LINKED)
    value: Any = None
    for _level in range(3000):
        value = {"value": "1", "next": value}
    asked.coerce(value)
    assert asked.problems(value)


def test_a_pattern_that_backtracks_without_end_is_checked_at_once() -> None:
    asked = OutputSchema.prepare({"type": "string", "pattern": "^(a+)+$"})
    assert asked.problems("a" * 40 + "!")
    assert asked.problems("a" * 40) == []


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        (r"^\d{3}$", "123", True),
        (r"^\d{3}$", "123\n", False),  # as ECMAScript has it: `$` is the end
        (r"b", "abc", True),
        (r"^(?!x)a", "ab", True),
        (r"(a)\1", "aa", True),
        (r"a{0,2}\<", "a<", True),
        (r"\<a", "<a", True),
        (r"^[\w ]+$", "größe ü", True),
    ],
)
def test_patterns_mean_what_they_mean_to_python(pattern: str, text: str, fits: bool) -> None:
    assert (OutputSchema.prepare({"type": "string", "pattern": pattern}).problems(text) == []) is fits


def test_a_number_beyond_a_float_is_no_number() -> None:
    assert OutputSchema.prepare({"type": "number"}).coerce("1e999") == "1e999"


@pytest.mark.parametrize("asked", [print, lambda text: text, "text".upper])
def test_a_function_is_no_response_format(asked: Any) -> None:
    with pytest.raises(SchemaError, match="is not a response format"):
        from_response_format(asked)
