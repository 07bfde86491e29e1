"""What weak models write, and what it means."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orion.run import Call
from orion.salvage import MAX_CALLS, MISSING, find_calls, find_final, parse_json, split_think

CORPUS = Path(__file__).parent / "corpus"
KNOWN = ("crop", "ocr", "rotate", "find_text")
OCR = Call(tool="ocr", arguments={"image": "img_1a2b3c"})


def corpus(name: str) -> str:
    return (CORPUS / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "invoice_truncated",
            {
                "invoice_number": "2026-0117",
                "total": 118.0,
                "items": [{"item": "Paper A4", "quantity": 10, "amount": 48.0}, {"item": "Toner bla"}],
            },
        ),
        (
            "invoice_python_literal",
            {
                "invoice_number": "2026-0117",
                "total": 118.0,
                "paid": False,
                "due": None,
                "size": [210, 297],
                "note": "it's final",
            },
        ),
        ("rows_without_opening_bracket", [{"item": "Paper A4", "amount": 48.0}, {"item": "Toner", "amount": 70.0}]),
        ("empty_lists", []),
        ("comments_and_smart_quotes", {"invoice_number": "2026-0117", "total": 118.0, "vat": None}),
        ("schema_echo_then_answer", {"total": 118.0}),
        ("inner_quotes", {"title": 'The "Blue" Hour', "page": 3}),
        ("mention_only", MISSING),
    ],
)
def test_json_of_the_corpus(name: str, expected: object) -> None:
    assert parse_json(corpus(name)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ("```\n[1, 2]\n```\nDone.", [1, 2]),
        ('{{"a": 1}}', {"a": 1}),
        ('{{"a": {{"b": 1}}}}', {"a": {"b": 1}}),
        ('{"a": {"b": [1, 2', {"a": {"b": [1, 2]}}),
        ('{"a": [1, 2}', {"a": [1, 2]}),
        ('{"a": "cut he', {"a": "cut he"}),
        ('{"a": 1, "b', {"a": 1}),
        ('{"a": 1, "b":', {"a": 1}),
        ('{"a": tru', {"a": True}),
        ('{"a": 1,}', {"a": 1}),
        ('{"a": 1 "b": 2}', {"a": 1, "b": 2}),
        ('{"a": "x"\n "b": 2}', {"a": "x", "b": 2}),
        ("{'a': True, 'b': None}", {"a": True, "b": None}),
        ("{a: 1, b: 'x'}", {"a": 1, "b": "x"}),
        ('{"day": 2026-03-01, "share": 5%}', {"day": "2026-03-01", "share": "5%"}),
        ('{"zip": 00123}', {"zip": "00123"}),
        ('{"n": 1e999}', {"n": "1e999"}),
        ('{"n": ' + "9" * 5000 + "}", {"n": "9" * 5000}),
        ('{"s": "a\nb"}', {"s": "a\nb"}),
        ('{"path": "C:\\work"}', {"path": "C:\\work"}),
        ('{"s": "\\ud800"}', {"s": "\ufffd"}),
        ('{"s": "\\ud83d\\ude00"}', {"s": "😀"}),
        ('{"a": 1}\n{"a": 2}', {"a": 2}),
        ('{"a": 1}\n{}', {"a": 1}),
        ('<think>{"a": 1}</think>{"a": 2}', {"a": 2}),
        ('<think>so {"a": 1}', {"a": 1}),
        ("The values: [1, 2, 3]", [1, 2, 3]),
        ("As shown in [1].", MISSING),
        ('[#12] says:\n{"a": 1}', {"a": 1}),
        ('See [the docs](there) {x and} {"a": 1}', {"a": 1}),
        ("42", 42),
        ("null", None),
        ('"text"', "text"),
        ("about 42", MISSING),
        ("", MISSING),
    ],
)
def test_parse_json(text: str, expected: object) -> None:
    value = parse_json(text)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("text", "want", "expected"),
    [
        ('{"a": 1}', "array", [{"a": 1}]),
        ('{"a": 1}\n{"a": 2}', "array", [{"a": 1}, {"a": 2}]),
        ('[{"a": 1}]', "object", {"a": 1}),
        ('[{"a": 1}, {"a": 2}]', "object", [{"a": 1}, {"a": 2}]),
        ('"{\\"a\\": 1}"', "object", {"a": 1}),
        ('total {"a": 1} of [3, 4]', "object", {"a": 1}),
    ],
)
def test_what_the_schema_wants_settles_the_shape(text: str, want: Any, expected: object) -> None:
    assert parse_json(text, want=want) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "hermes_two_calls_last_unclosed",
            [Call(tool="crop", arguments={"image": "img_1a2b3c", "x": 0.1, "y": 0.05, "w": 0.4, "h": 0.2}), OCR],
        ),
        ("coder_fenced_after_prose", [OCR]),
        ("tools_tag", [Call(tool="find_text", arguments={"document": "doc_00ff12", "query": "Grand total"})]),
        ("doubled_braces", [OCR]),
        ("qwen3_coder_xml", [Call(tool="crop", arguments={"image": "img_1a2b3c", "x": "0.25"})]),
        ("openai_shape", [OCR]),
        ("python_call_lines", [Call(tool="rotate", arguments={"image": "img_1a2b3c", "degrees": 90}), OCR]),
        ("mention_only", []),
        ("unknown_tool", [Call(tool="read_barcode_fast", arguments={"image": "img_1a2b3c"})]),
        ("thought_then_call", [OCR]),
    ],
)
def test_calls_of_the_corpus(name: str, expected: list[Call]) -> None:
    assert find_calls(corpus(name), "", KNOWN).calls == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"function": "crop", "parameters": {"x": 1}}', [Call(tool="crop", arguments={"x": 1})]),
        ('{"name": "crop", "args": "{\\"x\\": 1}"}', [Call(tool="crop", arguments={"x": 1})]),
        ('{"name": "crop", "input": null}', [Call(tool="crop")]),
        ('{"name": "crop", "arguments": ""}', [Call(tool="crop")]),
        ('{"name": "crop"}', [Call(tool="crop")]),
        ('{"tool": "crop", "x": 0.1}', [Call(tool="crop", arguments={"x": 0.1})]),
        ('{"tool": "crop", "arguments": "img_1"}', [Call(tool="crop", arguments={"arguments": "img_1"})]),
        (
            '[{"name": "crop", "arguments": {"x": 1}}, {"name": "ocr", "arguments": {}}]',
            [Call(tool="crop", arguments={"x": 1}), Call(tool="ocr")],
        ),
        (
            '[crop(x=0.1), ocr(image="a, b) c")]',
            [Call(tool="crop", arguments={"x": 0.1}), Call(tool="ocr", arguments={"image": "a, b) c"})],
        ),
        (
            "crop(image=img_1a2b3c, box=[0.1, 0.2], deep=True)",
            [Call(tool="crop", arguments={"image": "img_1a2b3c", "box": [0.1, 0.2], "deep": True})],
        ),
        ("<function=crop><parameter=image>img_1", [Call(tool="crop", arguments={"image": "img_1"})]),
        ("<function=zap></function>", [Call(tool="zap")]),
        ("<tool_call>ocr(image='img_1')</tool_call>", [Call(tool="ocr", arguments={"image": "img_1"})]),
        ('<tool_call>{"name": "zap", "arguments": {}}', [Call(tool="zap")]),
        ('{"name": "zap", "arguments": {}}', []),
        ('{"name": "crop", "price": 3}', []),
        ('{"name": "Ada", "input": "x"}', []),
        ("crop(0.1, 0.2)", []),
        ("crop(x=0.1", []),
        ("Try crop(x=0.1).", []),
        ("crop(x=0.1) is what I would call.", []),
        ("", []),
    ],
)
def test_find_calls(text: str, expected: list[Call]) -> None:
    assert find_calls(text, "", KNOWN).calls == expected


def test_reasoning_is_read_only_when_the_content_gave_no_call() -> None:
    tagged = '<tool_call>{"name": "ocr", "arguments": {"image": "img_1a2b3c"}}</tool_call>'
    other = '{"tool": "crop", "arguments": {}}'
    assert find_calls("", tagged, KNOWN).calls == [OCR]
    assert find_calls(f"<think>{tagged}</think>", "", KNOWN).calls == [OCR]
    assert find_calls(other, tagged, KNOWN).calls == [Call(tool="crop")]
    assert find_calls("Let me look.", tagged, KNOWN).calls == [OCR]
    assert find_calls("The total is 3.", f"maybe {other}", KNOWN).calls == []


def test_rest_is_the_text_without_the_calls() -> None:
    found = find_calls('I look first.\n```json\n{"tool": "ocr", "arguments": {}}\n```\nThen I answer.', "", KNOWN)
    assert found.rest == "I look first.\n\nThen I answer."


def test_a_looping_model_gives_each_call_once_and_not_too_many() -> None:
    assert len(find_calls('{"tool": "ocr", "arguments": {}}\n' * 50, "", KNOWN).calls) == 1
    many = "\n".join(f'{{"tool": "ocr", "arguments": {{"n": {n}}}}}' for n in range(100))
    assert len(find_calls(many, "", KNOWN).calls) == MAX_CALLS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"final": {"total": 3}}', {"total": 3}),
        ('{"thought": "easy", "answer": "three"}', "three"),
        ('<think>hm</think>{"final": null}', None),
        ('{{"final": "three"}}', "three"),
        ('{"answer": 1, "unit": "EUR"}', MISSING),
        ('{"tool": "ocr", "arguments": {"final": 1}}', MISSING),
        ("<think>hm</think> Three.", MISSING),
        ('<think>{"final": 3}', MISSING),
    ],
)
def test_find_final(text: str, expected: object) -> None:
    assert find_final(text) == expected


def test_split_think_with_several_thoughts() -> None:
    assert split_think("<think>a</think>b<think>c</think>d") == ("bd", "ac")


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)


@given(values)
def test_json_comes_back(value: Any) -> None:
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value, ensure_ascii=False, indent=2)) == value


@given(values)
def test_python_literals_come_back(value: Any) -> None:
    assert parse_json(repr(value)) == value


fragments = st.sampled_from(
    [
        "{",
        "}",
        "[",
        "]",
        '"',
        "'",
        ":",
        ",",
        "\\",
        "\n",
        "```",
        "<tool_call>",
        "</tool_call>",
        "<function=",
        ">",
        "“",
        "<parameter=x>",
        "crop(",
        "x=",
        ")",
        "//",
        "/*",
        "#",
        "name",
        '"name":',
        "1",
        "null",
        "<think>",
        "</think>",
        " ",
        "\ud800",
    ]
)


@settings(max_examples=300)
@given(st.lists(fragments | st.text(max_size=4), max_size=60).map("".join))
def test_no_text_makes_it_raise_and_every_value_is_json(text: str) -> None:
    value = parse_json(text)
    if value is not MISSING:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    for call in find_calls(text, text, KNOWN).calls:
        json.dumps(call.arguments, allow_nan=False, ensure_ascii=False).encode()
    find_final(text)


def work(text: str) -> int:
    """Function calls, C and Python, made for one text: a clock that other processes cannot disturb."""
    count = 0

    def tick(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(tick)
    try:
        parse_json(text)
        find_calls(text, text, KNOWN)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "piece",
    [
        "{",
        "[",
        "[{",
        '{"',
        '["a" x ',
        '{"a":',
        "{/*",
        "{{",
        "<tool_call>",
        "<function=a>",
        "crop(x=",
        "crop(x=1), ",
        '"a",',
        "`",
        "<think>",
        '{"a":1}',
        "[1]\n",
        "\\",
        " \n",
        "“",
        '<tool_call>{"name":',
    ],
)
def test_work_grows_with_the_text_and_no_faster(piece: str) -> None:
    small, large = (piece * (size // len(piece)) for size in (5_000, 20_000))
    assert work(large) <= 5 * work(small) + 1000
