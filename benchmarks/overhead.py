"""What the client itself costs: CPU a step, request bytes, images in a transcript, import time. No model is needed.

    python -m benchmarks.overhead [--peers-python PYTHON] [--steps 8,32,100] [--rounds 5]

A scripted server in another process calls one tool again and again. Orion, smolagents and pydantic-ai run against it,
each in an interpreter of its own, with the same function as the tool. CPU time is that of the client's process; the
median of the rounds is shown, after one run to warm up. Import times are of fresh interpreters, the median of seven.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks.table import show

SECONDS = 600
IMPORTS = 7


def measure(command: list[str], steps: int, rounds: int, tool: str) -> tuple[list[float], list[dict[str, Any]]]:
    """CPU milliseconds a step of each round, and the requests of the last run."""
    serve = [sys.executable, "-m", "benchmarks.overhead_server", str(steps), tool]
    with subprocess.Popen(serve, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        # The requests are read after the run: a pipe holds more than they need (100 bytes each, rounds are few).
        done = subprocess.run([*command, url, str(steps), str(rounds)], capture_output=True, text=True, timeout=SECONDS)
        server.stdin.close()
        requests = [json.loads(line) for line in server.stdout]
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)["ms"], requests[-(steps + 1) :]


def commands(peers: str | None) -> dict[str, tuple[list[str], str]]:
    """How each client is run, and the tool it is told to call."""
    orion = [sys.executable, "-m", "benchmarks.orion_overhead"]
    found = {"orion": ([*orion, "own"], "add_up"), "orion, tool in a worker": ([*orion, "worker"], "calculate")}
    if peers:
        for name in ("smolagents", "pydantic-ai"):
            found[name] = ([peers, "benchmarks/peers_overhead.py", name], "add_up")
    return found


def cpu_and_bytes(options: argparse.Namespace) -> None:
    """The table of CPU a step and of request sizes."""
    lengths = [int(steps) for steps in options.steps.split(",")]
    rows = []
    for name, (command, tool) in commands(options.peers_python).items():
        times, sizes = [], []
        for steps in lengths:
            took, requests = measure(command, steps, options.rounds, tool)
            times.append(statistics.median(took))
            sizes.append(requests)
        longest = [request["bytes"] for request in sizes[-1]]
        steps = len(longest) - 1
        early, late = longest[steps // 2] - longest[0], longest[-1] - longest[steps // 2]
        growth = f"{early / (steps // 2):.0f}, {late / (steps - steps // 2):.0f}"
        rows.append(
            [name, *(round(ms, 2) for ms in times), round(times[-1] / times[0], 2), longest[0], longest[-1], growth]
        )
    head = ["client", *(f"ms a step, {steps} steps" for steps in lengths), "growth"]
    head += ["bytes of the first request", "of the last", "bytes a step, first and second half"]
    show(head, rows, "CPU of the client, request bytes")


def images() -> None:
    """Whether each picture is in the transcript once."""
    steps = 8
    command = [sys.executable, "-m", "benchmarks.orion_overhead", "images"]
    _took, requests = measure(command, steps, 1, "paint")
    rows = [[request["steps"], request["images"], request["different"]] for request in requests]
    show(["steps so far", "images in the request", "different images"], rows, "One image attached, one made a step")


def started(command: list[str]) -> float:
    """Seconds of a fresh process, the median of seven."""
    took = []
    for _ in range(IMPORTS):
        before = time.perf_counter()
        subprocess.run(
            command, check=True, stdout=subprocess.DEVNULL, timeout=SECONDS, env={**os.environ, "COLUMNS": "120"}
        )
        took.append(time.perf_counter() - before)
    return statistics.median(took)


def imports(options: argparse.Namespace) -> None:
    """Import times, less what a bare interpreter takes."""
    rows: list[list[object]] = []
    interpreters = {
        "orion": (sys.executable, "import orion"),
        "Orion class": (sys.executable, "from orion import Orion"),
    }
    if options.peers_python:
        interpreters["smolagents"] = (
            options.peers_python,
            "from smolagents import ToolCallingAgent, OpenAIServerModel",
        )
        interpreters["pydantic-ai"] = (options.peers_python, "from pydantic_ai.models.openai import OpenAIChatModel")
    for name, (python, code) in interpreters.items():
        rows.append([name, round(started([python, "-c", code]) - started([python, "-c", "pass"]), 3)])
    rows.append(["orion --help, whole process", round(started([sys.executable, "-m", "orion.cli", "--help"]), 3)])
    show(["import", "seconds"], rows, "Fresh interpreters")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers-python", help="interpreter with benchmarks/requirements.txt installed")
    parser.add_argument("--steps", default="8,32,100", help="lengths of the runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["cpu", "images", "imports"])
    options = parser.parse_args()
    if options.only in (None, "cpu"):
        cpu_and_bytes(options)
    if options.only in (None, "images"):
        images()
    if options.only in (None, "imports"):
        imports(options)


if __name__ == "__main__":
    main()
