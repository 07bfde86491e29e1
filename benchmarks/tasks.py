"""The task sets: forty-one drawn ones, half of them kept for the end, and seven public ones.

    python -m benchmarks.tasks FOLDER [--tier dev,held]

writes `FOLDER/tasks.jsonl` and the files, in the form the public scorer (`check.py`) reads.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.task import Task
from benchmarks.tasks_forms import FORMS
from benchmarks.tasks_invoices import INVOICES
from benchmarks.tasks_pages import PAGES
from benchmarks.tasks_pictures import PICTURES
from benchmarks.tasks_scans import SCANS

SHARED = Path(__file__).resolve().parents[2] / "shared"
PUBLIC = SHARED / "samples" / "public"
PUBLIC_IDS = (
    "inv-sammy",
    "form-lo-fields",
    "ocr-eurotext",
    "chart-grouped-labels",
    "qr-photo",
    "exif-land6",
    "tbl-accrued",
)
BUILDERS: Sequence[Callable[[Random], Task]] = (*INVOICES, *FORMS, *PAGES, *SCANS, *PICTURES)


def drawn(tiers: Iterable[str] = ("dev", "held")) -> list[Task]:
    """The drawn tasks of these tiers. Each is drawn from a seed of its own, so that one can change without the rest."""
    wanted = set(tiers)
    tasks = [build(Random(zlib.crc32(build.__name__.encode()))) for build in BUILDERS]
    return [task for task in tasks if task.tier in wanted]


def public() -> list[Task]:
    """The seven public tasks that need only the first tools."""
    if not PUBLIC.is_dir():
        raise SystemExit(f"the public tasks are not here: {PUBLIC} is no folder")
    lines = [json.loads(line) for line in (PUBLIC / "tasks.jsonl").read_text("utf8").splitlines()]
    by_id = {line["id"]: line for line in lines}
    return [_public(by_id[id]) for id in PUBLIC_IDS]


def _public(line: dict[str, Any]) -> Task:
    path = PUBLIC / line["files"][0]
    prompt = line["messages"][0]["content"][0]["text"]
    schema = line["response_format"]["json_schema"]["schema"]
    return Task(line["id"], line["kind"], "public", prompt, path, path.read_bytes(), schema, line["checker"])


def chosen(tiers: str, ids: str = "") -> list[Task]:
    """Tasks by comma-separated tiers (`public`, `dev`, `held`), or only those whose id starts with one of `ids`."""
    wanted = tiers.split(",")
    tasks = (public() if "public" in wanted else []) + drawn(wanted)
    starts = tuple(ids.split(",")) if ids else ("",)
    return [task for task in tasks if task.id.startswith(starts)]


def write(folder: Path, tasks: Sequence[Task]) -> Path:
    """Writes the tasks and their files; returns the path of `tasks.jsonl`."""
    folder.mkdir(parents=True, exist_ok=True)
    for task in tasks:
        place(task, folder)
    path = folder / "tasks.jsonl"
    path.write_text("".join(json.dumps(task.line(), ensure_ascii=False) + "\n" for task in tasks), "utf8")
    return path


def place(task: Task, folder: Path) -> Path:
    """The task's file on disk, written to `folder` when it was drawn."""
    if isinstance(task.file, Path):
        return task.file
    path = folder / task.id / task.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(task.data)
    return path


@cache
def scorer() -> Callable[[dict[str, Any], dict[str, Any] | None], dict[str, Any]]:
    """`score(task line, answer line)` of the public scorer."""
    spec = importlib.util.spec_from_file_location("check", PUBLIC / "check.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"the scorer is not here: {PUBLIC / 'check.py'}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.score  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tier", default="dev,held")
    parser.add_argument("--only", default="", help="starts of ids, separated by commas")
    options = parser.parse_args()
    tasks = chosen(options.tier, options.only)
    print(f"{len(tasks)} tasks in {write(options.folder, tasks)}")


if __name__ == "__main__":
    main()
