"""The same tasks through smolagents with Orion's own tool functions: they run here, the agent in its interpreter."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.answers import Answer, graded
from benchmarks.orion_way import REFERENCE
from benchmarks.server import Server
from benchmarks.task import Task
from benchmarks.tasks import place
from orion.actors import CallTools
from orion.artifacts import ArtifactStore
from orion.context import Transcript
from orion.job import Job
from orion.look import describe
from orion.media import intake
from orion.model import Model, connect
from orion.run import Call, Limits, Run, Turn
from orion.settings import Settings
from orion.toolkit import discover, offer
from orion.trace import TraceWriter
from orion.worker import WorkerPool

SCRIPT = Path(__file__).with_name("peers_smolagents.py")
STEPS = 8
SLACK_SECONDS = 60.0
"""How much longer than its own limit the other side may stay silent."""
LINE_BYTES = 16 * 2**20
INVALID = ("unknown_tool", "bad_arguments")


async def run_all(
    tasks: Sequence[Task], folder: Path, server: Server, python: str, kind: str, seconds: float
) -> list[Answer]:
    """Every task by a `kind` agent (`tool` or `code`) of the interpreter `python`."""
    model = await connect(Settings.from_env())  # for the tools' context only; the agent talks to the server itself
    process = await asyncio.create_subprocess_exec(
        python, str(SCRIPT), kind, stdin=-1, stdout=-1, stderr=asyncio.subprocess.DEVNULL, limit=LINE_BYTES
    )
    answers = []
    async with WorkerPool(1) as workers:
        try:
            await _say(process, {"url": server.url, "name": server.name, "key": server.key})
            for task in tasks:
                job = await _job(model, task, folder, workers)
                answers.append(graded(await _one(process, job, task, seconds), task))
                job.trace.close()
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            await model.close()
    return answers


async def _job(model: Model, task: Task, folder: Path, workers: WorkerPool) -> Job:
    """The task's file as an artifact, and the tools of its medium on offer."""
    store = ArtifactStore(folder / "smolagents" / task.id)
    run = Run(id=task.id, prompt=task.prompt, model=model.name, limits=Limits())
    transcript = Transcript(context=model.context, profile=model.profile)
    job = Job(run, model, store, workers, discover(), transcript, TraceWriter(store.folder / "trace.jsonl"), _ignore)
    artifact = await intake(place(task, folder), store, workers)
    job.artifacts[artifact.id] = artifact
    run.inputs.append(artifact.id)
    offer(job, ["core", *(name for name, toolset in job.catalogue.items() if artifact.kind in toolset.media)])
    return job


def _ignore(_event: object) -> None:
    return None


def prompt(job: Job, task: Task) -> str:
    """What a user of smolagents would write: the request, the file's id, the schema."""
    (id_,) = job.run.inputs
    schema = json.dumps(task.schema, ensure_ascii=False)
    return (
        f"{task.prompt}\nThe file is {describe(job.artifacts[id_])}; pass {id_!r} to the tools.\n"
        f"Give the final answer as a JSON object that matches this JSON schema: {schema}"
    )


async def _one(process: asyncio.subprocess.Process, job: Job, task: Task, seconds: float) -> Answer:
    """One task: answer tool calls until the other side says it is done."""
    actor = CallTools(job, native=True, sees=False)
    answer = Answer(task.id)
    started = time.perf_counter()
    await _say(process, {"prompt": prompt(job, task), "tools": actor.wire(), "seconds": seconds, "steps": STEPS})
    while True:
        async with asyncio.timeout(seconds + SLACK_SECONDS):
            said = await _hear(process)
        if "call" not in said:
            break
        answer.dangling += sum(id_ not in job.artifacts for id_ in REFERENCE.findall(json.dumps(said["arguments"])))
        (seen,) = await actor.act(Turn(calls=[Call(tool=said["call"], arguments=said["arguments"])]))
        answer.invalid += seen.error in INVALID
        await _say(process, {"text": seen.text})
    answer.seconds = time.perf_counter() - started
    answer.content, answer.error = said["answer"], said["error"]
    answer.calls, answer.first_prompt_tokens = said["calls"], said["first_prompt_tokens"]
    answer.prompt_tokens, answer.completion_tokens = said["prompt_tokens"], said["completion_tokens"]
    answer.invalid += said["broken"]
    return answer


async def _say(process: asyncio.subprocess.Process, message: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message).encode() + b"\n")
    await process.stdin.drain()


async def _hear(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise SystemExit("the peers' interpreter ended; run its script by hand to see why")
    said: dict[str, Any] = json.loads(line)
    return said
