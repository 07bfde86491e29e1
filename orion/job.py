"""One run at work: the plain `Run` plus what it works with. Nothing of it outlives the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from orion.artifacts import Artifact, ArtifactStore
from orion.context import Transcript
from orion.events import Event, TextDelta
from orion.model import Ask, Model, Reply
from orion.run import Run, Usage
from orion.schema import OutputSchema, ResponseFormat
from orion.tools import Tool, Toolset
from orion.trace import Purpose, TraceWriter
from orion.wire import REPETITION
from orion.worker import WorkerPool


@dataclass(slots=True)
class Job:
    """Everything the loop, the actor and the output phase share about one run."""

    run: Run
    model: Model
    store: ArtifactStore
    workers: WorkerPool
    catalogue: Mapping[str, Toolset]
    """Every toolset that exists, by name."""
    transcript: Transcript
    trace: TraceWriter
    emit: Callable[[Event], None]
    format: ResponseFormat | None = None
    """The asked answer: its own validators have the last word on a value that fits the schema."""
    output: OutputSchema | None = None
    output_refers: bool = False
    """Whether the asked schema has fields that take artifact ids."""
    tools: dict[str, Tool] = field(default_factory=dict)
    """The tools on offer, by name; a tool that is not here is never shown to the model."""
    local: frozenset[str] = frozenset()
    """Names of the user's own functions among the tools: they run in this process."""
    artifacts: dict[str, Artifact] = field(default_factory=dict)
    """Inputs and everything made since, by id, in the order they came up."""
    covered: set[tuple[str, str]] = field(default_factory=set)
    """(tool, artifact id) pairs which the first look already answered in full."""
    unreadable: set[str] = field(default_factory=set)
    """Ids of inputs that nothing here can read; the first look at each says why."""
    unread: set[str] = field(default_factory=set)
    """Ids of inputs whose first look did not tell all that can be read of them."""
    started: float = field(default_factory=time.monotonic)

    @property
    def ids(self) -> dict[str, str]:
        """Known artifact ids and their kinds."""
        return {id_: artifact.kind for id_, artifact in self.artifacts.items()}

    @property
    def names(self) -> dict[str, str]:
        """File names of artifacts → ids."""
        return {artifact.name: id_ for id_, artifact in self.artifacts.items() if artifact.name}

    def ids_for(self, tool: Tool) -> dict[str, str]:
        """The ids that make sense as arguments of one tool: not those whose first look covers it."""
        return {id_: kind for id_, kind in self.ids.items() if (tool.name, id_) not in self.covered}

    def offered(self) -> list[Tool]:
        """The tools that could be called now, sorted by name."""
        return sorted((t for t in self.tools.values() if t.fits(self.ids_for(t))), key=lambda t: t.name)

    def seconds_left(self) -> float:
        """Wall-clock seconds until `Limits.seconds`; negative when they are over."""
        return self.run.limits.seconds - (time.monotonic() - self.started)

    def current_output(self) -> OutputSchema:
        """The asked schema with the ids that exist now as the only references. Raises `SchemaError`."""
        assert self.output is not None
        if not self.output_refers:
            return self.output
        ids: dict[str, list[str]] = {}
        for id_, kind in self.ids.items():
            ids.setdefault(kind, []).append(id_)
        return OutputSchema.prepare(self.output.schema, dialect=self.model.dialect, ids=ids or {"none": []})

    async def ask(self, purpose: Purpose, ask: Ask, *, seconds: float) -> Reply:
        """One model call, shown as it comes, counted and traced. Raises `ModelError`."""

        def on_text(text: str) -> None:
            self.emit(TextDelta(text, purpose == "answer"))

        reply = await self.model.complete(ask, seconds=seconds, on_text=on_text)
        if reply.finish_reason == REPETITION and not reply.usage.prompt_tokens:
            reply.usage.prompt_tokens = self.transcript.tokens(ask.messages)
        self.count(ask, reply.usage)
        self.trace.reply(purpose, reply)
        return reply

    def count(self, ask: Ask, usage: Usage) -> None:
        """Add one call's usage to the run and let the transcript learn its real size."""
        self.run.usage = self.run.usage + usage
        if usage.calls <= 1:  # a call that was repeated inside counts its prompt more than once
            self.transcript.learn(ask.messages, usage.prompt_tokens)
