"""`orion run` and `orion demo`: one request, its steps on the terminal, and its answer on standard output."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

from orion import cli
from orion import events as ev
from orion.console import Pen, is_terminal, print_json
from orion.errors import MediaError, OrionError, UserError
from orion.live import LiveSteps, summary_line
from orion.run import JSON, Limits, Run
from orion.words import dump, harmless

if TYPE_CHECKING:
    from orion.api import Orion
    from orion.result import Result

TICK_SECONDS = 0.5
"""How often the seconds of the running step are redrawn."""


def run(options: argparse.Namespace) -> int:
    """`orion run`; returns the exit code."""
    from orion.api import Orion

    prompt, files = _inputs(options.prompt, options.files)
    schema = _read_schema(options.schema) if options.schema else None
    out = _out_folder(options.out) if options.out else None
    bounds = {"steps": options.steps, "seconds": options.seconds}
    limits = _limits({name: value for name, value in bounds.items() if value is not None})
    with Orion(options.model, limits=limits) as agent:
        result = follow(
            agent,
            prompt,
            files,
            response_format=schema,
            toolsets=options.toolsets,
            quiet=options.quiet,
            password=getpass.getpass("Password of the PDF: ") if options.password else None,
        )
    if out is not None:
        result.save(out)
    if options.json:
        print_json(_whole(result), sys.stdout)
    else:
        print_answer(result.run, sys.stdout)
    _explain_stop(result.run, sys.stderr)
    return exit_code(result.run)


def demo(keep: str | None) -> int:
    """`orion demo`: draw an invoice, read it with the agent, compare; 0 when every field is right."""
    from orion.api import Orion
    from orion.cli_model import pull_configured
    from orion.demo import FILE_NAME, PROMPT, Invoice, draw_invoice, truth

    pull_configured()
    with tempfile.TemporaryDirectory(prefix="orion-demo-") as scratch:
        folder = _out_folder(keep) if keep else Path(scratch)
        file = folder / FILE_NAME
        file.write_bytes(draw_invoice(truth()))
        print(f"{PROMPT} ({file})", file=sys.stderr)
        with Orion() as agent:
            result = follow(agent, PROMPT, [file], response_format=Invoice)
        if keep:
            result.save(folder)
        if not is_terminal(sys.stderr):  # there the live steps have ended with this line
            print(summary_line(result.run, Pen(sys.stderr)), file=sys.stderr)
        print_answer(result.run, sys.stdout)
        if not isinstance(result.output, Invoice):
            _explain_stop(result.run, sys.stderr)
            return exit_code(result.run) or cli.FAILED
        return _compare(result.output.model_dump(mode="json"), truth().model_dump(mode="json"))


def follow(
    agent: Orion,
    prompt: str,
    files: Sequence[Any],
    *,
    response_format: Any = None,
    toolsets: Sequence[str] | None = None,
    quiet: bool = False,
    password: str | None = None,
) -> Result:
    """Run one request with its steps on standard error when that is a terminal. Ctrl-C ends it with what there is."""
    live = LiveSteps(sys.stderr) if is_terminal(sys.stderr) and not quiet else None

    async def main() -> Result:
        events = agent.astream(prompt, files, response_format=response_format, toolsets=toolsets, password=password)
        return await _last(events, live, interrupt)

    with _Interrupt() as interrupt:
        try:
            return asyncio.run(main())
        except asyncio.CancelledError as error:  # interrupted before there was a run that could be kept
            raise KeyboardInterrupt from error
        finally:
            if live:
                live.close()


async def _last(events: AsyncIterator[ev.Event], live: LiveSteps | None, interrupt: _Interrupt) -> Result:
    """Show the events as they come; the result is in the last one."""
    result: Result | None = None
    while True:
        coming = asyncio.ensure_future(_next(events))
        interrupt.watch(coming)
        while not (await asyncio.wait({coming}, timeout=TICK_SECONDS))[0]:
            if live:
                live.tick()
        event = coming.result()
        if event is None:
            break
        if live:
            live.show(event)
        if isinstance(event, ev.Finished):
            result = event.result
    if result is None:
        raise OrionError("the run ended without a result")
    return result


async def _next(events: AsyncIterator[ev.Event]) -> ev.Event | None:
    return await anext(events, None)


class _Interrupt:
    """Ctrl-C: the first one cancels what the run waits for, the second one ends the process."""

    def __init__(self) -> None:
        self._waiting: asyncio.Future[Any] | None = None
        self._due = False

    def __enter__(self) -> _Interrupt:
        self._before = signal.signal(signal.SIGINT, self._first)
        return self

    def __exit__(self, *_exc: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def watch(self, waiting: asyncio.Future[Any]) -> None:
        """From now on the first Ctrl-C cancels `waiting`; one that came in between does so soon."""
        self._waiting = waiting
        if self._due:
            # Not at once: a task that is cancelled before its first step never tells the run that it was.
            waiting.get_loop().call_soon(self._cancel)

    def _first(self, _number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.write(sys.stderr.fileno(), b"\nstopping; Ctrl-C again ends at once\n")  # print() may not be entered twice
        self._due = True
        if self._waiting is not None:
            self._waiting.get_loop().call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._due and self._waiting is not None and not self._waiting.done():
            self._due = False
            self._waiting.cancel()


def exit_code(run: Run) -> int:
    """The exit code of a finished run, see `orion run -h`."""
    codes = {"answered": cli.ANSWERED, "cancelled": cli.INTERRUPTED, "model_failed": cli.NO_MODEL}
    return codes.get(run.stop or "", cli.PARTIAL)


def print_answer(run: Run, stream: TextIO) -> None:
    """The answer alone: JSON when a schema was asked, else text. Nothing when there is none."""
    if run.output is None:
        return
    if run.response_schema is not None or not isinstance(run.output, str):
        print_json(run.output, stream)
    else:
        print(harmless(run.output) if is_terminal(stream) else run.output, file=stream)


def _explain_stop(run: Run, stream: TextIO) -> None:
    if run.stop != "answered":
        detail = f": {harmless(run.detail)}" if run.detail else ""
        print(f"{Pen(stream).yellow(f'stopped ({run.stop})')}{detail}", file=stream)


def _whole(result: Result) -> dict[str, JSON]:
    """What `--json` prints."""
    run = result.run
    return {
        "id": run.id,
        "stop": run.stop,
        "detail": run.detail,
        "output": run.output,
        "model": run.model,
        "toolsets": run.toolsets,
        "steps": len(run.steps),
        "seconds": round(run.seconds, 3),
        "usage": {**run.usage.model_dump(), "total_tokens": run.usage.total_tokens},
        "artifacts": [artifact.model_dump(mode="json", exclude_none=True) for artifact in result.artifacts],
        "trace": str(result.trace),
    }


def _inputs(prompt: str, files: Sequence[str]) -> tuple[str, list[str | bytes]]:
    """The prompt and the files, `-` replaced by what standard input holds."""
    if [prompt, *files].count("-") > 1:
        raise UserError("standard input can be read once only", param="-")
    if prompt == "-":
        prompt = sys.stdin.read().strip()
        if not prompt:
            raise UserError("the prompt on standard input is empty", param="prompt")
    for number, file in enumerate(files):
        _check_file(file, f"files[{number}]")
    return prompt, [sys.stdin.buffer.read() if file == "-" else file for file in files]


def _check_file(file: str, param: str) -> None:
    """Refuse a local file that is not there at once; the agent would find out only after a model was started."""
    if file == "-" or "://" in file or file.startswith("data:"):
        return
    path = Path(file).expanduser()
    if path.is_dir():
        raise MediaError("not_a_file", f"{file} is a folder", param=param, fix="Name the files in it.")
    if not path.exists():
        raise MediaError("not_found", f"there is no file {file}", param=param, fix="Check the path.")
    if path.is_file() and path.stat().st_size == 0:
        raise MediaError("empty_file", f"{file} is empty", param=param, fix="Check how it was made.")


def _read_schema(path: str) -> dict[str, JSON]:
    try:
        schema = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", param="--schema") from error
    except ValueError as error:  # not JSON, or not UTF-8
        raise UserError(f"{path} is not JSON: {error}", param="--schema") from error
    if not isinstance(schema, dict):
        raise UserError(f"{path} holds no JSON schema: it must be an object", param="--schema")
    return schema


def _out_folder(path: str) -> Path:
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {path}: {error.strerror}", param="--out") from error
    return folder


def _limits(bounds: dict[str, float]) -> Limits:
    from pydantic import ValidationError

    try:
        return Limits.model_validate(bounds)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise UserError(first["msg"], param=f"--{first['loc'][0]}") from error


def _compare(got: dict[str, JSON], drawn: dict[str, JSON]) -> int:
    pen = Pen(sys.stderr)
    wrong = [name for name in drawn if got[name] != drawn[name]]
    for name in wrong:
        print(f"{pen.red('wrong:')} {name} is {dump(got[name])}, drawn was {dump(drawn[name])}", file=sys.stderr)
    if not wrong:
        print(pen.green("This is exactly the invoice that was drawn."), file=sys.stderr)
    return cli.FAILED if wrong else cli.ANSWERED
