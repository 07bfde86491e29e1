"""The embedded engine: llama.cpp's own OpenAI-compatible server in a child process, for one GGUF file."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib.util
import itertools
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from orion.errors import ModelError, ModelTimeout, NotConfigured, UserError
from orion.settings import Settings

START_SECONDS = 120.0
CLOSE_SECONDS = 5.0
LOG_LINES = 20
LOGS_KEPT = 10
POLL_SECONDS = 0.02
INSTALL = 'pip install "orion-visual-agent[local]"'

_numbers = itertools.count(1)


class Engine:
    """A running llama.cpp server on 127.0.0.1, with a port and an API key of its own.

    `Engine.start` returns at once; `wait()` (or `await ready()`) returns when the model is loaded. The process ends
    with `close()`, at exit, and when this process dies in any way.
    """

    def __init__(self, gguf: Path, *, context: int, threads: int, parallel: int, log: Path) -> None:
        self.gguf = gguf
        self.context = context
        """Tokens of one request; each of the `parallel` slots has as many."""
        self.threads = threads
        self.parallel = parallel
        self.key = secrets.token_urlsafe(32)
        self.log = log
        self.name = gguf.stem
        """The model's name in `/v1/models`."""
        self._users = 1
        self._owner_pid = os.getpid()
        self._url: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._failure: OSError | None = None
        self._spawned = threading.Event()
        self._settled = threading.Event()  # loaded or failed
        self._thread = threading.Thread(target=self._own, name=f"orion-engine-{gguf.name}", daemon=True)

    @classmethod
    def start(
        cls,
        gguf: Path,
        *,
        context: int = 8192,
        threads: int | None = None,
        parallel: int = 1,
        cache_dir: Path | None = None,
    ) -> Engine:
        """Start the server for `gguf`.

        `context` is in tokens, `threads` defaults to `ORION_ENGINE_THREADS`; the log goes to `<cache_dir>/logs`.
        Raises `NotConfigured` when the engine is not installed, `UserError` when the file is missing or no GGUF.
        """
        gguf = gguf.expanduser().absolute()
        _check_file(gguf)
        if importlib.util.find_spec("xllamacpp") is None:
            raise NotConfigured(
                "the embedded engine is not installed", setting=INSTALL, fix=f"Run: {INSTALL}, or set ORION_MODEL_URL."
            )
        settings = Settings.from_env()
        log = _new_log((cache_dir or settings.cache_dir) / "logs")
        engine = cls(gguf, context=context, threads=threads or settings.engine_threads, parallel=parallel, log=log)
        with _lock:
            _live.add(engine)
        engine._thread.start()
        engine._spawned.wait(START_SECONDS)
        return engine

    @property
    def url(self) -> str:
        """Base URL, ending in `/v1`; waits until the model is loaded."""
        if self._url is None:
            self.wait()
        return f"{self._url}/v1"

    @property
    def pid(self) -> int:
        """Process id of the server."""
        if self._process is None:
            raise ModelError(f"the embedded engine has no process: {self._failure}")
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True while the server's process runs, loaded or not."""
        return self._process is not None and self._process.poll() is None

    def wait(self, seconds: float = START_SECONDS) -> Engine:
        """Wait until the model is loaded. Raises `ModelTimeout`, or `ModelError` with the last lines of the log."""
        if not self._settled.wait(seconds):
            self._give_up(seconds)
        return self._checked()

    async def ready(self, seconds: float = START_SECONDS) -> Engine:
        """`wait` for async code; cancelling it leaves the engine loading."""
        deadline = time.monotonic() + seconds
        while not self._settled.is_set():
            if time.monotonic() > deadline:
                self._give_up(seconds)
            await asyncio.sleep(POLL_SECONDS)
        return self._checked()

    def close(self) -> None:
        """Let go of the engine; the last of its users ends the process. Harmless when called again."""
        with _lock:
            self._users -= 1
            if self._users > 0:
                return
        self._retire()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _own(self) -> None:
        """Start the process, take its address, wait for its end.

        One thread does all three because Linux kills the child when the thread that started it ends.
        """
        command = [sys.executable, "-P", str(Path(__file__).with_name("engine_child.py"))]
        asked = {
            "model": str(self.gguf),
            "name": self.name,
            "key": self.key,
            "context": self.context,
            "threads": self.threads,
            "parallel": self.parallel,
            "parent": os.getpid(),
        }
        try:
            with self.log.open("ab") as log:
                process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
                )
        except OSError as error:
            self._failure = error
            self._spawned.set()
            self._settled.set()
            return
        self._process = process
        self._spawned.set()
        assert process.stdin
        assert process.stdout
        # The pipe stays open for as long as the engine runs: its end tells the child that its parent is gone.
        with process.stdin, process.stdout:
            with contextlib.suppress(BrokenPipeError):  # it died already: the empty answer below says so
                process.stdin.write(json.dumps(asked).encode() + b"\n")
                process.stdin.flush()
            answer = process.stdout.readline()
            if answer:
                self._url = json.loads(answer)["url"]
            else:
                process.wait()
            self._settled.set()
            process.wait()

    def _checked(self) -> Engine:
        if self._url is not None and self.alive:
            return self
        if self._failure is not None:
            raise ModelError(f"the embedded engine could not be started: {self._failure}") from self._failure
        code = self._process.poll() if self._process else None
        what = "ended" if self._url else "could not load the model"
        reason = f"the embedded engine {what} ({self.gguf.name}, {_exit_reason(code)})"
        raise ModelError(f"{reason}. Its last words:\n{self.last_words()}\nThe whole log is {self.log}")

    def last_words(self) -> str:
        """The last lines of the log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES:])

    def _retire(self) -> None:
        with _lock:
            if _shared.get(self.gguf) is self:
                del _shared[self.gguf]
            _live.discard(self)
        self._end()

    def _give_up(self, seconds: float) -> None:
        self._retire()
        raise ModelTimeout(
            f"the embedded engine did not load {self.gguf.name} within {seconds:g} s. Its last words:\n"
            f"{self.last_words()}\n",
            fix="Raise ORION_ENGINE_START_SECONDS or take a smaller model.",
        )

    def _end(self) -> None:
        if self._process is None or self._owner_pid != os.getpid():  # a forked copy does not own the process
            return
        self._process.terminate()
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(CLOSE_SECONDS)
        self._thread.join(CLOSE_SECONDS)


_lock = threading.RLock()
_shared: dict[Path, Engine] = {}
_live: set[Engine] = set()


def shared_engine(
    gguf: Path,
    *,
    context: int = 8192,
    threads: int | None = None,
    parallel: int = 1,
    cache_dir: Path | None = None,
) -> Engine:
    """The one engine of this process for this file, started when there is none; `close()` it once for every call.

    Raises what `Engine.start` raises, and `UserError` when it runs already with less context or fewer slots.
    """
    gguf = gguf.expanduser().resolve()
    with _lock:
        engine = _shared.get(gguf)
        if engine is None or not engine.alive:
            engine = Engine.start(gguf, context=context, threads=threads, parallel=parallel, cache_dir=cache_dir)
            _shared[gguf] = engine
            return engine
        if context > engine.context or parallel > engine.parallel:
            raise UserError(
                f"{gguf.name} is already loaded, with {engine.context} tokens and {engine.parallel} slot(s)",
                param="context",
                fix="Close what uses it first, or ask for no more than that.",
            )
        engine._users += 1
        return engine


@atexit.register
def _close_all() -> None:
    for engine in list(_live):
        engine._end()


def _check_file(gguf: Path) -> None:
    try:
        with gguf.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise UserError(
            f"cannot read the model file {gguf}: {error.strerror}",
            param="model",
            fix="Check the path; `orion model list` shows the models that have a name.",
        ) from error
    if magic != b"GGUF":
        raise UserError(f"{gguf} is not a GGUF file", param="model", fix="Give a model in GGUF format.")


def _new_log(folder: Path) -> Path:
    """A fresh log file; the oldest ones go."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        old = sorted(folder.glob("engine-*.log"), key=lambda path: path.stat().st_mtime)
        for path in old[: max(0, len(old) - LOGS_KEPT + 1)]:
            path.unlink(missing_ok=True)
        log = folder / f"engine-{os.getpid()}-{next(_numbers)}.log"
        log.write_bytes(b"")
    except OSError as error:
        raise UserError(f"cannot write the engine's log in {folder}: {error}", param="ORION_CACHE") from error
    return log


def _exit_reason(code: int | None) -> str:
    """What an exit code means.

    >>> _exit_reason(-9)
    'killed by SIGKILL, most often for want of memory'
    """
    if code is None:
        return "still running"
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"killed by {name}" + (", most often for want of memory" if name == "SIGKILL" else "")
