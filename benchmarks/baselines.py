"""Three ways on one model and the same tasks: one call without an agent, smolagents, Orion.

    python -m benchmarks.baselines --peers-python PYTHON [--tier public,dev] [--ways plain,ocr,smolagents,orion]

`plain` pastes the text layer of a PDF and of a picture nothing but its file name; `ocr` also pastes what OCR reads, so
it is pasting at its best. `smolagents` gets Orion's own tools, as `--agent tool` or `code`. Every way has the same
server, temperature 0 and time limit. Answers are graded by the public scorer.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import orion_way, plain, smolagents_way
from benchmarks.answers import Answer, graded, save, show_each, show_sums
from benchmarks.server import Server, add_options, serving
from benchmarks.table import show
from benchmarks.task import Task
from benchmarks.tasks import chosen
from orion.model import connect
from orion.run import Limits
from orion.settings import Settings


async def pasted(tasks: Sequence[Task], text: Callable[[Task], str]) -> list[Answer]:
    """One call a task with the document's text in it."""
    model = await connect(Settings.from_env())
    answers = []
    try:
        for task in tasks:
            answers.append(graded(await plain.ask(model, task, text(task)), task))
    finally:
        await model.close()
    return answers


def run_way(way: str, tasks: Sequence[Task], options: argparse.Namespace, server: Server) -> list[Answer]:
    """All tasks in one way."""
    if way == "plain":
        return asyncio.run(pasted(tasks, plain.text_layer))
    if way == "ocr":
        return asyncio.run(pasted(tasks, plain.ocr_text))
    if way == "orion":
        return list(orion_way.run_all(tasks, options.out, limits=Limits(seconds=options.seconds)))
    if way == "smolagents":
        work = smolagents_way.run_all(tasks, options.out, server, options.peers_python, options.agent, options.seconds)
        return asyncio.run(work)
    raise SystemExit(f"unknown way {way!r}; known: plain, ocr, smolagents, orion")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--tier", default="public", help="public, dev, held, separated by commas")
    parser.add_argument("--only", default="", help="starts of task ids, separated by commas")
    parser.add_argument("--ways", default="plain,ocr,smolagents,orion")
    parser.add_argument("--agent", choices=["tool", "code"], default="tool", help="which agent of smolagents")
    parser.add_argument("--peers-python", help="interpreter with benchmarks/requirements.txt installed")
    parser.add_argument("--seconds", type=float, default=300.0, help="wall-clock limit of one task")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out"))
    options = parser.parse_args()
    if "smolagents" in options.ways.split(",") and not options.peers_python:
        parser.error("smolagents needs --peers-python")
    tasks = chosen(options.tier, options.only)
    ways: dict[str, Sequence[Answer]] = {}
    with serving(options) as server:
        for way in options.ways.split(","):
            print(way, flush=True)
            answers = run_way(way, tasks, options, server)
            save(options.out / f"answers_{way}.jsonl", answers)
            ways[way] = answers
    for way, done in ways.items():
        show_each(done, way)
    rows = [
        [task.id, task.tier, *(answers[index].passed for answers in ways.values())] for index, task in enumerate(tasks)
    ]
    show(["task", "tier", *ways], rows, "passed")
    show_sums(ways, f"{len(tasks)} tasks")


if __name__ == "__main__":
    main()
