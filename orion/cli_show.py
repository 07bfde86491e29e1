"""`orion show TRACE`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from orion.console import Pen
from orion.errors import UserError
from orion.live import summary_line
from orion.run import Run, Step
from orion.words import call_words, dump, harmless, spoken

if TYPE_CHECKING:
    from orion.artifacts import ArtifactStore

TRACE_NAME = "trace.jsonl"
LAST = "last"
"""What stands for the newest run."""
TEXT_CHARS = 2000
"""Characters of one observation shown."""


def show(trace: str, html: str | None) -> int:
    """Print a trace as a transcript, or write it as a web page; returns the exit code.

    `trace` is a path, the id of a run in the store's folder, or `last`. Raises `UserError`.
    """
    from orion.trace import read_trace

    path = _trace_file(trace)
    run = read_trace(path)
    if html is None:
        print(transcript(run, Pen(sys.stdout)))
        return 0
    from orion.notebook import page_html

    try:
        Path(html).write_text(page_html(run, _store_beside(path)), encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {html}: {error.strerror}", param="--html") from error
    print(html)
    return 0


def _trace_file(trace: str) -> Path:
    path = Path(trace)
    if not path.exists() and (trace == LAST or re.fullmatch(r"run_\w+", trace)):
        path = _kept_run(trace)
    if path.is_dir():
        path = path / TRACE_NAME
    if not path.is_file():
        fix = f"Give a {TRACE_NAME} or the folder it lies in, the id of a run, or `{LAST}`."
        raise UserError(f"there is no trace {path}", param="TRACE", fix=fix)
    return path


def _kept_run(name: str) -> Path:
    """The folder of a run in the store's folder; `last` is the one that started last."""
    from orion.settings import Settings

    folder = Settings.from_env().store_dir / "runs"
    runs = [trace.parent for trace in folder.glob(f"{'run_*' if name == LAST else name}/{TRACE_NAME}")]
    if not runs:
        wanted = "run" if name == LAST else f"run {name}"
        fix = "ORION_STORE names another store; the path of a trace works too."
        raise UserError(f"there is no {wanted} in {folder}", param="TRACE", fix=fix)
    # An id holds the second of the start; what began within the same second is told apart by its last line written.
    return max(runs, key=lambda run: (run.name.rpartition("_")[0], (run / TRACE_NAME).stat().st_mtime_ns))


def transcript(run: Run, pen: Pen) -> str:
    """A run as text for a person, newest last.

    >>> import io
    >>> print(transcript(Run(id="run_1", prompt="2+2?", output="4", stop="answered"), Pen(io.StringIO())))
    request
      2+2?
    answer
      4
        ✓  answered · 0 steps · 0 model calls · 0 tokens · 0.0 s
    """
    lines = [pen.bold("request"), *_indent(run.prompt)]
    if run.inputs:
        lines.append(pen.dim(f"  files: {', '.join(run.inputs)}"))
    for look in run.looks:
        lines += [pen.bold("first look"), *_indent(look.text)]
    for number, step in enumerate(run.steps, 1):
        lines += _step_lines(number, step, pen)
    if run.output is not None:
        output = run.output if isinstance(run.output, str) else dump(run.output, indent=2)
        lines += [pen.bold("answer" if run.stop == "answered" else "partial answer"), *_indent(output)]
    lines.append(summary_line(run, pen))
    if run.detail:
        lines.append(f"       {harmless(run.detail)}")
    return "\n".join(lines)


def _step_lines(number: int, step: Step, pen: Pen) -> list[str]:
    turn = step.turn
    used = pen.dim(f"{turn.usage.total_tokens:,} tokens · {turn.seconds:.1f} s")
    lines = [f"{pen.bold(f'step {number}')}  {used}"]
    lines += [pen.dim(line) for line in _indent(turn.reasoning)] + _indent(spoken(turn))
    if turn.problem:
        lines.append(f"  {pen.yellow('no usable action:')} {harmless(turn.problem)}")
    # Calls and observations are in the same order; a cut run may lack the last observations.
    for index in range(max(len(turn.calls), len(step.observations))):
        if index < len(turn.calls):
            lines.append(f"  {pen.bold(harmless(call_words(turn.calls[index])))}")
        if index < len(step.observations):
            observation = step.observations[index]
            if observation.error:
                lines.append(f"    {pen.red(observation.error)}")
            lines += [f"  {line}" for line in _indent(observation.text)]
            lines.append(pen.dim(f"    {observation.seconds:.1f} s"))
    return lines


def _indent(text: str) -> list[str]:
    hidden = len(text) - TEXT_CHARS
    shown = text if hidden <= 0 else f"{text[:TEXT_CHARS]}… ({hidden:,} more characters)"
    return [f"  {line}" for line in harmless(shown).splitlines()]


def _store_beside(trace: Path) -> ArtifactStore | None:
    """The store a trace was written into: the nearest folder above it with an `artifacts.jsonl`."""
    from orion.artifacts import ArtifactStore

    for folder in list(trace.absolute().parents)[:3]:
        if (folder / "artifacts.jsonl").is_file():
            return ArtifactStore(folder)
    return None
