"""The core toolset: exact arithmetic against `fractions`, artifacts in words, paging through long text."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion.artifacts import Artifact
from orion.errors import ToolFailed, ToolRetry
from orion.toolsets import BUILTIN, core


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("388.57+419.68+341.60+253.15", 1403.0),
        ("0.1 + 0.2", 0.3),
        ("1,250 * 2", 2500),
        ("(1,200.50 + 3) * 2", 2407.0),
        ("-2 ** 2", -4),
        ("2 ** -1", 0.5),
        ("2 ** 3 ** 2", 512),
        ("7 // 2", 3),
        ("-7.5 // 2", -4.0),
        ("-7 % 3", 2),
        ("-7.5 % 2", 0.5),
        ("6 / 3", 2.0),
        ("round(2.675, 2)", 2.68),
        ("round(2.5)", 3),
        ("max(1, 2.5) - min(3, 4)", -0.5),
        ("sum(1, 2, 3) / 3", 2.0),
        ("sqrt(16) + abs(-3)", 7),
        ("12 × 3 − 6 ÷ 2", 33.0),
        ("$1,234.50 + $0.50", 1235.0),
        ("1e3 + .5", 1000.5),
    ],
)
def test_calculate(expression: str, value: float) -> None:
    got = core.calculate(expression)
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "expected a number at position 1"),
        ("2 + * 3", "position 5"),
        ("2 ^ 3", "powers are written **"),
        ("20%", "expected a number at position 4"),
        ("1 / (2 - 2)", "division by zero at position 3"),
        ("0 ** -1", "division by zero"),
        ("max(1,234)", "one number or two"),
        ("foo(1)", "unknown name 'foo' at position 1"),
        ("__import__(1)", "unknown name '__import__'"),
        ("9 ** 9 ** 9", "too large"),
        ("10 ** 299 * 100", "more than 300 digits"),
        ("(" * 200 + "1" + ")" * 200, "nest deeper"),
        ("1" * 2000, "1000 are allowed"),
        ("(-8) ** 0.5", "fractional power"),
        ("sqrt(-1)", "negative"),
        ("round(1, 2.5)", "whole number"),
        ("(1 + 2", "expected ')' at position 7"),
        ("1 2", "did not expect '2' at position 3"),
    ],
)
def test_calculate_says_where_it_fails(expression: str, message: str) -> None:
    with pytest.raises(ToolRetry) as caught:
        core.calculate(expression)
    assert message in str(caught.value)


_cents = st.integers(-10_000_000, 10_000_000)


@given(st.lists(_cents, min_size=1, max_size=20))
def test_sums_of_cents_are_exact(cents: list[int]) -> None:
    expression = " + ".join(f"({cent / 100:.2f})" for cent in cents)
    assert core.calculate(expression) == float(Fraction(sum(cents), 100))


@given(st.integers(-99, 99), st.integers(-99, 99), st.sampled_from(["+", "-", "*", "//", "%"]))
def test_whole_numbers_agree_with_python(a: int, b: int, operator: str) -> None:
    python = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "//": int.__floordiv__, "%": int.__mod__}
    if operator in ("//", "%") and b == 0:
        with pytest.raises(ToolRetry):
            core.calculate(f"{a} {operator} {b}")
    else:
        assert core.calculate(f"({a}) {operator} ({b})") == python[operator](a, b)


@given(st.text(alphabet="0123456789.,+-*/%() maxround^eE$_'", max_size=40))
def test_calculate_never_breaks(expression: str) -> None:
    try:
        value = core.calculate(expression)
    except ToolRetry:
        return
    assert isinstance(value, int | float)


def test_describe_artifact() -> None:
    artifact = Artifact(
        id="doc_123456",
        kind="document",
        media_type="application/pdf",
        size=5000,
        sha256="0" * 64,
        name="a.pdf",
        pages=3,
        meta={"title": "Report", "original": "hash", "empty": ""},
    )
    text = core.describe_artifact(artifact)
    assert text == "doc_123456: document, application/pdf, named a.pdf, 5000 bytes, 3 pages, title Report"


def test_read_more_pages_through_a_text(tmp_path: Path) -> None:
    file = tmp_path / "long.txt"
    text = "".join(f"line {number} ü\n" for number in range(1000))
    file.write_text(text, encoding="utf-8")
    first = core.read_more(file, 0, 100)
    assert first.startswith(text[:100])
    assert f"characters 0 to 100 of {len(text)}; go on with start=100" in first
    assert core.read_more(file, len(text) - 10, 4000) == text[-10:] + "\n[end of the text]"
    with pytest.raises(ToolRetry, match=f"has {len(text)} characters"):
        core.read_more(file, len(text), 10)


def test_read_more_refuses_bytes(tmp_path: Path) -> None:
    file = tmp_path / "picture.png"
    file.write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe")
    with pytest.raises(ToolFailed, match="not text"):
        core.read_more(file)


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_builtin_toolsets_follow_the_contract(name: str) -> None:
    import importlib

    from orion.tools import as_tool

    toolset = importlib.import_module(BUILTIN[name]).TOOLSET
    assert toolset.name == name
    for function in toolset.tools:
        made = as_tool(function)
        assert len(made.summary) <= 90, made.name
        assert made.wire()["function"]["parameters"]["type"] == "object"
        assert made.target.startswith("orion.toolsets.")


def test_tool_names_are_unique() -> None:
    import importlib

    from orion.tools import as_tool

    names = [
        as_tool(function).name
        for module in BUILTIN.values()
        for function in importlib.import_module(module).TOOLSET.tools
    ]
    assert len(names) == len(set(names))
