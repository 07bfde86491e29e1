from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

import pytest

import orion.patience
from orion.errors import (
    ContextOverflow,
    ModelBroke,
    ModelError,
    ModelTimeout,
    ModelUnreachable,
)
from orion.model import Ask, NativeCall, OpenAIModel, Reply
from orion.openai_model import BLANK_RUN_MAX
from orion.profiles import profile_for
from orion.run import Usage
from orion.stream import ReplyBuilder
from orion.types import Message
from tests.fakeserver import FakeServer, Response, answer, chunk, error, sse, stream_events, tool_call

T = TypeVar("T")
ASK = Ask([Message.text("user", "hi")], 50)
SCHEMA = Ask([Message.text("user", "hi")], 50, schema={"type": "object"})
LOADING = Response(status=503, body=b'{"error":{"message":"Loading model","code":503}}')


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orion.patience, "BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(orion.patience, "LOADING_STEP_SECONDS", 0.01)


@asynccontextmanager
async def client(server: FakeServer, name: str = "qwen3-8b", **settings: Any) -> AsyncIterator[OpenAIModel]:
    model = OpenAIModel(server.url, name, "secret", profile_for(name), context=8192, **settings)
    try:
        yield model
    finally:
        await model.close()


def complete(server: FakeServer, ask: Ask = ASK, *, seconds: float | None = None, **settings: Any) -> Reply:
    async def go() -> Reply:
        async with client(server, **settings) as model:
            return await model.complete(ask, seconds=seconds)

    return asyncio.run(go())


def streamed(server: FakeServer, ask: Ask = ASK, *, seconds: float | None = None, **settings: Any) -> Reply:
    async def go() -> Reply:
        builder = ReplyBuilder(("<think>", "</think>"))
        async with client(server, **settings) as model:
            async for delta in model.stream(ask, seconds=seconds):
                builder.add(delta)
        return builder.reply(0.0)

    return asyncio.run(go())


def same(reply: Reply) -> tuple[Any, ...]:
    return (reply.text, reply.reasoning, reply.calls, reply.finish_reason, reply.usage)


either = pytest.mark.parametrize("call", [complete, streamed])


@either
def test_an_answer(call: Callable[..., Reply]) -> None:
    calls = [tool_call("f", '{"x": 1}')]
    with FakeServer([answer("héllo", calls=calls, reasoning="why", finish_reason="tool_calls")]) as server:
        reply = call(server)
    assert same(reply) == (
        "héllo",
        "why",
        [NativeCall("call_1", "f", '{"x": 1}')],
        "tool_calls",
        Usage(calls=1, prompt_tokens=10, completion_tokens=5, cached_tokens=4),
    )


@either
def test_thinking_in_the_content_is_split_off(call: Callable[..., Reply]) -> None:
    with FakeServer([answer("<think>why</think>\n\nso")]) as server:
        reply = call(server)
    assert (reply.reasoning, reply.text) == ("why", "so")


def test_what_is_sent() -> None:
    with FakeServer([answer("{}"), answer("ok")]) as server:

        async def go() -> None:
            async with client(server) as model:
                await model.complete(SCHEMA)
                await model.complete(ASK)

        asyncio.run(go())
    bound, plain = server.chats
    assert bound.headers["authorization"] == "Bearer secret"
    assert bound.headers["content-type"] == "application/json"
    assert bound.json["stream"] is True
    assert bound.json["stream_options"] == {"include_usage": True}
    assert bound.json["chat_template_kwargs"] == {"enable_thinking": False}
    assert plain.json == {
        "messages": [{"role": "user", "content": "hi"}],
        "model": "qwen3-8b",
        "max_tokens": 50,
        "temperature": 0.0,
        "stream": False,
    }


def test_connections_are_used_again_also_after_streams() -> None:
    with FakeServer(answer("ok")) as server:

        async def go() -> None:
            async with client(server) as model:
                for _ in range(3):
                    await model.complete(ASK)
                    await model.complete(SCHEMA)
                    async for _delta in model.stream(ASK):
                        pass

        asyncio.run(go())
    assert len(server.chats) == 9
    assert server.connections == 1


def test_one_model_in_two_event_loops() -> None:
    with FakeServer(answer("ok")) as server:
        model = OpenAIModel(server.url, "m", None, profile_for("m"), context=1)

        async def go() -> str:
            reply = await model.complete(ASK)
            await model.close()
            return reply.text

        assert [asyncio.run(go()), asyncio.run(go())] == ["ok", "ok"]
    assert "authorization" not in server.chats[0].headers


@either
@pytest.mark.parametrize(
    "bad",
    [
        error(429, "slow down"),
        error(502, "bad gateway"),
        error(503, "overloaded"),
        error(504, "gateway timeout"),
        error(429, "slow down", headers={"Retry-After": "0.01"}),
        Response(reset=True),
    ],
    ids=["429", "502", "503", "504", "retry-after", "reset"],
)
def test_retried_before_the_first_byte(call: Callable[..., Reply], bad: Response) -> None:
    with FakeServer([bad, bad, answer("ok")]) as server:
        assert call(server).text == "ok"
    assert len(server.chats) == 3


@either
def test_retries_are_bounded(call: Callable[..., Reply]) -> None:
    with FakeServer(lambda _request: error(503, "overloaded")) as server, pytest.raises(ModelError, match="overloaded"):
        call(server)
    assert len(server.chats) == 3


@either
def test_resets_are_bounded(call: Callable[..., Reply]) -> None:
    with FakeServer(lambda _request: Response(reset=True)) as server, pytest.raises(ModelBroke, match="broke"):
        call(server)
    assert len(server.chats) == 3


@either
def test_a_long_retry_after_is_an_error_at_once(call: Callable[..., Reply]) -> None:
    busy = error(429, "quota used up", headers={"Retry-After": "3600"})
    with FakeServer([busy, answer("ok")]) as server, pytest.raises(ModelError, match="quota used up"):
        call(server)
    assert len(server.chats) == 1


def test_a_loading_server_is_waited_for() -> None:
    with FakeServer([LOADING] * 8 + [answer("ok")]) as server:
        assert complete(server).text == "ok"
    assert len(server.chats) == 9


def test_a_server_that_loads_forever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orion.patience, "LOADING_SECONDS", 0.05)
    with FakeServer(lambda _request: LOADING) as server, pytest.raises(ModelError, match="Loading model"):
        complete(server)


@either
@pytest.mark.parametrize(
    ("response", "kind", "says"),
    [
        (error(400, "bad temperature"), ModelError, "400: bad temperature"),
        (error(400, "the request exceeds the available context size"), ContextOverflow, "Send less"),
        (error(400, "maximum context length is 8192 tokens"), ContextOverflow, "8192"),
        (error(401, "Invalid API Key"), ModelError, "ORION_MODEL_KEY"),
        (error(404, "no such model"), ModelError, "ORION_MODEL"),
        (error(500, "internal"), ModelError, "internal"),
    ],
)
def test_not_retried(call: Callable[..., Reply], response: Response, kind: type[ModelError], says: str) -> None:
    with FakeServer([response, answer("ok")]) as server, pytest.raises(ModelError) as caught:
        call(server)
    assert type(caught.value) is kind
    assert says in str(caught.value)
    assert len(server.chats) == 1


@either
def test_nobody_there(call: Callable[..., Reply]) -> None:
    with socket.socket() as bound:  # bound but not listening: refused for as long as the test runs
        bound.bind(("127.0.0.1", 0))
        server = FakeServer()
        server.url = f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
        with pytest.raises(ModelUnreachable) as caught:
            call(server)
    assert server.url.removesuffix("/v1") in str(caught.value)
    assert "ORION_MODEL_URL" in str(caught.value)


@either
def test_total_timeout_in_silence(call: Callable[..., Reply]) -> None:
    slow = Response(before=30)
    with FakeServer([slow]) as server, pytest.raises(ModelTimeout, match=r"longer than 0\.2 s in all"):
        call(server, seconds=0.2)


def test_total_timeout_midway() -> None:
    begun = Response(content_type="text/event-stream", pieces=[sse(chunk({"content": "a"}))] * 1000, gap=0.02)
    for call, ask in ((complete, SCHEMA), (streamed, ASK)):
        with FakeServer([begun]) as server:
            with pytest.raises(ModelTimeout, match=r"longer than 0\.2 s in all"):
                call(server, ask, seconds=0.2)
            assert server.wait_for_cut()


@pytest.mark.parametrize(("call", "ask"), [(complete, SCHEMA), (streamed, ASK)])
def test_read_timeout(call: Callable[..., Reply], ask: Ask) -> None:
    begun = Response(content_type="text/event-stream", pieces=[sse(chunk({"content": "a"}))], hang=True)
    with FakeServer([begun]) as server, pytest.raises(ModelTimeout, match=r"silent for 0\.1 s"):
        call(server, ask, read_seconds=0.1)


def test_the_time_a_consumer_takes_is_not_the_servers_fault() -> None:
    with FakeServer([answer("abcdefgh" * 5)]) as server:

        async def go() -> str:
            text = ""
            async with client(server) as model:
                async for delta in model.stream(ASK, seconds=5):
                    text += delta.text
                    await asyncio.sleep(0.01)
            return text

        assert asyncio.run(go()) == "abcdefgh" * 5


def cut_stream(text: str, **how: Any) -> Response:
    pieces = [sse(event) for event in stream_events(text, finish_reason=None)[:-1]]
    return Response(content_type="text/event-stream", pieces=pieces, **how)


@pytest.mark.parametrize("how", [{"drop": True}, {"framing": "close"}], ids=["chunked", "close"])
def test_a_stream_cut_midway(how: dict[str, Any]) -> None:
    with FakeServer([cut_stream("half an ans", **how), answer("ok")]) as server, pytest.raises(ModelBroke):
        streamed(server)
    assert len(server.chats) == 1  # the caller has seen a delta: never asked again


@pytest.mark.parametrize("how", [{"drop": True}, {"framing": "close"}], ids=["chunked", "close"])
def test_complete_asks_again_after_a_cut_stream(how: dict[str, Any]) -> None:
    with FakeServer([cut_stream('{"a', **how), answer('{"a":1}')]) as server:
        assert complete(server, SCHEMA).text == '{"a":1}'
    assert len(server.chats) == 2


def test_complete_asks_again_after_a_cut_body() -> None:
    half = Response(pieces=[b'{"choices":['], drop=True)
    with FakeServer([half, answer("ok")]) as server:
        assert complete(server).text == "ok"


def test_an_error_inside_the_stream() -> None:
    pieces = [sse(chunk({"content": "a"})), sse({"error": {"message": "CUDA out of memory", "code": 500}})]
    broken = Response(content_type="text/event-stream", pieces=pieces)
    with FakeServer([broken]) as server, pytest.raises(ModelBroke, match="CUDA out of memory"):
        streamed(server)


def test_blanks_that_never_end_are_cut_and_asked_again_once() -> None:
    runaway = answer('{"a":' + " \n" * 4000)
    with FakeServer([runaway, answer('{"a":1}')]) as server:
        reply = complete(server, SCHEMA)
        assert server.wait_for_cut()
    assert reply.text == '{"a":1}'
    assert reply.usage.calls == 2
    first, second = (request.json for request in server.chats)
    assert "frequency_penalty" not in first
    assert second["frequency_penalty"] > 0
    assert first["messages"] == second["messages"]


def test_blanks_that_never_end_twice() -> None:
    with FakeServer(answer('{"a":' + " " * 8000)) as server, pytest.raises(ModelBroke, match="runaway"):
        complete(server, SCHEMA)
    assert len(server.chats) == 2


@pytest.mark.parametrize("blanks", ["\n" * BLANK_RUN_MAX, " " * BLANK_RUN_MAX])
def test_a_deeply_indented_answer_is_no_runaway(blanks: str) -> None:
    text = '{"a":' + blanks + "1," + blanks + '"b": 2}'
    with FakeServer([answer(text)]) as server:
        assert complete(server, SCHEMA).text == text


@pytest.mark.parametrize("ask", [ASK, SCHEMA], ids=["whole", "streamed inside"])
def test_cancelling_closes_the_connection(ask: Ask) -> None:
    begun = Response(content_type="text/event-stream", pieces=[sse(chunk({"content": "a"}))], hang=True)
    with FakeServer([begun]) as server:

        async def go() -> None:
            async with client(server) as model:
                task = asyncio.create_task(model.complete(ask))
                await _until(lambda: bool(server.chats))
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await _until(lambda: server.cut == 1)

        asyncio.run(go())


def test_closing_the_stream_closes_the_connection() -> None:
    begun = Response(content_type="text/event-stream", pieces=[sse(chunk({"content": "a"}))], hang=True)
    with FakeServer([begun]) as server:

        async def go() -> None:
            async with client(server) as model:
                async with aclosing(model.stream(ASK)) as deltas:
                    assert (await anext(deltas)).text == "a"
                await _until(lambda: server.cut == 1)

        asyncio.run(go())


def test_cancelling_at_the_deadline_stays_a_cancellation() -> None:
    begun = Response(content_type="text/event-stream", pieces=[sse(chunk({"content": "a"}))], hang=True)
    with FakeServer([begun]) as server:

        async def go() -> None:
            async with client(server) as model:

                async def consume() -> None:
                    async for _delta in model.stream(ASK, seconds=60):
                        pass

                task = asyncio.create_task(consume())
                await _until(lambda: bool(server.chats))
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

        asyncio.run(go())


async def _until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the server lives in another thread
            await asyncio.sleep(0.01)


def test_many_at_once() -> None:
    with FakeServer(answer("ok", gap=0.001)) as server:

        async def go() -> list[Reply]:
            async with client(server) as model:
                return list(await asyncio.gather(*(model.complete(SCHEMA) for _ in range(50))))

        assert {reply.text for reply in asyncio.run(go())} == {"ok"}


def test_a_key_that_the_server_repeats_is_left_out() -> None:
    async def go(server: FakeServer) -> None:
        model = OpenAIModel(server.url, "qwen3-8b", "sk-12345678", profile_for("qwen3-8b"), context=8192)
        try:
            await model.complete(ASK)
        finally:
            await model.close()

    with FakeServer([error(401, "bad key sk-12345678")]) as server, pytest.raises(ModelError) as caught:
        asyncio.run(go(server))
    assert "bad key [the key]" in str(caught.value)
    assert "12345678" not in str(caught.value)
