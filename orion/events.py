"""What happens in a run, as typed events: the same ones drive `stream()`, the live view and the trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orion.artifacts import Artifact
from orion.run import Call, Observation, Turn

if TYPE_CHECKING:
    from orion.result import Result


@dataclass(frozen=True, slots=True)
class Started:
    """The run exists; nothing was asked of the model yet."""

    run_id: str
    model: str
    toolsets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Attached:
    """An input became an artifact."""

    artifact: Artifact


@dataclass(frozen=True, slots=True)
class Looked:
    """The first look at one input."""

    artifact_id: str
    observation: Observation


@dataclass(frozen=True, slots=True)
class Selected:
    """The toolsets of this run; `asked_model` tells whether choosing them cost a model call."""

    toolsets: tuple[str, ...]
    asked_model: bool


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The model said something. `index` counts turns from 0."""

    index: int
    turn: Turn


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call begins."""

    index: int
    call: Call


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """A tool call ended, well or badly (`observation.error`)."""

    index: int
    call: Call
    observation: Observation


@dataclass(frozen=True, slots=True)
class Compacted:
    """Old observations left the transcript to make room; `messages` of them became stubs."""

    messages: int


@dataclass(frozen=True, slots=True)
class Answering:
    """The separate call for the final answer begins; `attempt` counts from 1."""

    attempt: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of what the model is writing, as it comes.

    `answer` is true in the separate call for the final answer; in a turn the text is the action as the model words it.
    """

    text: str
    answer: bool


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of every stream."""

    result: Result


Event = (
    Started
    | Attached
    | Looked
    | Selected
    | TurnEnded
    | ToolStarted
    | ToolEnded
    | Compacted
    | Answering
    | TextDelta
    | Finished
)
