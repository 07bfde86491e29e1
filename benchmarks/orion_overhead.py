"""Runs Orion against the scripted server and reports CPU time; the counterpart of `peers_overhead.py`.

    python -m benchmarks.orion_overhead own|worker|images URL STEPS ROUNDS

`own`: a function of this program as the tool, as the peers do it. `worker`: a built-in tool, which runs in a worker
process. `images`: an attached picture, and a tool that makes a new one in every step. Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from orion import Orion
from orion.run import Limits
from orion.settings import Settings


def add_up(expression: str) -> str:
    """Work out an arithmetic expression exactly.

    Args:
        expression: numbers and operators.
    """
    return str(len(expression))


def paint(expression: str) -> Image.Image:
    """Make a picture in a colour of its own."""
    return Image.new("RGB", (64, 64), (sum(map(ord, expression)) % 256, len(expression), 90))


def main() -> None:
    kind, url, steps, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    limits = Limits(steps=steps + 2, tokens=10**8)
    own: dict[str, list[Callable[..., Any]]] = {"own": [add_up], "worker": [], "images": [paint]}
    files = [Image.new("RGB", (320, 200), "white")] if kind == "images" else []
    took = []
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(model_url=url, model="fake", cache_dir=Path(folder), store_dir=Path(folder))
        with Orion(settings=settings, tools=own[kind], toolsets=["core"], limits=limits) as agent:
            agent.run("Add up the numbers.", files)  # warm up: the probe, connections, caches
            for _ in range(rounds):
                before = time.process_time()
                result = agent.run("Add up the numbers.", files)
                took.append(1000 * (time.process_time() - before) / steps)
                if result.text != "done" or len(result.steps) != steps + 1:
                    raise SystemExit(
                        f"Orion answered {result.text!r} after {len(result.steps)} turns: {result.run.detail}"
                    )
    print(json.dumps({"ms": took}))


if __name__ == "__main__":
    main()
