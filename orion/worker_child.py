"""The child's side of `orion.worker`: reads calls, runs them, writes answers.

The link is this process's original stdin and stdout: a four-byte big-endian length, then that many bytes of JSON.
Whatever a tool prints goes to stderr, which the parent keeps the end of.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import resource
import signal
import struct
import sys
import traceback
from typing import Any

from orion.errors import OrionError

JSON = Any

MAX_FRAME = 16 * 1024 * 1024
"""Bytes of JSON one call or one answer may have; anything larger travels as a file."""
MAX_FILE = 8 * 1024**3
"""Bytes of one file a worker may write."""
MESSAGE_CHARS = 1000
TRACE_CHARS = 8000
ERROR_FIELDS = ("message", "param", "fix", "code", "setting", "status", "retryable")
HEADER = struct.Struct(">I")

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38


def main() -> int:
    """Serve calls until the link closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business: it ends us
    link_in, link_out = _take_over_stdio()
    hello = _read_frame(link_in)
    if hello is None:
        return 0
    _end_with_parent(int(hello["parent"]))
    _limit(int(hello["memory_mb"]))
    _write_frame(link_out, b'{"ready":true}')
    while (call := _read_frame(link_in)) is not None:
        _write_frame(link_out, _answer(str(call["target"]), call["payload"]))
    return 0


def _answer(target: str, payload: JSON) -> bytes:
    try:
        result = _resolve(target)(payload)
        answer = json.dumps({"result": result}, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        if len(answer) > MAX_FRAME:
            raise ValueError(
                f"the answer has {len(answer)} bytes of JSON, more than {MAX_FRAME}; return a file instead"
            )
    except OrionError as error:
        return _error_frame(_family(error), {name: getattr(error, name, None) for name in ERROR_FIELDS})
    except MemoryError:
        return _error_frame("MemoryError", {"message": "out of memory"})
    except SystemExit as error:
        return _error_frame("WorkerError", {"message": f"SystemExit: the tool called exit({error.code!r})"})
    except Exception as error:  # noqa: BLE001 - crosses the border as a typed WorkerError with its trace for the log
        return _error_frame("WorkerError", {"message": f"{type(error).__name__}: {error}"})
    return answer


def _error_frame(kind: str, fields: dict[str, JSON]) -> bytes:
    plain = {name: _bounded(value) for name, value in fields.items() if isinstance(value, str | int | bool)}
    trace = traceback.format_exc(limit=-20)[:TRACE_CHARS]  # the innermost calls, then the message
    return json.dumps({"error": {"type": kind, "fields": plain, "trace": trace}}).encode()


def _bounded(value: str | int | bool) -> str | int | bool:
    if isinstance(value, str) and len(value) > MESSAGE_CHARS:
        return value[:MESSAGE_CHARS] + "…"
    return value


def _family(error: OrionError) -> str:
    """The nearest class of `orion.errors`: the parent rebuilds only those, not a toolset's own subclasses."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "orion.errors")


def _resolve(target: str) -> Any:
    module, _, name = target.partition(":")
    function: Any = importlib.import_module(module)
    for part in name.split("."):
        function = getattr(function, part)
    return function


def _take_over_stdio() -> tuple[int, int]:
    """Keep the link for ourselves: fd 0 becomes empty and fd 1 goes to stderr, for Python, C code and grandchildren."""
    link_in, link_out = os.dup(0), os.dup(1)  # dup'd descriptors are not inherited by grandchildren
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return link_in, link_out


def _read_frame(link: int) -> dict[str, Any] | None:
    header = _read_exactly(link, HEADER.size)
    if header is None:
        return None
    body = _read_exactly(link, HEADER.unpack(header)[0])
    return None if body is None else json.loads(body)


def _read_exactly(link: int, count: int) -> bytes | None:
    """`count` bytes, or None when the parent closed the link."""
    parts: list[bytes] = []
    while count:
        part = os.read(link, min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _write_frame(link: int, body: bytes) -> None:
    view = memoryview(HEADER.pack(len(body)) + body)
    while view:
        view = view[os.write(link, view) :]


def _end_with_parent(parent: int) -> None:
    """Die when the parent dies, even by kill -9 and even while a tool runs.

    Linux only; elsewhere the closed link ends us after the call that is running.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        for option, value in ((_PR_SET_PDEATHSIG, signal.SIGKILL), (_PR_SET_NO_NEW_PRIVS, 1)):
            if libc.prctl(option, value, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), f"prctl({option}) failed")
    if os.getppid() != parent:  # it died before we asked
        sys.exit(1)


def _limit(memory_mb: int) -> None:
    # RLIMIT_DATA counts private writable memory only. RLIMIT_AS would also count mapped libraries and address space
    # that is merely reserved, which onnxruntime and thread stacks take by the gigabyte.
    which = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    wanted = ((which, memory_mb * 1024 * 1024), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, MAX_FILE))
    for limit, value in wanted:
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with contextlib.suppress(ValueError) if sys.platform == "darwin" else contextlib.nullcontext():
            resource.setrlimit(limit, (value, value))
