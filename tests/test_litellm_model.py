"""litellm beside the direct path, against the same fake server: the same replies, deltas and errors."""

from __future__ import annotations

import asyncio
import builtins
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

import orion.patience
from orion.errors import (
    ContextOverflow,
    ModelBroke,
    ModelError,
    ModelTimeout,
    ModelUnreachable,
    NotConfigured,
)
from orion.litellm_model import DEFAULT_CONTEXT, LiteLLMModel, context_of, load
from orion.model import Ask, Model, OpenAIModel, Reply, connect
from orion.profiles import profile_for
from orion.settings import Settings
from orion.stream import ReplyBuilder
from orion.types import Message
from tests.fakeserver import FakeServer, Response, answer, chunk, error, sse, stream_events, tool_call

pytest.importorskip("litellm", reason='pip install "orion-visual-agent[litellm]"')

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
ASK = Ask([Message.text("user", "hi")], 50)
PROFILE = profile_for("qwen3-8b")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orion.patience, "BACKOFF_SECONDS", 0.01)


def direct(server: FakeServer) -> Model:
    return OpenAIModel(server.url, "fake", "k", PROFILE, context=8192)


def through_litellm(server: FakeServer) -> Model:
    return LiteLLMModel("openai/fake", "k", PROFILE, context=8192, url=server.url)


def complete(model: Model, ask: Ask = ASK, seconds: float | None = None) -> Reply:
    async def go() -> Reply:
        try:
            return await model.complete(ask, seconds=seconds)
        finally:
            await model.close()

    return asyncio.run(go())


def streamed(model: Model, ask: Ask = ASK, seconds: float | None = None) -> Reply:
    async def go() -> Reply:
        builder = ReplyBuilder(PROFILE.think_tags)
        try:
            async for delta in model.stream(ask, seconds=seconds):
                builder.add(delta)
        finally:
            await model.close()
        return builder.reply(0.0)

    return asyncio.run(go())


either = pytest.mark.parametrize("call", [complete, streamed])


@either
@pytest.mark.parametrize(
    "said",
    [
        answer("héllo"),
        answer("so", reasoning="why"),
        answer("so", reasoning="why", reasoning_field="reasoning_content"),
        answer("<think>why</think>\nso"),
        answer(None, calls=[tool_call("f", '{"x": 1}'), tool_call("g", "{}", "call_2")], finish_reason="tool_calls"),
    ],
    ids=["text", "reasoning", "reasoning_content", "think tags", "calls"],
)
def test_the_same_reply(call: Callable[..., Reply], said: Callable[[Any], Response]) -> None:
    with FakeServer(said) as server:
        ours, theirs = call(direct(server)), call(through_litellm(server))
    ours.seconds = theirs.seconds = 0.0
    assert theirs == ours


def test_the_same_request() -> None:
    ask = Ask(
        [Message.text("user", "hi")],
        50,
        schema={"type": "object", "properties": {"a": {"enum": ["x"]}}, "additionalProperties": False},
        tools=[TOOL],
        tool_choice="none",
        stop=["END"],
        extra={"chat_template_kwargs": {"enable_thinking": False}, "repetition_detection": {"max": 3}},
    )
    with FakeServer(answer("{}")) as server:
        streamed(direct(server), ask)
        streamed(through_litellm(server), ask)
    ours, theirs = (request.json for request in server.chats)
    assert theirs == ours


@either
@pytest.mark.parametrize(
    ("response", "kind", "says"),
    [
        (error(400, "bad temperature"), ModelError, "bad temperature"),
        (error(400, "This model's maximum context length is 8192 tokens"), ContextOverflow, "Send less"),
        (error(401, "Invalid API Key"), ModelError, "ORION_MODEL_KEY"),
        (error(404, "no such model"), ModelError, "ORION_MODEL"),
    ],
)
def test_the_same_errors(call: Callable[..., Reply], response: Response, kind: type[ModelError], says: str) -> None:
    with FakeServer(lambda _request: response) as server:
        for make in (direct, through_litellm):
            with pytest.raises(ModelError) as caught:
                call(make(server))
            assert type(caught.value) is kind
            assert says in str(caught.value)
            assert caught.value.status == response.status
    assert len(server.chats) == 2


@either
@pytest.mark.parametrize(
    "bad", [error(429, "busy"), error(503, "busy"), Response(reset=True)], ids=["429", "503", "reset"]
)
def test_retried_before_the_first_byte(call: Callable[..., Reply], bad: Response) -> None:
    with FakeServer([bad, bad, answer("ok")]) as server:
        assert call(through_litellm(server)).text == "ok"
    assert len(server.chats) == 3


@either
def test_nobody_there(call: Callable[..., Reply]) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        server = FakeServer()
        server.url = f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
        with pytest.raises(ModelUnreachable, match="openai/fake"):
            call(through_litellm(server))


@either
def test_total_timeout(call: Callable[..., Reply]) -> None:
    with FakeServer([Response(before=30)]) as server, pytest.raises(ModelTimeout, match=r"longer than 0\.3 s"):
        call(through_litellm(server), seconds=0.3)


def test_a_stream_cut_midway() -> None:
    pieces = [sse(event) for event in stream_events("half an ans", finish_reason=None)[:-1]]
    cut = Response(content_type="text/event-stream", pieces=pieces, drop=True)
    with FakeServer([cut]) as server, pytest.raises(ModelBroke):
        streamed(through_litellm(server))
    assert len(server.chats) == 1


def test_closing_the_stream_closes_the_connection() -> None:
    pieces = [
        sse(chunk({"role": "assistant", "content": ""})),
        sse(chunk({"content": "a"})),
        sse(chunk({"content": "b"})),
    ]
    begun = Response(content_type="text/event-stream", pieces=pieces, hang=True)
    with FakeServer([begun]) as server:

        async def go() -> None:
            model = through_litellm(server)
            async with aclosing(model.stream(ASK)) as deltas:
                assert (await anext(deltas)).text
            assert await asyncio.to_thread(server.wait_for_cut)

        asyncio.run(go())


def test_connect_takes_a_provider_name_through_litellm() -> None:
    settings = Settings.from_env({"ORION_MODEL": "openai/gpt-4o", "ORION_MODEL_KEY": "k"})
    model = asyncio.run(connect(settings))
    assert isinstance(model, LiteLLMModel)
    assert (model.name, model.profile.family, model.context) == ("openai/gpt-4o", "gpt", 128000)


def test_the_context_of_an_unknown_model() -> None:
    assert asyncio.run(context_of("openai/nobody-knows-me")) == DEFAULT_CONTEXT


def test_without_litellm_the_pip_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *rest: Any, **more: Any) -> Any:
        if name == "litellm":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(NotConfigured) as caught:
        asyncio.run(load())
    assert caught.value.setting == 'pip install "orion-visual-agent[litellm]"'


def test_litellm_is_not_imported_by_the_model_layer() -> None:
    code = "import sys, orion.model, orion.litellm_model, orion.capabilities; sys.exit('litellm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_the_price_list_is_not_fetched() -> None:
    asyncio.run(load())
    assert os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"
