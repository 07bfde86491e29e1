"""Tasks through Orion on one model: passed, calls, tokens, seconds, invalid calls, dangling ids.

    python -m benchmarks.public [--tier public,dev] [--only inv,scan] [--look off] [--out FOLDER]

Writes `FOLDER/answers.jsonl` and `FOLDER/tasks.jsonl` for the public scorer. `--look` is `on`, `off` or a number of
tokens (`Limits.look_tokens`): what the first look costs and saves.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.answers import Answer, save, show_each, show_sums
from benchmarks.orion_way import run_all
from benchmarks.server import add_options, serving
from benchmarks.task import Task
from benchmarks.tasks import chosen, write
from orion.run import Limits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--tier", default="public", help="public, dev, held, separated by commas")
    parser.add_argument("--only", default="", help="starts of task ids, separated by commas")
    parser.add_argument("--look", default="on", help="on, off, or its budget in tokens")
    parser.add_argument("--toolsets", help="names separated by commas; by default each run chooses its own")
    parser.add_argument("--seconds", type=float, default=300.0, help="wall-clock limit of one task")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out"))
    options = parser.parse_args()
    tasks = chosen(options.tier, options.only)
    write(options.out, [task for task in tasks if task.tier != "public"])
    limits = Limits(seconds=options.seconds)
    if options.look != "on":
        limits = Limits(seconds=options.seconds, look_tokens=0 if options.look == "off" else int(options.look))
    toolsets = options.toolsets.split(",") if options.toolsets else None
    answers: list[Answer] = []
    try:
        with serving(options):
            for answer in run_all(tasks, options.out, limits=limits, toolsets=toolsets):
                answers.append(answer)
    finally:  # what was answered before a failure or Ctrl-C is worth keeping
        report(answers, tasks, options)


def report(answers: list[Answer], tasks: list[Task], options: argparse.Namespace) -> None:
    """Saves the answers and prints the tables."""
    save(options.out / "answers.jsonl", answers)
    show_each(answers, f"Orion, look {options.look}")
    tiers = {
        tier: [a for a, t in zip(answers, tasks, strict=False) if t.tier == tier] for tier in options.tier.split(",")
    }
    show_sums({tier: some for tier, some in tiers.items() if some}, "by tier")


if __name__ == "__main__":
    main()
