"""Which action next? One model asked in schema mode and natively, on the decisions of `decisions.jsonl`.

    python -m benchmarks.decisions [--half dev,held] [--mode schema,native]

A decision is a request, files with a short observation each, what was done so far, and the actions that are right now.
Tools, prompts and schemas are Orion's own; the files themselves are never opened. In the file `$1` is the first file,
`$2` the second or what the last action made. An argument is checked by `equals`, `contains`, `near` (with `tol`),
`evaluates` (arithmetic with that value), `pages` (page numbers written in any way), `angle` (equal on the circle, in
degrees) or, for a crop, `box` (x, y, width, height in 0–1); `optional` ones may be left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.server import add_options, serving
from benchmarks.table import share, show
from orion.actors import CallTools
from orion.artifacts import ArtifactStore
from orion.context import Transcript
from orion.errors import ModelError, Stop, ToolRetry
from orion.job import Job
from orion.look import describe
from orion.loop import think
from orion.model import Model, connect
from orion.request import _open as open_request  # the very message a run begins with
from orion.run import Call, Limits, Observation, Run, Step, Turn
from orion.settings import Settings
from orion.toolkit import discover, offer
from orion.toolsets.arithmetic import ArithmeticProblem, evaluate
from orion.trace import TraceWriter
from orion.types import Message, encode
from orion.worker import WorkerPool

FILE = Path(__file__).with_name("decisions.jsonl")
SECONDS = 300.0
WHOLE = "text:\n"
"""What stands in a look that holds the whole text of its file."""
BOX_TOL = 0.03
"""How far each number of a box may be off, as a share of the image."""


@dataclass
class Outcome:
    """What came of one decision."""

    half: str
    valid: bool = False
    tool: bool = False
    arguments: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    note: str = ""


def load(halves: str) -> list[dict[str, Any]]:
    """The decisions of these halves."""
    lines = [json.loads(line) for line in FILE.read_text("utf8").splitlines()]
    return [line for line in lines if line["half"] in halves.split(",")]


async def decide(model: Model, decision: dict[str, Any], *, native: bool, workers: WorkerPool) -> Outcome:
    """Ask the model for the next action and judge it."""
    outcome = Outcome(decision["half"])
    with tempfile.TemporaryDirectory() as folder:
        job, ids = build(model, decision, Path(folder), workers)
        actor = CallTools(job, native=native, sees=False)
        job.transcript.add(Message.text("system", actor.system()))
        await open_request(job, actor)
        for index, past in enumerate(decision["history"]):
            happened(job, actor, past, ids, index)
        try:
            turn = await think(job, actor)
        except (ModelError, Stop) as error:
            outcome.note = f"{type(error).__name__}: {error}"
            return outcome
        judge(outcome, turn, decision, job, ids)
        outcome.prompt_tokens, outcome.completion_tokens = turn.usage.prompt_tokens, turn.usage.completion_tokens
        job.trace.close()
    return outcome


def build(model: Model, decision: dict[str, Any], folder: Path, workers: WorkerPool) -> tuple[Job, dict[str, str]]:
    """A run that stands before this decision; also the ids behind `$1`, `$2`."""
    store = ArtifactStore(folder)
    run = Run(id=decision["id"], prompt=decision["prompt"], model=model.name, limits=Limits(seconds=SECONDS))
    transcript = Transcript(context=model.context, profile=model.profile)
    trace = TraceWriter(folder / "trace.jsonl")
    job = Job(run, model, store, workers, discover(), transcript, trace, lambda _event: None)
    ids: dict[str, str] = {}
    for file, look in zip(decision["files"], decision["looks"], strict=True):
        id_ = add(job, file, ids)
        run.inputs.append(id_)
        if WHOLE not in look:
            job.unread.add(id_)
        run.looks.append(Observation(text=f"{describe(job.artifacts[id_])}. {look}".rstrip(". ")))
    offer(job, ["core", "image", "document"])
    return job, ids


def add(job: Job, file: dict[str, Any], ids: dict[str, str]) -> str:
    """Put a file that is only a name into the store; its id becomes the next `$`."""
    handle = f"${len(ids) + 1}"
    artifact = job.store.add(f"{job.run.id} {handle}".encode(), **file)
    job.artifacts[artifact.id] = artifact
    ids[handle] = artifact.id
    return artifact.id


def happened(job: Job, actor: CallTools, past: dict[str, Any], ids: dict[str, str], index: int) -> None:
    """Put an earlier action and its observation into the transcript."""
    made = [add(job, past["makes"], ids)] if "makes" in past else []
    arguments = {
        name: ids.get(value, value) if isinstance(value, str) else value for name, value in past["arguments"].items()
    }
    call = Call(tool=past["tool"], arguments=arguments, id=f"call_{index}")
    text = "" if actor.native else encode({"tool": call.tool, "arguments": arguments}).decode()
    turn = Turn(text=text, calls=[call])
    observation = past["observation"]
    for handle, id_ in ids.items():
        observation = observation.replace(handle, id_)
    error = "retry" if observation.startswith("error") else None
    seen = Observation(text=observation, artifacts=made, tool=call.tool, error=error)
    job.transcript.add(actor.said(turn))
    for message, stub in actor.observed(turn, [seen]):
        job.transcript.add(message, stub=stub)
    job.run.steps.append(Step(turn=turn, observations=[seen]))


def judge(outcome: Outcome, turn: Turn, decision: dict[str, Any], job: Job, ids: dict[str, str]) -> None:
    """Is the turn an action at all, the right one, and with the right arguments?"""
    if turn.problem is not None:
        outcome.note = turn.problem
        return
    if turn.final is not None:
        outcome.valid = True
        finals = [accept["final"] for accept in decision["accept"] if "final" in accept]
        outcome.tool = bool(finals)
        outcome.arguments = any(text.lower() in str(turn.final).lower() for texts in finals for text in texts)
        outcome.note = f"answer: {turn.final}"
        return
    call = turn.calls[0]
    outcome.note = f"{call.tool} {json.dumps(call.arguments, ensure_ascii=False)}"
    if call.tool not in job.tools:
        return
    try:
        arguments = job.tools[call.tool].bind(call.arguments, job.ids, job.names)
    except ToolRetry as error:
        outcome.note += f" ({error})"
        return
    outcome.valid = True
    accepts = [accept for accept in decision["accept"] if accept.get("tool") == call.tool]
    outcome.tool = bool(accepts)
    outcome.arguments = any(fits(accept, arguments, job, ids) for accept in accepts)


def fits(accept: dict[str, Any], arguments: dict[str, Any], job: Job, ids: dict[str, str]) -> bool:
    """Whether all arguments are as they should be."""
    if "box" in accept and not boxed(accept["box"], arguments, job):
        return False
    for name, check in accept["arguments"].items():
        if arguments.get(name) is None:
            if not check.get("optional"):
                return False
        elif not passes(check, arguments[name], ids):
            return False
    return True


def passes(check: dict[str, Any], value: Any, ids: dict[str, str]) -> bool:
    """One argument against its check.

    >>> passes({"pages": [5, 6, 7]}, "5-7", {}), passes({"angle": 180}, -180, {}), passes({"evaluates": 5}, "2+3", {})
    (True, True, True)
    """
    if "equals" in check:
        wanted = check["equals"]
        return bool(value == (ids.get(wanted, wanted) if isinstance(wanted, str) else wanted))
    if "contains" in check:
        return str(check["contains"]).lower() in str(value).lower()
    if "near" in check:
        return bool(abs(value - check["near"]) <= check["tol"])
    if "pages" in check:
        return bool(numbers(str(value)) == check["pages"])
    if "angle" in check:
        return bool(abs((value - check["angle"] + 180) % 360 - 180) < 0.5)
    try:
        return bool(abs(float(evaluate(value)) - check["evaluates"]) < 0.01)
    except ArithmeticProblem:
        return False


def numbers(pages: str) -> list[int]:
    """Page numbers of "1,4-6"; empty when it is written in no known way.

    >>> numbers("1,4-6")
    [1, 4, 5, 6]
    """
    found: list[int] = []
    for part in pages.replace(" ", "").split(","):
        first, _, last = part.partition("-")
        if not first.isdigit() or not (last or first).isdigit():
            return []
        found += range(int(first), int(last or first) + 1)
    return found


def boxed(box: list[float], arguments: dict[str, Any], job: Job) -> bool:
    """Whether x, y, width, height mean this box; values above 1 are pixels."""
    image = job.artifacts[arguments["image"]]
    got = [arguments[name] for name in ("x", "y", "width", "height")]
    if got[2] > 1 and got[3] > 1 and image.width and image.height:
        got = [got[0] / image.width, got[1] / image.height, got[2] / image.width, got[3] / image.height]
    return all(abs(a - b) <= BOX_TOL for a, b in zip(got, box, strict=True))


async def measure(decisions: list[dict[str, Any]], mode: str, verbose: bool) -> list[Outcome]:
    """All decisions in one mode."""
    model = await connect(Settings.from_env())
    workers = WorkerPool(1)
    outcomes = []
    try:
        for decision in decisions:
            outcome = await decide(model, decision, native=mode == "native", workers=workers)
            outcomes.append(outcome)
            if verbose:
                marks = "".join("x" if mark else "." for mark in (outcome.valid, outcome.tool, outcome.arguments))
                print(f"  {mode} {decision['id']} {marks} {outcome.note[:150]}", flush=True)
    finally:
        await workers.close()
        await model.close()
    return outcomes


def row(mode: str, half: str, outcomes: list[Outcome]) -> list[object]:
    """One line of the table."""
    count = len(outcomes)
    return [
        mode,
        half,
        share(sum(o.valid for o in outcomes), count),
        share(sum(o.tool for o in outcomes), count),
        share(sum(o.arguments for o in outcomes), count),
        round(sum(o.prompt_tokens for o in outcomes) / max(1, count)),
        round(sum(o.completion_tokens for o in outcomes) / max(1, count)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--half", default="dev,held")
    parser.add_argument("--mode", default="schema,native")
    parser.add_argument("--only", default="", help="starts of decision ids, separated by commas")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()
    starts = tuple(options.only.split(",")) if options.only else ("",)
    decisions = [decision for decision in load(options.half) if decision["id"].startswith(starts)]
    rows = []
    with serving(options):
        for mode in options.mode.split(","):
            outcomes = asyncio.run(measure(decisions, mode, not options.quiet))
            halves = {half: [o for o in outcomes if o.half == half] for half in options.half.split(",")}
            rows += [row(mode, half, some) for half, some in halves.items() if some]
            if len(halves) > 1:
                rows.append(row(mode, "both", outcomes))
    head = ["mode", "half", "valid", "right tool", "right arguments", "prompt tokens", "output tokens"]
    show(head, rows, f"{len(decisions)} decisions")


if __name__ == "__main__":
    main()
