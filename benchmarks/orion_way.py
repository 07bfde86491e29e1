"""Tasks through Orion."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.answers import Answer, graded
from benchmarks.task import Task
from benchmarks.tasks import place
from orion import Orion
from orion.errors import OrionError
from orion.run import Limits, Run

REFERENCE = re.compile(r"\b(?:img|doc|vid|aud|recon|arr|url|file)_[0-9a-f]{6}\b")
INVALID = ("unknown_tool", "bad_arguments")


def run_all(
    tasks: Sequence[Task], folder: Path, *, limits: Limits, toolsets: Sequence[str] | None = None
) -> Iterator[Answer]:
    """Every task in one `Orion`, graded as it comes; files and traces go to `folder`."""
    with Orion(limits=limits, store=folder / "store") as agent:
        agent.run("Say hello.", toolsets=["core"], limits=Limits(steps=1, answer_tokens=16))  # the server's first probe
        for task in tasks:
            yield graded(one(agent, task, folder, toolsets), task)


def one(agent: Orion, task: Task, folder: Path, toolsets: Sequence[str] | None) -> Answer:
    """One task; a typed error is an answer that says why there is none."""
    answer = Answer(task.id)
    started = time.perf_counter()
    try:
        result = agent.run(task.prompt, [place(task, folder)], response_format=task.schema, toolsets=toolsets)
    except OrionError as error:
        answer.error = f"{type(error).__name__}: {error}"
        answer.seconds = time.perf_counter() - started
        return answer
    run = result.run
    answer.seconds = time.perf_counter() - started
    answer.content = run.output
    answer.calls = run.usage.calls
    answer.prompt_tokens = run.usage.prompt_tokens
    answer.first_prompt_tokens = next(
        (s.turn.usage.prompt_tokens for s in run.steps if s.turn.usage.prompt_tokens), None
    )
    answer.completion_tokens = run.usage.completion_tokens
    answer.invalid = invalid(run)
    answer.dangling = dangling(run)
    answer.error = "" if run.stop == "answered" else f"{run.stop}: {run.detail}"
    return answer


def invalid(run: Run) -> int:
    """Turns without a usable action, and calls of unknown tools or with arguments that do not fit."""
    turns = sum(step.turn.problem is not None for step in run.steps)
    return turns + sum(seen.error in INVALID for step in run.steps for seen in step.observations)


def dangling(run: Run) -> int:
    """References in calls and in the answer to artifacts that did not exist at that time."""
    known = set(run.inputs)
    count = 0
    for step in run.steps:
        said = json.dumps([call.arguments for call in step.turn.calls])
        count += sum(reference not in known for reference in REFERENCE.findall(said))
        for seen in step.observations:
            known.update(seen.artifacts)
    return count + sum(reference not in known for reference in REFERENCE.findall(json.dumps(run.output)))
