"""From a request to its result: intake, first look, toolsets, the loop, the answer."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from orion import prompts
from orion.actors import CallTools
from orion.artifacts import ArtifactStore
from orion.capabilities import Capabilities
from orion.context import Transcript
from orion.errors import ContextOverflow, MediaError, ModelError, OrionError, UserError
from orion.events import Attached, Event, Selected, Started
from orion.fetch import FetchLimits
from orion.job import Job
from orion.lenient import whole_characters
from orion.look import describe, look
from orion.loop import loop
from orion.media import MediaLimits, intake
from orion.model import Model
from orion.output import answer
from orion.result import Result
from orion.run import Limits, Run
from orion.schema import OutputSchema, ResponseFormat, from_response_format
from orion.settings import Settings
from orion.sight import shown
from orion.toolkit import YOURS, named, offer, select
from orion.tools import Toolset
from orion.trace import TraceWriter
from orion.types import Message
from orion.worker import WorkerPool


@dataclass(frozen=True, slots=True)
class Request:
    """One checked request: what can be refused without a model or a file was refused."""

    prompt: str
    files: Sequence[Any]
    format: ResponseFormat
    toolsets: list[str] | None
    limits: Limits
    password: str | None = field(default=None, repr=False)
    """Opens encrypted PDFs; neither traced nor printed."""

    @classmethod
    def check(
        cls,
        prompt: str,
        files: Sequence[Any],
        response_format: Any,
        toolsets: Sequence[str] | None,
        limits: Limits,
        catalogue: Mapping[str, Toolset],
        *,
        password: str | None = None,
    ) -> Request:
        """Raises `UserError` or `SchemaError` naming the argument at fault."""
        if not isinstance(prompt, str) or not prompt.strip():
            raise UserError("the prompt is empty", param="prompt", fix="Say what to do.")
        if isinstance(toolsets, str):
            raise UserError("toolsets must be a list of names", param="toolsets", fix="Write toolsets=[…].")
        asked = from_response_format(response_format)
        if asked.schema is not None:
            OutputSchema.prepare(asked.schema)
        chosen = named(toolsets, catalogue) if toolsets is not None else None
        return cls(whole_characters(prompt), files, asked, chosen, limits, password)


async def perform(
    request: Request,
    *,
    model: Model,
    capabilities: Capabilities,
    workers: WorkerPool,
    catalogue: Mapping[str, Toolset],
    local: frozenset[str],
    store: ArtifactStore | None,
    settings: Settings,
    emit: Callable[[Event], None],
    stop: asyncio.Event | None,
) -> Result:
    """Carry out a request. When `stop` is set, the run ends at once with what there is.

    Raises `MediaError` for a file that cannot be used; what happens after intake ends in `Run.stop`.
    """
    run = Run(id=_new_id(), prompt=request.prompt, model=model.name, limits=request.limits)
    run.response_schema = request.format.schema
    kept = store if store is not None else ArtifactStore(settings.store_dir / "runs" / run.id)
    folder = kept.folder / "runs" / run.id if store is not None else kept.folder
    trace = TraceWriter(folder / "trace.jsonl")
    transcript = Transcript(context=model.context, profile=model.profile)
    job = Job(run, model, kept, workers, catalogue, transcript, trace, emit, local=local, format=request.format)
    emit(Started(run.id, model.name, tuple(request.toolsets or ())))
    trace.start(run)
    work = asyncio.create_task(_work(job, request, capabilities, settings))
    try:
        await _until(work, stop)
        if stop is not None and stop.is_set() and not work.done():
            run.stop, run.detail = "cancelled", "the caller stopped the run"
            await _cancel(work)
        else:
            await work
    except asyncio.CancelledError:
        run.stop, run.detail = "cancelled", "the caller stopped the run"
        await _cancel(work)
        raise
    except OrionError as error:
        run.detail = str(error)
        raise
    finally:
        run.seconds = round(time.monotonic() - job.started, 3)
        trace.end(run)
        trace.close()
    made = [id_ for id_ in job.artifacts if id_ not in run.inputs]
    # Loaded before, by `orion.output.accept`: this cannot fail any more.
    return Result(run, kept, trace.path, request.format.load(run.output) if run.output is not None else None, made)


async def _work(job: Job, request: Request, capabilities: Capabilities, settings: Settings) -> None:
    run = job.run
    await _attach(job, request, media_limits(settings))
    if request.format.schema is not None:
        job.output = OutputSchema.prepare(request.format.schema, dialect=job.model.dialect)
        job.output_refers = job.output.refers
    text_only = not capabilities.images
    await look(job, text_only=text_only)
    if run.inputs and job.unreadable.issuperset(run.inputs):
        raise MediaError("unsupported", run.looks[0].text, param="files[0]", fix="Attach a file that can be read.")
    if request.toolsets is not None:
        offer(job, request.toolsets)
        asked = False
    else:
        asked = True
        try:
            asked = await select(job)
        except ModelError as error:
            run.stop = "context_full" if isinstance(error, ContextOverflow) else "model_failed"
            run.detail = str(error)
    if job.local:
        offer(job, [YOURS])
    job.emit(Selected(tuple(run.toolsets), asked))
    job.trace.looks(run)
    if run.stop is not None:
        return
    native = capabilities.tools and (job.model.profile.actions == "native" or not capabilities.schema)
    actor = CallTools(job, native=native, sees=capabilities.images)
    job.transcript.add(Message.text("system", actor.system()))
    await _open(job, actor)
    await loop(job, actor)
    await answer(job, actor)


def media_limits(settings: Settings) -> MediaLimits:
    """The limits of intake as the settings say."""
    everywhere = ("0.0.0.0/0", "::/0") if settings.fetch_private else ()
    fetch = FetchLimits.model_validate(
        {"bytes": settings.fetch_mb * 1_000_000, "ports": settings.fetch_ports, "allow_addresses": everywhere}
    )
    return MediaLimits(fetch=fetch)


async def _attach(job: Job, request: Request, limits: MediaLimits) -> None:
    for number, source in enumerate(request.files):
        try:
            artifact = await intake(source, job.store, job.workers, limits, password=request.password)
        except OrionError as error:
            error.param = error.param or f"files[{number}]"
            raise
        job.artifacts[artifact.id] = artifact
        if artifact.id not in job.run.inputs:
            job.run.inputs.append(artifact.id)
        job.emit(Attached(artifact))


async def _open(job: Job, actor: CallTools) -> None:
    """The first user message: what was seen, what is asked, what the answer must hold."""
    run = job.run
    looks = [seen.text for seen in run.looks] or [describe(job.artifacts[id_]) for id_ in run.inputs]
    observation = "Observation:\n" + prompts.defused("\n\n".join(looks)) + "\n" if looks else ""
    fields = f"Fields of the answer:\n{job.output.outline()}" if job.output else ""
    text = prompts.render("first", observation=observation, request=run.prompt, fields=fields).strip()
    images = [id_ for id_ in run.inputs if job.artifacts[id_].kind == "image"]
    if images and actor.sees:
        job.transcript.add(await shown(job, images, text))
    else:
        job.transcript.add(Message.text("user", text))


async def _until(work: asyncio.Task[None], stop: asyncio.Event | None) -> None:
    """Wait until the work is done or a stop is wanted."""
    if stop is None:
        await asyncio.wait({work})
        return
    stopping = asyncio.create_task(stop.wait())
    both: set[asyncio.Task[Any]] = {work, stopping}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()


async def _cancel(work: asyncio.Task[None]) -> None:
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work


def _new_id() -> str:
    """Sorts by time; the random part keeps two runs of one second apart."""
    return f"run_{datetime.now(UTC):%Y%m%d_%H%M%S}_{secrets.token_hex(3)}"
