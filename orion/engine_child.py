"""The child process of `orion.engine`: llama.cpp's own HTTP server on a loopback port, until its parent is gone.

Reads one JSON line from stdin (`model`, `name`, `key`, `context`, `threads`, `parallel`, `parent`), loads the model,
writes one JSON line (`url`) to stdout, and serves. Everything else it prints goes to stderr, which is the log. It
imports nothing of Orion and is started by its file name, so it works however `orion` itself was put on the path.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import time
from typing import Any

LOG_BYTES = 4 << 20
"""The log starts again when it is longer than this."""
WATCH_SECONDS = 0.5
BATCH_TOKENS = 128
"""Prompt tokens computed in one go. Work for a client that left stops only between two batches, so this bounds it."""
CACHE_MIB = 512
"""Memory for prompt prefixes beside the one in use. llama.cpp's default is 8 GiB."""
PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve until stdin closes or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # the native code prints to both
    asked = json.loads(sys.stdin.buffer.readline())
    _die_with(asked["parent"])
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    server = _start(asked)
    with report:
        report.write(json.dumps({"url": server.listening_address}) + "\n")
    while os.name == "nt" or os.getppid() == asked["parent"]:
        _bound_log()
        time.sleep(WATCH_SECONDS)
    os._exit(0)


def _die_with(parent: int) -> None:
    """Ask Linux to kill this process when the thread that started it ends: it works while a model is loading, too."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.name != "nt" and os.getppid() != parent:
        os._exit(0)  # it was gone before the request took effect


def _end_with_stdin() -> None:
    # Holds on every system. It cannot run while a model is loading, because the loader keeps the interpreter's lock.
    while os.read(0, 4096):
        pass
    os._exit(0)


def _start(asked: dict[str, Any]) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = asked["model"]
    params.model_alias = {asked["name"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [asked["key"]]
    params.cors_origins = ""
    params.ui = False
    # Each of the n_parallel slots gets an equal share of n_ctx.
    params.n_ctx = asked["context"] * asked["parallel"]
    params.n_parallel = asked["parallel"]
    params.n_batch = params.n_ubatch = BATCH_TOKENS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = asked["threads"]
    params.cache_prompt = True
    params.cache_ram_mib = CACHE_MIB
    # Fitting layers into a GPU's memory loads the model twice; without a GPU that only costs a third of the start.
    cpu = xllamacpp.ggml_backend_dev_type.GGML_BACKEND_DEVICE_TYPE_CPU
    params.fit_params = any(device["type"] != cpu for device in xllamacpp.get_device_info())
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:  # its reasons are in the log by now; a traceback would only push them out of sight
        sys.exit(f"{error}")


def _bound_log() -> None:
    # stderr is opened for appending, so what is written next goes to the new end.
    if os.fstat(2).st_size > LOG_BYTES:
        os.ftruncate(2, 0)


if __name__ == "__main__":
    main()
