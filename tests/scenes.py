"""Scenes for tests of the core: a run with a scripted model, told in one call, and a job without a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orion.api import Orion
from orion.artifacts import Artifact, ArtifactStore
from orion.context import Transcript
from orion.events import Event, Finished
from orion.job import Job
from orion.profiles import Capabilities
from orion.result import Result
from orion.run import Limits, Run
from orion.scripted import ScriptedModel, ScriptedReply
from orion.settings import Settings
from orion.toolkit import YOURS, discover, offer
from orion.tools import Toolset
from orion.trace import TraceWriter
from orion.wire import Reply
from orion.worker import WorkerPool

SHARED = Path(__file__).resolve().parents[2] / "shared"
NOTE = b"The meeting is on Monday.\n"
"""A text file: taken in, looked at and read without any worker process."""


def act(tool: str, **arguments: Any) -> str:
    """A reply of schema mode that calls a tool."""
    return json.dumps({"tool": tool, "arguments": arguments})


def final(value: Any) -> str:
    """A reply of schema mode that answers."""
    return json.dumps({"final": value})


def cut(text: str, reason: str = "length") -> Reply:
    """A reply that is not whole."""
    return Reply(text=text, finish_reason=reason)


def scripted(
    replies: Iterable[ScriptedReply], *, native: bool = False, images: bool = False, context: int = 32768
) -> ScriptedModel:
    """A model that honours schemas, or (`native`) only calls tools."""
    capabilities = Capabilities(schema=not native, tools=True, images=images, context=context)
    return ScriptedModel(replies, context=context, capabilities=capabilities)


@dataclass(frozen=True)
class Played:
    """A run that ended."""

    result: Result
    model: ScriptedModel
    events: list[Event]

    @property
    def run(self) -> Run:
        return self.result.run

    def said_to_model(self, call: int = -1) -> str:
        """All text of one request."""
        return b"\n".join(message.body for message in self.model.asks[call].messages).decode()


def play(
    replies: Iterable[ScriptedReply] | ScriptedModel,
    folder: Path,
    *,
    prompt: str = "Do it.",
    files: Sequence[Any] = (),
    tools: Sequence[Callable[..., Any]] = (),
    toolsets: Sequence[str] | None = ("core",),
    response_format: Any = None,
    native: bool = False,
    images: bool = False,
    context: int = 32768,
    extra: Sequence[Toolset] = (),
    settings: Settings | None = None,
    **limits: Any,
) -> Played:
    """One whole run; artifacts and traces go to `folder`, `extra` toolsets join the known ones."""
    model = replies if isinstance(replies, ScriptedModel) else scripted(replies, native=native, images=images)
    model.context = context
    settings = settings or Settings(store_dir=folder, cache_dir=folder / "cache")
    with Orion(model, tools=tools, store=folder, settings=settings, limits=Limits(**limits)) as agent:
        agent.catalogue |= {toolset.name: toolset for toolset in extra}
        events = list(agent.stream(prompt, files, response_format=response_format, toolsets=toolsets))
    last = events[-1]
    assert isinstance(last, Finished)
    return Played(last.result, model, events)


@contextmanager
def job_of(
    folder: Path,
    *,
    tools: Sequence[Callable[..., Any]] = (),
    toolsets: Sequence[str] = (),
    model: ScriptedModel | None = None,
    workers: WorkerPool | None = None,
    extra: Sequence[Toolset] = (),
    **limits: Any,
) -> Iterator[Job]:
    """A job before its first turn. The tools are the caller's own; `toolsets` are offered beside them."""
    run = Run(id="run_1", prompt="Do it.", limits=Limits(**limits))
    model = model or scripted([])
    catalogue = {**discover(), YOURS: Toolset(YOURS, "functions of this program", tuple(tools))}
    catalogue |= {toolset.name: toolset for toolset in extra}
    transcript = Transcript(context=model.context, profile=model.profile)
    trace = TraceWriter(folder / "trace.jsonl")
    names = frozenset(function.__name__ for function in tools)
    job = Job(
        run,
        model,
        ArtifactStore(folder),
        workers or WorkerPool(1),
        catalogue,
        transcript,
        trace,
        lambda _event: None,
        local=names,
    )
    offer(job, [*toolsets, YOURS])
    try:
        yield job
    finally:
        job.trace.close()


def attach(job: Job, data: bytes = NOTE, kind: Any = "file", name: str | None = "note.txt", **more: Any) -> Artifact:
    """An input of the job, stored without intake."""
    artifact = job.store.add(data, kind=kind, media_type="application/octet-stream", name=name, **more)
    job.artifacts[artifact.id] = artifact
    job.run.inputs.append(artifact.id)
    return artifact
