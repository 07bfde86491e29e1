"""Runs the `orion` command for tests: in a pipe or on a pseudo terminal, with settings of its own."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SECONDS = 90.0
"""Longest run of one command."""
COMMAND = [sys.executable, "-m", "orion.cli"]


@dataclass
class Outcome:
    """What a command left behind. On a terminal `err` is what the terminal got."""

    code: int
    out: str
    err: str


def environment(folder: Path, **settings: str) -> dict[str, str]:
    """The environment of a command: no `ORION_*` from outside, folders below `folder`, no proxies."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("ORION_") and not name.lower().endswith("_proxy") and name != "NO_COLOR"
    }
    own = {"ORION_CACHE": str(folder / "cache"), "ORION_STORE": str(folder / "store"), "TERM": "xterm"}
    return {**kept, **own, **settings}


def orion(*arguments: str | Path, env: Mapping[str, str], stdin: str | bytes = b"", cwd: Path | None = None) -> Outcome:
    """One command with its output in pipes."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=given,
        capture_output=True,
        env=env,
        cwd=cwd,
        timeout=SECONDS,
        check=False,
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


def orion_interrupted(
    *arguments: str | Path, env: Mapping[str, str], when: Callable[[], bool], times: int = 1, pause: float = 0.5
) -> Outcome:
    """One command in pipes that gets SIGINT `times` times, first as soon as `when()` is true."""
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        start_new_session=True,
    )
    try:
        wait_until(when, process)
        for _time in range(times):
            process.send_signal(signal.SIGINT)
            time.sleep(pause if times > 1 else 0)
        out, err = process.communicate(timeout=SECONDS)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return Outcome(process.returncode, out.decode(), err.decode())


def wait_until(true: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait for a condition while the process lives, `SECONDS` at most."""
    deadline = time.monotonic() + SECONDS
    while not true():
        assert process.poll() is None, f"ended early: {process.communicate()}"
        assert time.monotonic() < deadline, "the command did not get there"
        time.sleep(0.02)


def orion_on_terminal(
    *arguments: str | Path, env: Mapping[str, str], out_too: bool = False, columns: int = 120
) -> Outcome:
    """One command whose standard error, and with `out_too` also its output, is a pseudo terminal."""
    ours, theirs = pty.openpty()
    size = {"COLUMNS": str(columns), "LINES": "40"}
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=theirs if out_too else subprocess.PIPE,
        stderr=theirs,
        env={**env, **size},
        start_new_session=True,
    )
    os.close(theirs)
    try:
        seen = _read_terminal(ours, process)
        out = b"" if out_too or process.stdout is None else process.stdout.read()
        process.wait(SECONDS)
    finally:
        os.close(ours)
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
    return Outcome(process.returncode, out.decode(), seen.decode(errors="replace"))


def _read_terminal(descriptor: int, process: subprocess.Popen[bytes]) -> bytes:
    seen = b""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        ready, _write, _error = select.select([descriptor], [], [], 0.1)
        if ready:
            with contextlib.suppress(OSError):  # EIO: the other end is closed and everything was read
                if chunk := os.read(descriptor, 65536):
                    seen += chunk
                    continue
            return seen
        if process.poll() is not None and not select.select([descriptor], [], [], 0)[0]:
            return seen
    raise AssertionError(f"the command did not end: {seen!r}")


def lines(text: str) -> Sequence[str]:
    """What a terminal shows in the end: escape sequences applied as far as Orion uses them."""
    shown = []
    for raw in text.replace("\r\n", "\n").split("\n"):
        shown.append(raw.rsplit("\x1b[K", 1)[-1])
    return shown
