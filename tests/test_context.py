"""The transcript: an estimate that learns, and eviction in batches."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orion.context import HIGH_WATER, KEEP_LAST, LOW_WATER, MESSAGE_TOKENS, Transcript
from orion.errors import Stop
from orion.profiles import image_tokens, profile_for
from orion.types import Message

PROFILE = profile_for("qwen2.5")


def transcript(context: int = 1000) -> Transcript:
    return Transcript(context=context, profile=PROFILE)


def text_of(tokens: int, learned: Transcript) -> Message:
    """A message of about that many tokens."""
    return Message.text("user", "x" * round(tokens * PROFILE.chars_per_token))


def test_the_estimate_counts_text_and_pictures() -> None:
    script = transcript()
    script.add(Message.text("user", "x" * 350))
    text = 350 / PROFILE.chars_per_token + MESSAGE_TOKENS
    assert script.tokens() == round(text)
    script.add(Message.user("", [(b"png", "image/png", 448, 448)]))
    assert script.tokens() == round(text + MESSAGE_TOKENS + image_tokens(PROFILE, 448, 448))


def test_the_estimate_learns_from_the_server() -> None:
    script = transcript()
    message = Message.text("user", "x" * 1000)
    script.learn([message], 506)
    assert script.tokens([message]) == 506
    assert script.tokens([Message.text("user", "x" * 2000)]) == 1006


@pytest.mark.parametrize(("chars", "counted"), [(400, 300), (1000, 0), (1000, 3)])
def test_too_little_teaches_nothing(chars: int, counted: int) -> None:
    script = transcript()
    message = Message.text("user", "x" * chars)
    before = script.tokens([message])
    script.learn([message], counted)
    assert script.tokens([message]) == before


@pytest.mark.parametrize(("counted", "scale"), [(1_000_000, 2.0), (60, 0.1)])
def test_nonsense_of_a_server_is_bounded(counted: int, scale: float) -> None:
    script = transcript()
    message = Message.text("user", "x" * 1000)
    script.learn([message], counted)
    assert script.tokens([message]) == round(1000 * scale + MESSAGE_TOKENS)


def test_old_observations_leave_in_a_batch_far_below_the_mark() -> None:
    script = transcript(1000)
    script.add(text_of(50, script))
    for _ in range(6):
        script.add(text_of(100, script), stub="[left out]")
    assert script.compact(reserve=50) == 0
    script.add(text_of(100, script), stub="[left out]")
    script.add(text_of(100, script), stub="[left out]")
    assert script.tokens() > HIGH_WATER * 1000
    removed = script.compact(reserve=50)
    assert script.tokens() <= LOW_WATER * 1000
    assert script.tokens() + 100 > LOW_WATER * 1000  # no more than needed left
    kinds = ["stub" if "left out" in message.body.decode() else "whole" for message in script.messages()]
    assert kinds == ["whole"] + ["stub"] * removed + ["whole"] * (8 - removed)
    assert script.compact(reserve=50) == 0  # hysteresis: room for several more turns


def test_the_newest_two_always_stay() -> None:
    script = transcript(1000)
    for _ in range(4):
        script.add(text_of(300, script), stub="[left out]")
    assert script.compact(reserve=10) == 2
    whole = ["left out" not in message.body.decode() for message in script.messages()]
    assert whole == [False, False, True, True]


def test_what_does_not_fit_even_then_is_an_end() -> None:
    script = transcript(1000)
    script.add(text_of(990, script))
    with pytest.raises(Stop) as caught:
        script.compact(reserve=100)
    assert caught.value.reason == "context_full"
    assert "and 100 for the answer; the model has 1000" in caught.value.detail


def test_the_reserve_alone_can_make_it_necessary() -> None:
    script = transcript(1000)
    for _ in range(5):
        script.add(text_of(100, script), stub="[left out]")
    assert script.compact(reserve=100) == 0
    assert script.compact(reserve=600) > 0
    assert script.tokens() <= 400


def test_a_picture_leaves_as_text_and_keeps_its_call() -> None:
    script = transcript(1000)
    script.add(Message.user("The image:", [(b"png", "image/png", 1120, 560)]), stub="[img_1 was shown here]")
    script.add(Message.tool("call_7", "x" * 900), stub="[left out]")
    for _ in range(2):
        script.add(text_of(80, script), stub="[left out]")
    assert script.compact(reserve=10) == 2
    picture, call, *_ = (json.loads(message.body) for message in script.messages())
    assert picture == {"role": "user", "content": "[img_1 was shown here]"}
    assert call == {"role": "tool", "tool_call_id": "call_7", "content": "[left out]"}


def test_a_stub_that_is_longer_than_the_message_makes_no_room() -> None:
    script = transcript(100)
    for _ in range(12):
        script.add(Message.text("user", "4"), stub="[the result of calculate was left out to save room]")
    script.add(Message.text("user", "x" * 50))
    assert script.tokens() > HIGH_WATER * 100
    assert script.compact(reserve=1) == 0
    assert all("left out" not in message.body.decode() for message in script.messages())


@given(
    st.lists(st.tuples(st.integers(0, 900), st.booleans()), max_size=30),
    st.integers(200, 4000),
    st.integers(0, 1000),
)
@settings(max_examples=200, deadline=None)
def test_compaction_fits_or_ends(sizes: list[tuple[int, bool]], context: int, reserve: int) -> None:
    """Whatever was added: afterwards it fits, order and number of messages stay, the newest are whole."""
    script = transcript(context)
    for number, (chars, leaves) in enumerate(sizes):
        script.add(Message.text("user", f"{number}:" + "x" * chars), stub=f"{number}:-" if leaves else None)
    before = script.messages()
    try:
        removed = script.compact(reserve)
    except Stop:
        assert script.tokens() > context - reserve
        return
    after = script.messages()
    assert script.tokens() <= max(min(HIGH_WATER * context, context - reserve), context - reserve)
    assert len(before) == len(after)
    changed = [index for index, (old, new) in enumerate(zip(before, after, strict=True)) if old is not new]
    assert len(changed) == removed
    evictable = [index for index, (chars, leaves) in enumerate(sizes) if leaves and chars > 1]
    assert changed == evictable[:removed]
    assert removed <= max(0, len(evictable) - KEEP_LAST)
