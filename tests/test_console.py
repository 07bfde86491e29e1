"""What goes to a terminal: harmless text, colours only where wanted, a progress bar that stays on one line."""

from __future__ import annotations

import io
import os
import pty
import select
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion.console import Pen, ProgressBar, StatusLine, print_json
from orion.run import Call
from orion.words import call_words, harmless, shorten, size_words


@contextmanager
def terminal() -> Iterator[tuple[io.TextIOWrapper, int]]:
    ours, theirs = pty.openpty()
    stream = io.TextIOWrapper(io.FileIO(theirs, "w"), encoding="utf-8", write_through=True)
    try:
        yield stream, ours
    finally:
        stream.close()
        os.close(ours)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_colour_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal() as (stream, _ours):
        assert Pen(stream).red("x") == "\x1b[31mx\x1b[0m"
        monkeypatch.setenv("NO_COLOR", "1")
        assert Pen(stream).red("x") == "x"
        monkeypatch.delenv("NO_COLOR")
        monkeypatch.setenv("TERM", "dumb")
        assert Pen(stream).red("x") == "x"
    assert Pen(io.StringIO()).red("x") == "x"


@given(st.text(st.characters(), max_size=100))
def test_harmless_text_has_no_control_character(text: str) -> None:
    clean = harmless(text)
    assert len(clean) == len(text)
    assert all(char in "\t\n" or (ord(char) >= 32 and not 127 <= ord(char) < 160) for char in clean)


@given(st.text(st.characters(), max_size=300), st.integers(1, 100))
def test_shortened_text_is_one_line_within_its_limit(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert len(short) <= limit
    assert len(short.splitlines()) <= 1
    assert "\x1b" not in short


def test_call_with_hostile_arguments_is_one_harmless_line() -> None:
    line = call_words(
        Call(tool="t\x1b]0;x\x07", arguments={"a\n": "\x9b31m" * 50, "image": "img_0a1b2c"}), {"img_0a1b2c": "a.png"}
    )
    assert "\x1b" not in line
    assert "\x9b" not in line
    assert "\n" not in line
    assert line.endswith("image=a.png)")
    assert len(line) < 200


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 KB"), (999_949, "999.9 KB"), (999_950, "1.0 MB"), (2.5e12, "2500.0 GB")],
)
def test_size_words(size: float, words: str) -> None:
    assert size_words(size) == words


def test_status_line_is_cut_to_the_terminal_and_taken_away() -> None:
    with terminal() as (stream, ours):
        line = StatusLine(stream)
        line.show("x" * 500)
        line.clear()
        seen = os.read(ours, 4096).decode()
    assert seen.startswith("\r\x1b[K")
    assert seen.endswith("\r\x1b[K")
    assert seen.count("x") == 79


def test_status_line_is_silent_elsewhere() -> None:
    out = io.StringIO()
    line = StatusLine(out)
    line.show("working")
    line.clear()
    assert out.getvalue() == ""


def test_progress_in_a_pipe_is_a_line_a_tenth() -> None:
    out = io.StringIO()
    bar = ProgressBar(out, "tiny")
    for done in range(0, 1001, 7):
        bar(done, 1000, "mirror")
    bar(1000, 1000, "mirror")
    bar(1000, 1000, "checking the hash")
    bar.close()
    lines = out.getvalue().splitlines()
    assert len(lines) == 12
    assert lines[0] == "tiny: 0 % of 1.0 KB (mirror)"
    assert lines[-1] == "tiny: 100 % of 1.0 KB (checking the hash)"


def read_until(ours: int, end: str) -> str:
    """What a terminal got, up to `end`: it hands over what was written in pieces."""
    seen = b""
    while not seen.decode(errors="replace").endswith(end):
        assert select.select([ours], [], [], 10)[0], seen
        seen += os.read(ours, 65536)
    return seen.decode()


def test_progress_on_a_terminal_stays_on_one_line() -> None:
    with terminal() as (stream, ours):
        bar = ProgressBar(stream, "tiny")
        bar(0, 1000, "mirror")
        bar(500, 1000, "other mirror")
        bar(1000, 1000, "checking the hash")
        bar.close()
        seen = read_until(ours, "100 %  1.0 KB of 1.0 KB  checking the hash\x1b[0m\r\x1b[K")
    assert "\n" not in seen
    assert "━━━━━━━━━━━━╌╌╌╌╌╌╌╌╌╌╌╌  50 %" in seen


def test_progress_of_unknown_size() -> None:
    out = io.StringIO()
    ProgressBar(out, "tiny")(5, 0, "mirror")
    assert out.getvalue() == "tiny: 0 % of 0 B (mirror)\n"


def test_json_is_one_line_in_a_pipe_and_indented_on_a_terminal() -> None:
    out = io.StringIO()
    print_json({"a": ["é", 1]}, out)
    assert out.getvalue() == '{"a":["é",1]}\n'
    with terminal() as (stream, ours):
        print_json({"a": "é"}, stream)
        assert read_until(ours, "}\r\n") == '{\r\n  "a": "é"\r\n}\r\n'
