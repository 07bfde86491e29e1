"""Which toolsets does a request need? The model's choice among one-line summaries, on the prompts of `selection.jsonl`.

    python -m benchmarks.selection [--half dev,held]

The eight toolsets of the design are on offer; those that do not exist yet are stand-ins with one tool each. A choice
is right when it has every needed toolset and none that cannot help. Attached media settle the obvious without a call;
the table shows both. Tokens saved: what a request costs less with the chosen toolsets than with all.
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
from orion.job import Job
from orion.model import Model, connect
from orion.run import Limits, Run
from orion.settings import Settings
from orion.toolkit import ALWAYS, discover, offer, select
from orion.tools import Toolset, Video
from orion.trace import TraceWriter
from orion.worker import WorkerPool

FILE = Path(__file__).with_name("selection.jsonl")


def generate_image(prompt: str) -> str:
    """Make a picture from a description."""
    raise NotImplementedError(prompt)


def build_world(prompt: str) -> str:
    """Make a 3-D world from a description or from what is attached."""
    raise NotImplementedError(prompt)


def draw_chart(data: str, kind: str = "bar") -> str:
    """Draw a chart of numbers."""
    raise NotImplementedError(data, kind)


def trim(video: Video, start: float, end: float) -> str:
    """Cut out a part of a video, in seconds."""
    raise NotImplementedError(video, start, end)


def search_web(query: str) -> str:
    """Search the web."""
    raise NotImplementedError(query)


PLANNED = (
    Toolset("image-gen", "generate a picture from words, edit or restyle a picture", (generate_image,)),
    Toolset("world-gen", "3-D worlds and scenes: from words, photos or a video", (build_world,)),
    Toolset("viz", "draw charts, boxes, labels and side-by-side pictures", (draw_chart,)),
    Toolset("video", "frames, scenes, cutting and speech of video and audio", (trim,), media=("video", "audio")),
    Toolset("web", "search the web and read web pages", (search_web,)),
)
"""Stand-ins for the toolsets that are not written yet, with one tool each, which is never called."""
MEDIA_TYPES = {"image": "image/png", "document": "application/pdf", "video": "video/mp4", "audio": "audio/wav"}


@dataclass
class Choice:
    """What came of one request."""

    half: str
    id: str
    asked: bool
    chosen: list[str]
    right: bool
    call_tokens: int
    """Tokens of the choosing call."""
    chars: int
    """Characters of the tool list with the chosen toolsets."""
    all_chars: int
    """Characters of the tool list with every toolset that exists."""


def catalogue() -> dict[str, Toolset]:
    """The toolsets that exist, and stand-ins for the planned ones."""
    found = dict(discover())
    for toolset in PLANNED:
        found.setdefault(toolset.name, toolset)
    return found


async def choose(model: Model, line: dict[str, Any], toolsets: dict[str, Toolset], workers: WorkerPool) -> Choice:
    """Let Orion choose for one request."""
    with tempfile.TemporaryDirectory() as folder:
        job = new_job(model, line, toolsets, Path(folder), workers)
        asked = await select(job)
        chosen = list(job.run.toolsets)
        chars = len(CallTools(job, native=False, sees=False).system())
        calls = job.run.usage.total_tokens
        offer(job, list(toolsets))
        all_chars = len(CallTools(job, native=False, sees=False).system())
        job.trace.close()
    needed, allowed = set(line["right"]), {*line["right"], *line["also"], ALWAYS}
    right = needed <= set(chosen) <= allowed
    return Choice(line["half"], line["id"], asked, chosen, right, calls, chars, all_chars)


def new_job(model: Model, line: dict[str, Any], toolsets: dict[str, Toolset], folder: Path, workers: WorkerPool) -> Job:
    """A run with the request's media attached, before any toolset is chosen."""
    store = ArtifactStore(folder)
    run = Run(id=line["id"], prompt=line["prompt"], model=model.name, limits=Limits())
    transcript = Transcript(context=model.context, profile=model.profile)
    trace = TraceWriter(folder / "trace.jsonl")
    job = Job(run, model, store, workers, toolsets, transcript, trace, lambda _event: None)
    for kind in line["media"]:
        artifact = store.add(line["id"].encode(), kind=kind, media_type=MEDIA_TYPES[kind], width=800, height=600)
        job.artifacts[artifact.id] = artifact
        run.inputs.append(artifact.id)
    return job


async def measure(lines: list[dict[str, Any]]) -> list[Choice]:
    """All requests, with what was chosen for each printed as it comes."""
    model = await connect(Settings.from_env())
    workers, toolsets = WorkerPool(1), catalogue()
    choices = []
    try:
        for line in lines:
            choice = await choose(model, line, toolsets, workers)
            choices.append(choice)
            mark = "x" if choice.right else "."
            print(f"  {choice.id} {mark} wanted {line['right']}, got {choice.chosen}", flush=True)
    finally:
        await workers.close()
        await model.close()
    return choices


def row(name: str, choices: list[Choice], chars_per_token: float) -> list[object]:
    """One line of the table."""
    count = len(choices)
    saved = sum(c.all_chars - c.chars for c in choices) / chars_per_token
    spent = sum(c.call_tokens for c in choices)
    return [
        name,
        share(sum(c.right for c in choices), count),
        sum(c.asked for c in choices),
        round(spent / max(1, sum(c.asked for c in choices))),
        round(saved / max(1, count)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--half", default="dev,held")
    options = parser.parse_args()
    halves = options.half.split(",")
    lines = [json.loads(line) for line in FILE.read_text("utf8").splitlines()]
    with serving(options):
        choices = asyncio.run(measure([line for line in lines if line["half"] in halves]))
    rows = [row(half, [c for c in choices if c.half == half], 3.5) for half in halves]
    rows.append(row("asked the model", [c for c in choices if c.asked], 3.5))
    rows.append(row("settled by media", [c for c in choices if not c.asked], 3.5))
    head = ["requests", "right", "model asked", "tokens a choice", "tokens saved a later request"]
    show(head, rows, f"{len(choices)} requests, {len(catalogue())} toolsets")


if __name__ == "__main__":
    main()
