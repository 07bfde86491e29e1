"""A model that says what it was told to: for tests of the loop and for examples without a server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence

from orion.errors import ModelBroke
from orion.profiles import Capabilities, Profile, profile_for
from orion.run import JSON, Usage
from orion.types import encode
from orion.wire import Ask, CallDelta, Delta, Dialect, NativeCall, OnText, Reply

ScriptedCalls = Sequence[tuple[str, Mapping[str, JSON]]]
ScriptedReply = Reply | str | ScriptedCalls | BaseException

DELTA_CHARS = 4


class ScriptedModel:
    """Gives its replies in order and keeps every `Ask` in `asks`.

    A reply is a `Reply`, a text, a list of `(tool, arguments)` native calls, or an exception to raise. When all are
    used up, `ModelBroke` says so. Four characters count as one token.

    >>> import asyncio
    >>> from orion.types import Message
    >>> model = ScriptedModel(["hello", [("image.crop", {"image": "img_1a2b3c"})]])
    >>> ask = Ask([Message.text("user", "hi")], max_tokens=5)
    >>> asyncio.run(model.complete(ask)).text
    'hello'
    >>> asyncio.run(model.complete(ask)).calls
    [NativeCall(id='call_2_0', name='image.crop', arguments='{"image":"img_1a2b3c"}')]
    >>> len(model.asks)
    2
    """

    def __init__(
        self,
        replies: Iterable[ScriptedReply],
        name: str = "scripted",
        context: int = 32768,
        profile: Profile | None = None,
        capabilities: Capabilities | None = None,
    ) -> None:
        self.name = name
        self.profile = profile or profile_for(name)
        self.context = context
        self.dialect: Dialect = "llguidance"
        self.capabilities = capabilities or Capabilities(schema=True, tools=True, images=False, context=context)
        self.asks: list[Ask] = []
        self.closed = False
        self._replies = iter(replies)

    async def complete(self, ask: Ask, *, seconds: float | None = None, on_text: OnText | None = None) -> Reply:
        """The next reply of the script."""
        reply = self._next(ask)
        if on_text is not None and reply.text:
            on_text(reply.text)
        return reply

    def _next(self, ask: Ask) -> Reply:
        self.asks.append(ask)
        reply = next(self._replies, None)
        if reply is None:
            raise ModelBroke(f"the script of {self.name} has no reply for call {len(self.asks)}")
        if isinstance(reply, BaseException):
            raise reply
        if isinstance(reply, Reply):
            return reply
        text = reply if isinstance(reply, str) else ""
        calls = [] if isinstance(reply, str) else self._calls(reply)
        prompt = sum(message.chars for message in ask.messages) // 4
        said = len(text) + sum(len(call.name) + len(call.arguments) for call in calls)
        usage = Usage(calls=1, prompt_tokens=prompt, completion_tokens=-(-said // 4))
        return Reply(text, "", calls, "tool_calls" if calls else "stop", usage, 0.0)

    def _calls(self, calls: ScriptedCalls) -> list[NativeCall]:
        turn = len(self.asks)
        return [
            NativeCall(f"call_{turn}_{place}", name, encode(dict(arguments)).decode())
            for place, (name, arguments) in enumerate(calls)
        ]

    async def stream(self, ask: Ask, *, seconds: float | None = None) -> AsyncGenerator[Delta, None]:
        """The next reply in deltas of four characters, calls in two fragments each."""
        reply = await self.complete(ask, seconds=seconds)
        for part in _parts(reply.reasoning):
            yield Delta(reasoning=part)
        for part in _parts(reply.text):
            yield Delta(text=part)
        for index, call in enumerate(reply.calls):
            yield Delta(call=CallDelta(index, call.id, call.name))
            yield Delta(call=CallDelta(index, arguments=call.arguments))
        yield Delta(finish_reason=reply.finish_reason, usage=reply.usage)

    async def close(self) -> None:
        """Notes that it was closed."""
        self.closed = True


def _parts(text: str) -> list[str]:
    return [text[start : start + DELTA_CHARS] for start in range(0, len(text), DELTA_CHARS)]
