"""The watchdog: blanks and repetition are noticed, long honest answers are not."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion.runaway import BLANK_RUN_MAX, CHECK_EVERY, REPEAT_MAX, REPEAT_SPAN, Watchdog, repeats


def verdict(text: str, chunk: int = 4) -> tuple[str | None, int]:
    """What a watchdog says of a text that comes in chunks, and after how many characters."""
    watch = Watchdog()
    for start in range(0, len(text), chunk):
        found = watch.feed(text[start : start + chunk])
        if found:
            return found, start + chunk
    return None, len(text)


DEEP = json.dumps([[[[[[[[[[[[[[[[[[[["deep"]]]]]]]]]]]]]]]]]]]], indent=4)
TABLE = json.dumps([{"pos": n, "text": f"article {n * 7919 % 1000}", "price": n * 1.25} for n in range(200)])


@pytest.mark.parametrize("chunk", [1, 3, 64, 5000])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a":' + " " * (BLANK_RUN_MAX + 1), "blanks"),
        ("\n" * 1000, "blanks"),
        ('{"a": 1' + " \n\t" * 200, "blanks"),
        ('{"languages": [' + '"Serbian", ' * 100, "repetition"),
        ("0" * 2000, "repetition"),
        ("x" * 400 + "ab, " * 300, "repetition"),
        ("The same sentence, said again and again by a model that is lost. " * 20, "repetition"),
        ('{"a":' + " " * BLANK_RUN_MAX + "1}", None),
        (DEEP, None),
        (TABLE, None),
        ("", None),
        ("short", None),
        ("ab" * (REPEAT_SPAN // 2 - 1), None),
    ],
)  # fmt: skip
def test_verdicts(text: str, found: str | None, chunk: int) -> None:
    assert verdict(text, chunk)[0] == found


def test_it_is_noticed_soon() -> None:
    start = TABLE[:1000]
    _found, after = verdict(start + "again, " * 1000)
    assert after <= len(start) + REPEAT_SPAN + CHECK_EVERY + 8
    _found, after = verdict(start + " " * 1000)
    assert after <= len(start) + BLANK_RUN_MAX + 8


@given(st.integers(1, REPEAT_MAX), st.integers(0, 2**32), st.integers(1, 40))
def test_any_piece_repeated_is_noticed(length: int, seed: int, chunk: int) -> None:
    piece = "".join(random.Random(seed).choices("abcdefgh, 0123", k=length - 1)) + "x"
    text = piece * (2 * (REPEAT_SPAN + CHECK_EVERY) // length + 2)
    assert verdict(text, chunk)[0] == "repetition"
    assert repeats(text)


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_random_text_is_left_alone(seed: int, chunk: int) -> None:
    text = "".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyz ", k=3000))
    assert verdict(text, chunk)[0] is None


def test_longer_pieces_are_no_repetition() -> None:
    piece = "".join(random.Random(5).choices("abcdefgh", k=REPEAT_MAX + 1))
    assert verdict(piece * 20)[0] is None
