from __future__ import annotations

import asyncio

import pytest

from orion.errors import ModelBroke, ModelTimeout
from orion.model import Ask, Model, NativeCall, Reply
from orion.scripted import ScriptedModel, ScriptedReply
from orion.stream import ReplyBuilder
from orion.types import Message

ASK = Ask([Message.text("user", "hi there")], 50)


def stream(model: Model) -> tuple[Reply, int]:
    async def go() -> tuple[Reply, int]:
        builder, count = ReplyBuilder(), 0
        async for delta in model.stream(ASK):
            builder.add(delta)
            count += 1
        return builder.reply(0.0), count

    return asyncio.run(go())


@pytest.mark.parametrize(
    "reply",
    [
        "a text of some length",
        "",
        [("f", {"x": 1}), ("g", {})],
        Reply("text", "why", [NativeCall("id", "f", "{}")], "tool_calls"),
    ],
)
def test_streaming_says_the_same(reply: ScriptedReply) -> None:
    whole = asyncio.run(ScriptedModel([reply]).complete(ASK))
    streamed, count = stream(ScriptedModel([reply]))
    assert streamed == whole
    assert count > len(whole.text) // 4


def test_errors_are_raised_and_asks_kept() -> None:
    model: ScriptedModel = ScriptedModel([ModelTimeout("slow"), "ok"])
    with pytest.raises(ModelTimeout, match="slow"):
        asyncio.run(model.complete(ASK))
    assert asyncio.run(model.complete(ASK)).text == "ok"
    with pytest.raises(ModelBroke, match="no reply for call 3"):
        asyncio.run(model.complete(ASK))
    assert model.asks == [ASK, ASK, ASK]


def test_usage_counts_characters() -> None:
    usage = asyncio.run(ScriptedModel(["12345678"]).complete(ASK)).usage
    assert (usage.calls, usage.prompt_tokens, usage.completion_tokens) == (1, 2, 2)
