"""A run as plain data: what was asked, every turn, action and observation, what it cost and how it ended."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from orion.errors import StopReason

JSON = Any  # a JSON value: None, bool, int, float, str, list or dict of these


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Limits(_Data):
    """The bounds of one run. Reaching one ends the run with its best partial answer and a typed reason."""

    steps: int = Field(default=12, ge=1, le=200)
    """Model turns in the loop; the final answer is not counted."""
    tokens: int = Field(default=200_000, ge=1)
    """Prompt plus completion tokens over the whole run."""
    seconds: float = Field(default=300.0, gt=0)
    """Wall-clock seconds for the whole run."""
    invalid_turns: int = Field(default=3, ge=1)
    """Turns in a row without a usable action."""
    repairs: int = Field(default=2, ge=0)
    """Extra tries for a final answer that breaks its schema."""
    action_tokens: int = Field(default=256, ge=16)
    """`max_tokens` of one action turn in schema mode."""
    answer_tokens: int = Field(default=2048, ge=16)
    """`max_tokens` of the final answer."""
    observation_chars: int = Field(default=4000, ge=200)
    """Characters of one observation shown to the model; the rest stays readable as an artifact."""
    look_tokens: int = Field(default=1500, ge=0)
    """Tokens of first-look observations over all attached media (see `orion.look`)."""
    tool_seconds: float = Field(default=60.0, gt=0)
    """Wall-clock seconds of one tool call."""
    parallel_tools: int = Field(default=4, ge=1)
    """Tool calls of one turn that run at the same time."""


class Usage(_Data):
    """Tokens and calls spent. Sums with `+`.

    >>> Usage(calls=1, prompt_tokens=300, completion_tokens=20) + Usage(calls=1, prompt_tokens=340)
    Usage(calls=2, prompt_tokens=640, completion_tokens=20, cached_tokens=0)
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
        )

    @property
    def total_tokens(self) -> int:
        """Prompt plus completion tokens."""
        return self.prompt_tokens + self.completion_tokens


class Call(_Data):
    """One tool call as the model asked for it, arguments still unchecked."""

    tool: str
    arguments: dict[str, JSON] = Field(default_factory=dict)
    id: str = ""
    """The server's id of a native tool call; empty in schema mode."""


class Turn(_Data):
    """What the model said in one step."""

    text: str = ""
    reasoning: str = ""
    calls: list[Call] = Field(default_factory=list)
    final: JSON = None
    """The answer, when the model gave one instead of calls: text, or an object in the asked schema."""
    finish_reason: str | None = None
    salvaged: bool = False
    """True when the calls were found by `orion.salvage` rather than given by the protocol."""
    problem: str | None = None
    """Why this turn cannot be acted on, in words for the model."""
    usage: Usage = Field(default_factory=Usage)
    seconds: float = 0.0


class Observation(_Data):
    """What one action brought back: short text for the model, ids for everything else."""

    text: str
    artifacts: list[str] = Field(default_factory=list)
    """Ids of artifacts that this action made."""
    show: list[str] = Field(default_factory=list)
    """Ids of images the model should see; they follow in a user message, once."""
    tool: str | None = None
    error: Literal["retry", "failed", "timeout", "unknown_tool", "bad_arguments"] | None = None
    value: JSON = None
    """The tool's result as JSON, for programs; None when it is text only or too large."""
    seconds: float = 0.0


class Step(_Data):
    """One turn and what followed from it."""

    turn: Turn
    observations: list[Observation] = Field(default_factory=list)


class Run(_Data):
    """Everything about one request. JSON in and out (`Run.model_validate_json(run.model_dump_json())`)."""

    id: str
    prompt: str
    model: str = ""
    inputs: list[str] = Field(default_factory=list)
    """Ids of the attached artifacts, in the order given."""
    response_schema: dict[str, JSON] | None = None
    toolsets: list[str] = Field(default_factory=list)
    looks: list[Observation] = Field(default_factory=list)
    """The first look at each attached medium, taken before any model call."""
    steps: list[Step] = Field(default_factory=list)
    output: JSON = None
    """The final answer: text, or a value valid against `response_schema`."""
    stop: StopReason | None = None
    detail: str = ""
    """What exactly ended the run, in words for the caller."""
    unchecked_by_grammar: list[str] = Field(default_factory=list)
    """Schema keywords the grammar could not express; they were checked after the answer."""
    usage: Usage = Field(default_factory=Usage)
    limits: Limits = Field(default_factory=Limits)
    seconds: float = 0.0
