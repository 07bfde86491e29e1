"""The first look: what cheap, certain perception tells of each attached medium before the model is asked."""

from __future__ import annotations

import asyncio
import time

from orion.artifacts import Artifact
from orion.errors import OrionError, ToolFailed
from orion.events import Looked
from orion.job import Job
from orion.lenient import whole_characters
from orion.run import Observation
from orion.tools import Toolset, as_tool

LOOK_SECONDS = 90.0
"""Longest look at one medium."""


async def look(job: Job, *, text_only: bool) -> None:
    """Take the looks of all inputs and put them on `Run.looks`, in the order of the inputs.

    The token budget `Limits.look_tokens` is shared out evenly. A look that fails is an observation that says so.
    What was not told in full is on `Job.unread` afterwards, but for images that the model sees itself.
    """
    budget = job.run.limits.look_tokens
    if budget and job.run.inputs:
        await _look(job, budget, text_only)
    else:
        job.unread.update(job.run.inputs)
    if not text_only:
        seen = {id_ for id_ in job.run.inputs if job.artifacts[id_].kind == "image"}
        job.unread -= seen
        job.unreadable -= seen


async def _look(job: Job, budget: int, text_only: bool) -> None:
    chars = int(budget * job.model.profile.chars_per_token / len(job.run.inputs))
    looks = [_one(job, job.artifacts[id_], chars, text_only) for id_ in job.run.inputs]
    for observation, id_ in zip(await asyncio.gather(*looks), job.run.inputs, strict=True):
        job.run.looks.append(observation)
        job.emit(Looked(id_, observation))


async def _one(job: Job, artifact: Artifact, chars: int, text_only: bool) -> Observation:
    toolset = next((ts for ts in job.catalogue.values() if artifact.kind in ts.media and ts.look is not None), None)
    facts = describe(artifact)
    if toolset is None:
        return Observation(text=facts)
    missing = _missing(toolset)
    if missing:
        job.unreadable.add(artifact.id)
        return Observation(text=f"{facts}. Its content could not be read: {missing}", error="failed")
    assert toolset.look is not None
    payload = {
        "target": f"{toolset.look.__module__}:{toolset.look.__qualname__}",
        "path": str(job.store.path(artifact.id)),
        "meta": {
            **artifact.meta,
            "width": artifact.width,
            "height": artifact.height,
            "pages": artifact.pages,
            "media_type": artifact.media_type,
            "original": str(job.store.original_path(artifact.id)),
        },
        "budget_chars": chars,
        "text_only": text_only,
    }
    began = time.monotonic()
    seconds = max(min(LOOK_SECONDS, job.seconds_left()), 0.1)
    try:
        seen = await job.workers.call("orion.marshal:run_look", payload, seconds=seconds)
        text, covers, whole = whole_characters(seen["text"]), list(seen["covers"]), seen["whole"]
    except (OrionError, KeyError, TypeError) as error:  # a worker that was taken over may send anything
        job.unread.add(artifact.id)
        if type(error) is ToolFailed:  # the toolset's own word; a worker's failure may be no fault of the file
            job.unreadable.add(artifact.id)
        return Observation(text=f"{facts}. Its content could not be read: {error}", error="failed")
    job.covered.update((str(tool), artifact.id) for tool in covers)
    if not whole:
        job.unread.add(artifact.id)
    spent = round(time.monotonic() - began, 3)
    return Observation(text=f"{facts.removesuffix(artifact.kind)}{text}", tool=f"{toolset.name}.look", seconds=spent)


def _missing(toolset: Toolset) -> str | None:
    lines = {line for made in map(as_tool, toolset.tools) if (line := made.missing())}
    return f"run {' and '.join(sorted(lines))}" if len(lines) and not any(_runs(toolset)) else None


def _runs(toolset: Toolset) -> list[bool]:
    return [as_tool(function).missing() is None for function in toolset.tools]


def describe(artifact: Artifact) -> str:
    """An artifact in a few words, for the model: `img_1a2b3c "scan.png": image`."""
    name = f' "{artifact.name}"' if artifact.name else ""
    return f"{artifact.id}{name}: {artifact.kind}"
