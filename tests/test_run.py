"""A run as plain data: JSON in and out, and bounds that mean something."""

from __future__ import annotations

import typing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from orion.errors import StopReason
from orion.run import Call, Limits, Observation, Run, Step, Turn, Usage

counts = st.integers(0, 10**9)
usages = st.builds(Usage, calls=counts, prompt_tokens=counts, completion_tokens=counts, cached_tokens=counts)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=4), inner),
    max_leaves=5,
)  # fmt: skip
words = st.text(st.characters(codec="utf-8"), max_size=20)
calls = st.builds(Call, tool=words, arguments=st.dictionaries(words, values, max_size=2), id=words)
turns = st.builds(Turn, text=words, calls=st.lists(calls, max_size=2), final=values, problem=st.none() | words)
observations = st.builds(Observation, text=words, artifacts=st.lists(words, max_size=2), value=values)
steps = st.builds(Step, turn=turns, observations=st.lists(observations, max_size=2))
runs = st.builds(
    Run,
    id=words,
    prompt=words,
    steps=st.lists(steps, max_size=2),
    output=values,
    stop=st.sampled_from([None, *typing.get_args(StopReason)]),
    usage=usages,
)


@given(runs)
def test_a_run_survives_json(run: Run) -> None:
    assert Run.model_validate_json(run.model_dump_json()) == run


@given(usages, usages)
def test_usage_sums(one: Usage, other: Usage) -> None:
    total = one + other
    assert total.total_tokens == one.total_tokens + other.total_tokens
    assert total == other + one
    assert total.calls == one.calls + other.calls
    assert total.cached_tokens == one.cached_tokens + other.cached_tokens


@pytest.mark.parametrize(
    "limits",
    [
        {"steps": 0},
        {"steps": 201},
        {"tokens": 0},
        {"seconds": 0},
        {"seconds": -1},
        {"invalid_turns": 0},
        {"repairs": -1},
        {"action_tokens": 15},
        {"answer_tokens": 0},
        {"observation_chars": 199},
        {"look_tokens": -1},
        {"tool_seconds": 0},
        {"parallel_tools": 0},
        {"step": 3},
    ],
)
def test_bounds_of_the_limits(limits: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        Limits(**limits)
    assert caught.value.errors()[0]["loc"] == tuple(limits)


def test_lists_are_not_shared_between_runs() -> None:
    one, other = Run(id="1", prompt="a"), Run(id="2", prompt="b")
    one.steps.append(Step(turn=Turn()))
    one.inputs.append("img_1")
    assert (other.steps, other.inputs) == ([], [])


def test_stop_is_one_of_the_known_reasons() -> None:
    with pytest.raises(ValidationError):
        Run(id="1", prompt="a", stop="bored")  # type: ignore[arg-type]
