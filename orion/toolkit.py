"""Toolsets: which there are, and which a request needs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from orion import prompts
from orion.errors import UserError
from orion.tools import Tool, Toolset, as_tool
from orion.toolsets import BUILTIN
from orion.types import Message
from orion.wire import Ask

if TYPE_CHECKING:
    from orion.job import Job

GROUP = "orion.toolsets"
"""Entry-point group through which other packages add a toolset: `name = "module:TOOLSET"`."""
ALWAYS = "core"
YOURS = "yours"
"""Name of the toolset that holds the functions given to `Orion(tools=…)`; it is always on offer."""
MAX_CHOSEN = 3
CHOICE_TOKENS = 64
CHOICE_SECONDS = 60.0
ADD_TOOLSET = "add_toolset"


@cache
def discover() -> Mapping[str, Toolset]:
    """Every toolset by name: Orion's own, then those of installed packages.

    >>> sorted(discover())[:3]
    ['core', 'document', 'image']
    """
    found = {name: importlib.import_module(module).TOOLSET for name, module in BUILTIN.items()}
    for point in entry_points(group=GROUP):
        if point.name in found:
            raise UserError(f"two packages bring a toolset named {point.name!r}", fix=f"Uninstall {point.value!r}.")
        found[point.name] = point.load()
    return found


def named(names: Sequence[str], catalogue: Mapping[str, Toolset]) -> list[str]:
    """Toolset names as asked for, checked; `world_gen` and `world-gen` are the same.

    >>> named(["document", "core"], discover())
    ['core', 'document']
    """
    chosen = [ALWAYS]
    for asked in names:
        if not isinstance(asked, str):
            raise UserError(f"{asked!r} is no name of a toolset", param="toolsets", fix="Write toolsets=[…] of names.")
        name = asked.strip().lower().replace("_", "-")
        if name not in catalogue:
            near = get_close_matches(name, catalogue, 1)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            raise UserError(
                f"there is no toolset {asked!r}", param="toolsets", fix=f"{hint}Known: {', '.join(sorted(catalogue))}."
            )
        if name not in chosen:
            chosen.append(name)
    return chosen


@cache
def usable(toolset: Toolset) -> tuple[Tool, ...]:
    """The tools of a toolset whose libraries are installed."""
    return tuple(made for made in map(as_tool, toolset.tools) if made.missing() is None)


def offer(job: Job, names: Sequence[str]) -> None:
    """Put the usable tools of these toolsets on offer in a run. Raises `UserError` when two tools share a name."""
    for name in names:
        if name not in job.run.toolsets:
            job.run.toolsets.append(name)
        for made in usable(job.catalogue[name]):
            other = job.tools.get(made.name)
            if other is not None and other is not made:
                raise UserError(f"two tools are named {made.name!r}", param="toolsets", fix="Rename one of them.")
            job.tools[made.name] = made


def waiting(job: Job) -> list[str]:
    """Toolsets not in this run that could do something with its artifacts, sorted."""
    ids = job.ids
    return sorted(
        name
        for name, toolset in job.catalogue.items()
        if name not in (*job.run.toolsets, YOURS) and any(made.fits(ids) for made in usable(toolset))
    )


def summaries(job: Job, names: Sequence[str]) -> str:
    """One line a toolset, for the model."""
    return "\n".join(f"{name}: {job.catalogue[name].summary}" for name in names)


async def select(job: Job) -> bool:
    """Choose the toolsets of a request that names none; True when the model was asked.

    Attached media settle it without a call: each kind brings the toolset made for it. Without media the model chooses
    among one-line summaries. The model may add one more later (`add_toolset`).
    """
    kinds = {artifact.kind for artifact in job.artifacts.values()}
    by_media = [name for name, toolset in job.catalogue.items() if kinds & set(toolset.media)]
    offer(job, [ALWAYS, *by_media])
    open_choice = waiting(job)
    if by_media or not open_choice:
        return False
    prompt = prompts.render("select", request=job.run.prompt, toolsets=summaries(job, open_choice))
    schema = {
        "type": "object",
        "properties": {
            "toolsets": {"type": "array", "items": {"type": "string", "enum": open_choice}, "maxItems": MAX_CHOSEN}
        },
        "required": ["toolsets"],
        "additionalProperties": False,
    }
    ask = Ask([Message.text("user", prompt)], max_tokens=CHOICE_TOKENS, schema=schema)
    reply = await job.ask("select", ask, seconds=min(CHOICE_SECONDS, max(job.seconds_left(), 1.0)))
    offer(job, chosen_in(reply.text, open_choice))
    return True


def chosen_in(text: str, known: Sequence[str]) -> list[str]:
    """The toolsets named in a choice, each once; a text without JSON counts as no choice."""
    from orion.salvage import parse_json

    value = parse_json(text, want="object")
    names = value.get("toolsets") if isinstance(value, dict) else None
    return [name for name in known if isinstance(names, list) and name in names]
