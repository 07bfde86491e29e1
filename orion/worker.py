"""Bounded, killable worker processes: JSON in, JSON and files out.

Hostile bytes are decoded, and tools run, in children with a memory limit, a time limit and no secrets in their
environment. Nothing but JSON crosses the link, so a child that was taken over cannot make the parent run anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import signal
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from orion import errors
from orion.errors import OrionError, ToolFailed, UserError
from orion.run import JSON
from orion.worker_child import ERROR_FIELDS, MAX_FRAME, MESSAGE_CHARS
from orion.worker_process import Child, LinkBroke

log = logging.getLogger(__name__)

QUEUE_SECONDS = 300.0
"""A call waits this long for a free child."""
MAX_WAITING = 256
"""Calls that may wait for a free child."""
IDLE_SECONDS = 600.0
"""An unused child ends after this long and gives its memory back."""

_OUT_OF_MEMORY = re.compile(r"bad_alloc|MemoryError|out of memory|Insufficient memory|Cannot allocate memory", re.I)


class WorkerTimeout(OrionError):
    """The call took longer than its `seconds`; its child was killed."""

    code = "timeout"


class WorkerDied(OrionError):
    """The child ended in the middle of a call; `code` is `out_of_memory` or `died`."""

    def __init__(self, message: str, *, code: str = "died", fix: str | None = None) -> None:
        super().__init__(message, fix=fix)
        self.code = code


class WorkerBusy(OrionError):
    """No child became free: too many calls wait, or they waited too long."""


class WorkerError(ToolFailed):
    """The function raised something that is no `OrionError`; the message is its type and text."""


_BY_NAME: dict[str, type[OrionError]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, OrionError)
} | {"WorkerError": WorkerError}


class WorkerPool:
    """At most `size` children, started on demand and kept, each with `memory_mb` MiB of private memory.

    Belongs to the event loop of its first call. Use as `async with WorkerPool() as workers:` or `await close()` it.

    >>> async def main() -> None:
    ...     async with WorkerPool(size=1) as workers:
    ...         print(await workers.call("orion.worker:echo", {"page": 1}, seconds=30))
    >>> asyncio.run(main())
    {'page': 1}
    """

    def __init__(self, size: int = 2, memory_mb: int = 4096, *, idle_seconds: float = IDLE_SECONDS) -> None:
        if size < 1 or memory_mb < 64:
            raise UserError(f"a worker pool needs size >= 1 and memory_mb >= 64, got {size} and {memory_mb}")
        self.size = size
        self.memory_mb = memory_mb
        self.idle_seconds = idle_seconds
        self._idle: list[Child] = []  # the most recently used last
        self._busy: set[Child] = set()
        self._starting = 0
        self._ending: set[asyncio.Task[None]] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def call(self, target: str, payload: Mapping[str, JSON], *, seconds: float) -> dict[str, JSON]:
        """Run `package.module:function(payload)` in a child and return its JSON answer.

        `seconds` bounds the run itself, not the wait for a free child (`QUEUE_SECONDS`). Raises `WorkerTimeout`,
        `WorkerDied`, `WorkerBusy`, `WorkerError`, and whatever `OrionError` of `orion.errors` the function raised.
        When the awaiting task is cancelled the child is killed.
        """
        body = json.dumps({"target": target, "payload": payload}, ensure_ascii=False, allow_nan=False).encode()
        if len(body) > MAX_FRAME:
            raise UserError(f"a worker call has {len(body)} bytes of JSON, more than {MAX_FRAME}; pass a file instead")
        self._bind()
        child = await self._take(target.partition(":")[0])
        try:
            async with asyncio.timeout(seconds):
                answer = await child.exchange(body)
        except TimeoutError:
            await self._discard(child)
            raise WorkerTimeout(f"no result within {seconds:g} s") from None
        except LinkBroke as broke:
            raise await self._cause_of_death(child, str(broke)) from None
        except BaseException:
            await self._discard(child)
            raise
        child.modules.add(target.partition(":")[0])
        return await self._open(child, answer)

    async def close(self) -> None:
        """End all children; calls still running fail with `WorkerDied`."""
        self._closed = True
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(WorkerBusy("the worker pool was closed"))
        self._waiting.clear()
        idle, self._idle = self._idle, []
        await asyncio.gather(*(child.end() for child in idle), *(child.kill() for child in self._busy), *self._ending)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _bind(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        if self._loop is not loop:
            raise UserError("this worker pool belongs to another event loop", fix="Make one pool for each loop.")
        if self._closed:
            raise UserError("the worker pool is closed", fix="Make a new pool.")

    async def _take(self, module: str) -> Child:
        """A free child: one that has the module loaded, else the most recently used, else a new one, else wait."""
        deadline = asyncio.get_running_loop().time() + QUEUE_SECONDS
        await self._drop_dead()
        while not self._idle and len(self._busy) + self._starting >= self.size:
            await self._wait_for_turn(deadline)
        if self._idle:
            child = next((child for child in reversed(self._idle) if module in child.modules), self._idle[-1])
            self._idle.remove(child)
            child.cancel_retirement()
            self._busy.add(child)
            return child
        self._starting += 1
        try:
            child = await Child.start(self.memory_mb)
        except LinkBroke as broke:
            self._wake_next()
            raise WorkerDied(str(broke)) from None
        except BaseException:
            self._wake_next()
            raise
        finally:
            self._starting -= 1
        self._busy.add(child)
        return child

    async def _drop_dead(self) -> None:
        """Idle children that somebody else ended, such as the system short of memory: no fault of the next file."""
        dead = [child for child in self._idle if child.ended]
        self._idle = [child for child in self._idle if child not in dead]
        for child in dead:
            log.warning("worker %d was ended while idle, exit code %s", child.pid, await child.exit_code())
            await child.kill()

    async def _wait_for_turn(self, deadline: float) -> None:
        if len(self._waiting) >= MAX_WAITING:
            raise WorkerBusy(f"{MAX_WAITING} calls already wait for a worker", fix="Try later or use a larger pool.")
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout_at(deadline):
                await turn
        except TimeoutError:
            raise WorkerBusy(f"no worker became free within {QUEUE_SECONDS:g} s") from None
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._wake_next()  # our turn had come: pass it on
            raise
        finally:
            with contextlib.suppress(ValueError):  # whoever woke us took us out already
                self._waiting.remove(turn)

    def _wake_next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _release(self, child: Child) -> None:
        self._busy.discard(child)
        if self._closed:
            return
        self._idle.append(child)
        child.retire_after(self.idle_seconds, self._retire)
        self._wake_next()

    def _retire(self, child: Child) -> None:
        self._idle.remove(child)
        ending = asyncio.get_running_loop().create_task(child.end())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _discard(self, child: Child) -> None:
        self._busy.discard(child)
        self._wake_next()
        await child.kill()

    async def _cause_of_death(self, child: Child, what: str) -> WorkerDied:
        code = await child.exit_code()
        await self._discard(child)
        log.warning("worker %d ended: %s, exit code %s, stderr: %s", child.pid, what, code, child.stderr_tail)
        if _OUT_OF_MEMORY.search(child.stderr_tail):
            return self._out_of_memory()
        if code is not None and code < 0:
            return WorkerDied(f"the worker was killed by signal {-code} ({signal.strsignal(-code)})")
        return WorkerDied(what if code is None else f"the worker ended with exit code {code}")

    def _out_of_memory(self) -> WorkerDied:
        fix = "Use a smaller input or a larger memory limit."
        return WorkerDied(f"out of memory: more than {self.memory_mb} MB were needed", code="out_of_memory", fix=fix)

    async def _open(self, child: Child, answer: bytes) -> dict[str, JSON]:
        """The result in an answer, or the error it carries. A child that breaks the protocol is killed."""
        try:
            message = json.loads(answer)
            error = message.get("error")
            result: dict[str, JSON] = message["result"] if error is None else {}
            kind, fields = ("", {}) if error is None else (str(error["type"]), dict(error["fields"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            await self._discard(child)
            raise WorkerDied("the worker sent something that is not an answer") from None
        if kind == "MemoryError":
            await self._discard(child)  # what is left of its memory is not worth trusting
            raise self._out_of_memory()
        self._release(child)
        if error is None:
            return result
        log.info("worker %d: %s", child.pid, error.get("trace"))
        raise _rebuild(kind, fields)


def _rebuild(kind: str | None, fields: Mapping[str, JSON]) -> OrionError:
    """The error as it was raised in the child. The child is not trusted: only this family, only plain fields."""
    error_class = _BY_NAME.get(kind or "", WorkerError)
    error = error_class.__new__(error_class)
    plain = {name: fields.get(name) for name in ERROR_FIELDS if isinstance(fields.get(name), str | int | bool)}
    message = str(plain.pop("message", kind))[: MESSAGE_CHARS + 1]
    OrionError.__init__(error, message, param=_text(plain.pop("param", None)), fix=_text(plain.pop("fix", None)))
    if issubclass(error_class, errors.ModelError):
        plain = {"status": None, "retryable": False} | plain
    vars(error).update(plain)
    return error


def _text(value: JSON) -> str | None:
    return value if isinstance(value, str) else None


def echo(payload: dict[str, JSON]) -> dict[str, JSON]:
    """Give the payload back: shows that workers start and answer (`orion doctor`, benchmarks)."""
    return payload
