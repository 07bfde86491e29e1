"""The client against a real model: llama.cpp's server as Orion embeds it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from orion.capabilities import probe
from orion.engine import Engine
from orion.errors import ContextOverflow, ModelError
from orion.model import Ask, OpenAIModel, connect
from orion.openai_model import RUNAWAY_PENALTY
from orion.profiles import profile_for
from orion.settings import Settings
from orion.stream import ReplyBuilder
from orion.types import Message
from tests.weights import embedded_gguf

pytestmark = pytest.mark.model

CONTEXT = 2048
ASK = Ask([Message.text("user", "Name three colours.")], 40)


@pytest.fixture(scope="module")
def gguf() -> Path:
    return embedded_gguf()


@pytest.fixture(scope="module")
def engine(gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine.start(gguf, context=CONTEXT, threads=1, cache_dir=tmp_path_factory.mktemp("cache")) as started:
        yield started.wait()


def client(engine: Engine) -> OpenAIModel:
    return OpenAIModel(engine.url, engine.name, engine.key, profile_for(engine.name), context=engine.context)


# First in this file: `engine` is not running yet, so there is one model process at a time.
def test_connect_starts_the_embedded_engine_and_close_ends_it(gguf: Path, tmp_path: Path) -> None:
    given = {"MODEL": str(gguf), "CACHE": str(tmp_path), "ENGINE_CONTEXT": "1024", "ENGINE_THREADS": "1"}
    settings = Settings.from_env({f"ORION_{name}": value for name, value in given.items()})

    async def go() -> None:
        model = await connect(settings)
        engine = model.engine  # type: ignore[attr-defined]
        assert (model.name, model.context) == (gguf.stem, 1024)
        assert (await model.complete(Ask(ASK.messages, 1))).usage.completion_tokens == 1
        await model.close()
        assert not engine.alive

    asyncio.run(go())


@pytest.mark.parametrize("streamed", [False, True])
def test_an_engine_that_was_killed_is_named(gguf: Path, tmp_path: Path, streamed: bool) -> None:
    given = {"MODEL": str(gguf), "CACHE": str(tmp_path), "ENGINE_CONTEXT": "512", "ENGINE_THREADS": "1"}
    settings = Settings.from_env({f"ORION_{name}": value for name, value in given.items()})

    async def go() -> None:
        model = await connect(settings)
        engine = model.engine  # type: ignore[attr-defined]
        os.kill(engine.pid, signal.SIGKILL)
        try:
            with pytest.raises(ModelError, match="the embedded engine ended"):
                await (anext(model.stream(ASK)) if streamed else model.complete(ASK))
        finally:
            await model.close()

    asyncio.run(go())


def test_an_answer_and_its_usage(engine: Engine) -> None:
    async def go() -> None:
        model = client(engine)
        first = await model.complete(ASK)
        again = await model.complete(ASK)
        await model.close()
        assert first.text.strip()
        assert first.finish_reason in ("stop", "length")
        assert first.usage.calls == 1
        assert 0 < first.usage.completion_tokens <= 40
        assert again.usage.cached_tokens >= first.usage.prompt_tokens - 1  # the same prompt comes from the cache

    asyncio.run(go())


def test_streamed_is_the_same(engine: Engine) -> None:
    async def go() -> None:
        model = client(engine)
        builder, count = ReplyBuilder(), 0
        async for delta in model.stream(ASK):
            builder.add(delta)
            count += 1
        reply, whole = builder.reply(0.0), await model.complete(ASK)
        await model.close()
        assert (reply.text, reply.finish_reason) == (whole.text, whole.finish_reason)
        assert reply.usage.completion_tokens == whole.usage.completion_tokens
        assert count >= 3

    asyncio.run(go())


def test_a_schema_binds_the_answer(engine: Engine) -> None:
    schema = {
        "type": "object",
        "properties": {"colours": {"type": "array", "items": {"enum": ["vu3", "k9"]}, "minItems": 2, "maxItems": 2}},
        "required": ["colours"],
        "additionalProperties": False,
    }

    async def go() -> str:
        model = client(engine)
        try:
            return (await model.complete(replace(ASK, schema=schema))).text
        finally:
            await model.close()

    answer = json.loads(asyncio.run(go()))
    assert set(answer) == {"colours"}
    assert len(answer["colours"]) == 2
    assert set(answer["colours"]) <= {"vu3", "k9"}


def test_a_broken_off_answer_frees_the_server(engine: Engine) -> None:
    long = Ask([Message.text("user", "Count from 1 to 2000, one number a line.")], 1500)

    async def go() -> None:
        model = client(engine)
        async with aclosing(model.stream(long)) as deltas:
            await anext(deltas)
        start = monotonic()
        await model.complete(Ask(ASK.messages, 1), seconds=60)
        waited = monotonic() - start
        task = asyncio.create_task(model.complete(long))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        start = monotonic()
        await model.complete(Ask(ASK.messages, 1), seconds=60)
        waited = max(waited, monotonic() - start)
        start = monotonic()
        full = await model.complete(replace(long, max_tokens=20))
        await model.close()
        # There is one slot. Had the server gone on, the next answer would have waited for 1,500 tokens.
        assert waited < (monotonic() - start) / full.usage.completion_tokens * 750

    asyncio.run(go())


@pytest.mark.parametrize("streamed", [False, True])
def test_a_prompt_over_the_context(engine: Engine, streamed: bool) -> None:
    ask = Ask([Message.text("user", "word " * (CONTEXT + 100))], 5)

    async def go() -> None:
        model = client(engine)
        try:
            if streamed:
                async for _delta in model.stream(ask):
                    pass
            else:
                await model.complete(ask)
        finally:
            await model.close()

    with pytest.raises(ContextOverflow, match="Send less"):
        asyncio.run(go())


def test_what_the_embedded_engine_can_do(engine: Engine) -> None:
    async def go() -> None:
        model = client(engine)
        found = await probe(model)
        await model.close()
        assert found.schema is True
        assert found.images is False
        assert found.context == CONTEXT

    asyncio.run(go())


def test_the_penalty_against_runaways_ends_a_loop_of_blanks(engine: Engine) -> None:
    newline = 198  # the token in Qwen's vocabulary
    # A grammar that permits blanks without end, and a model that likes them: what happens on servers without a limit.
    forced = {"grammar": 'root ::= "A" [\\n]+ "B"', "logit_bias": [[newline, 12.0]]}
    loop = Ask([Message.text("user", "Say AB")], 90, extra=forced)

    async def go() -> None:
        model = client(engine)
        plain = await model.complete(loop)
        held = await model.complete(replace(loop, extra={**forced, "frequency_penalty": RUNAWAY_PENALTY}))
        await model.close()
        assert plain.finish_reason == "length"
        assert held.finish_reason == "stop"
        assert held.text.endswith("B")

    asyncio.run(go())
