"""Client CPU of one streamed chunk: `orion.model`, the openai SDK and litellm against the same server, in one run.

    python benchmarks/stream_chunk.py [--chunks 2000] [--rounds 5]

The server is another process (`tests/fakeserver.py`) that writes every event as its own HTTP chunk, as vLLM and
llama.cpp do. CPU time is this process's; the median of the rounds is printed. The `gap` case has a pause between
events, so that each costs a wake-up of the event loop: the slow, true-to-life case.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROMPT = [{"role": "user", "content": "hi"}]

Client = Callable[[str], Awaitable[int]]


async def with_orion(url: str) -> int:
    """Chunks with text seen by `orion.model`."""
    from orion.model import Ask, OpenAIModel
    from orion.profiles import profile_for
    from orion.types import Message

    model = OpenAIModel(url, "fake", None, profile_for("qwen3-8b"), context=8192)
    count = 0
    async for delta in model.stream(Ask([Message.text("user", "hi")], 100)):
        count += bool(delta.text)
    await model.close()
    return count


async def with_httpx(url: str) -> int:
    """Events counted in the raw bytes of httpx, below `orion.model`: the floor."""
    import httpx

    count = 0
    async with httpx.AsyncClient() as client, client.stream("POST", url + "/chat/completions", json={}) as response:
        async for data in response.aiter_raw():
            count += data.count(b"\n")
    return count // 2 - 4  # role, finish reason, usage and [DONE] are no text


async def with_openai(url: str) -> int:
    """Chunks with text seen by the openai SDK."""
    import openai

    count = 0
    async with openai.AsyncOpenAI(base_url=url, api_key="none") as client:
        stream = await client.chat.completions.create(model="fake", messages=PROMPT, stream=True)
        async for event in stream:
            count += bool(event.choices and event.choices[0].delta.content)
    return count


async def with_litellm(url: str) -> int:
    """Chunks with text seen by litellm."""
    import litellm

    count = 0
    stream = await litellm.acompletion("openai/fake", PROMPT, api_base=url, api_key="none", stream=True)
    async for event in stream:
        count += bool(event.choices and event.choices[0].delta.content)
    return count


async def measure(client: Client, url: str, chunks: int, rounds: int) -> float:
    """Median CPU in µs a chunk; one warm-up round."""
    seen = []
    for _ in range(rounds + 1):
        start = time.process_time()
        count = await client(url)
        seen.append((time.process_time() - start) / chunks * 1e6)
        if count != chunks:
            raise SystemExit(f"{client.__name__} saw {count} of {chunks} chunks")  # type: ignore[attr-defined]
    return statistics.median(seen[1:])


def main() -> None:
    """Prints one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    print(f"{'µs CPU a chunk':<16}{'back to back':>14}{'ratio':>8}{'gap 1 ms':>14}{'ratio':>8}")
    first: dict[str, float] = {}
    for name, client in CLIENTS.items():
        row = f"{name:<16}"
        for case, gap in (("dense", "0"), ("gap", "1000")):
            with server(options.chunks, gap) as url:
                cost = asyncio.run(measure(client, url, options.chunks, options.rounds))
            row += f"{cost:>14.1f}{cost / first.setdefault(case, cost):>8.1f}"
        print(row, flush=True)


CLIENTS: dict[str, Client] = {
    "orion.model": with_orion,
    "(httpx alone)": with_httpx,
    "openai": with_openai,
    "litellm": with_litellm,
}


class server:
    """The fake server in a process of its own."""

    def __init__(self, chunks: int, gap_us: str) -> None:
        self.command = [sys.executable, "-m", "tests.fakeserver", "--chunks", str(chunks), "--gap-us", gap_us]

    def __enter__(self) -> str:
        self.process = subprocess.Popen(
            self.command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def __exit__(self, *_exc: object) -> None:
        self.process.communicate()


if __name__ == "__main__":
    main()
