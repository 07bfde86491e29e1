"""One worker process as its parent sees it: start, exchange a frame, end, kill. Its side: `orion.worker_child`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Callable
from typing import Self

from orion.worker_child import HEADER, MAX_FRAME

START_SECONDS = 60.0
"""Until a new child must be ready."""
END_SECONDS = 5.0
"""Until a child that was told to end, or killed, must be gone."""
STDERR_TAIL = 4096
"""Characters of a child's stderr that are kept for the log."""

# The child finds what the parent finds: its import path is the parent's.
_BOOT = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from orion.worker_child import main; sys.exit(main())"
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_SIGNED_ADDRESS = re.compile(r"://[^/\s]*:[^/\s]*@")
"""An address that holds a password."""


class LinkBroke(Exception):
    """The child closed its link or broke the protocol; becomes a `WorkerDied`."""


class Child:
    """One process and its link."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        self.pid = process.pid
        self.modules: set[str] = set()
        self.stderr_tail = ""
        self._process = process
        self._write, self._read = process.stdin, process.stdout
        self._retirement: asyncio.TimerHandle | None = None
        self._drain = asyncio.get_running_loop().create_task(self._keep_tail(process.stderr))

    @classmethod
    async def start(cls, memory_mb: int) -> Self:
        """Start a child and wait until it is ready; `LinkBroke` when it does not get there."""
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # no module of the current folder may stand in for one of ours
                "-c",
                _BOOT,
                json.dumps(sys.path),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=_environment(),
                start_new_session=True,  # a process group of its own, so that a tool's own children die with it
                limit=1 << 20,
            )
        except OSError as error:  # no memory or process left, or no interpreter at this path
            raise LinkBroke(f"a worker process could not start: {error}") from error
        child = cls(process)
        hello = {"parent": os.getpid(), "memory_mb": memory_mb}
        try:
            await asyncio.wait_for(child.exchange(json.dumps(hello).encode()), START_SECONDS)
        except (LinkBroke, TimeoutError):
            await child.kill()
            raise LinkBroke(f"a worker process could not start: {child.stderr_tail[-500:]}") from None
        except BaseException:
            await child.kill()
            raise
        return child

    async def exchange(self, body: bytes) -> bytes:
        """Send one frame and read one."""
        try:
            self._write.write(HEADER.pack(len(body)) + body)
            await self._write.drain()
            (size,) = HEADER.unpack(await self._read.readexactly(HEADER.size))
            if size > MAX_FRAME:
                raise LinkBroke(f"the worker announced an answer of {size} bytes, more than {MAX_FRAME}")
            return await self._read.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise LinkBroke("the worker closed its link") from error

    @property
    def ended(self) -> bool:
        """Whether the process is known to be gone."""
        return self._process.returncode is not None

    async def exit_code(self) -> int | None:
        """Minus the signal's number when killed, None when it still runs after the link broke."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), 1.0)
            await asyncio.wait_for(asyncio.shield(self._drain), 1.0)
        return self._process.returncode

    def retire_after(self, seconds: float, retire: Callable[[Self], None]) -> None:
        """Have `retire` called unless the child is used again before."""
        self._retirement = asyncio.get_running_loop().call_later(seconds, retire, self)

    def cancel_retirement(self) -> None:
        if self._retirement:
            self._retirement.cancel()
            self._retirement = None

    async def end(self) -> None:
        """Close the link, which an idle child answers by exiting; kill it when it does not."""
        self._write.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), END_SECONDS)
        await self.kill()

    async def kill(self) -> None:
        """Kill the child with everything it started."""
        self.cancel_retirement()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._write.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), END_SECONDS)
            await asyncio.wait_for(self._drain, END_SECONDS)

    async def _keep_tail(self, stderr: asyncio.StreamReader) -> None:
        while chunk := await stderr.read(STDERR_TAIL):
            self.stderr_tail = (self.stderr_tail + chunk.decode(errors="replace"))[-STDERR_TAIL:]


def _environment() -> dict[str, str]:
    """The parent's environment without what looks like a secret: a hostile file may take the child over."""
    return {
        name: value
        for name, value in os.environ.items()
        if not _SECRET.search(name) and not _SIGNED_ADDRESS.search(value)
    }
