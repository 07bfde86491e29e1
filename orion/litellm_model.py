"""Every other provider: `provider/model` through litellm, which is imported only when one is configured.

litellm costs 660 µs a streamed chunk and 3 s at import; local servers are spoken to by `orion.model` itself.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from types import ModuleType
from typing import Any

import httpx

from orion.errors import ContextOverflow, ModelBroke, ModelError, ModelTimeout, ModelUnreachable, NotConfigured
from orion.patience import Patience, retry_after
from orion.profiles import Profile
from orion.run import JSON
from orion.stream import ReplyBuilder, StreamDecoder
from orion.wire import Ask, Delta, Dialect, OnText, Reply, options, server_error

DEFAULT_CONTEXT = 32768
"""Context in tokens of a model litellm's own table does not know."""


class LiteLLMModel:
    """A model of any provider litellm knows, with the same replies, deltas and errors as `OpenAIModel`.

    `name` is `provider/model`; `key` and `url` are taken from the provider's own environment variables when None.
    """

    def __init__(
        self,
        name: str,
        key: str | None,
        profile: Profile,
        *,
        context: int,
        url: str | None = None,
        read_seconds: float = 120.0,
        total_seconds: float = 600.0,
        retries: int = 2,
    ) -> None:
        self.name = name
        self.profile = profile
        self.context = context
        self.dialect: Dialect = "plain"
        self.url = url
        self.read_seconds = read_seconds
        self.total_seconds = total_seconds
        self.retries = retries
        self.identity = url or "litellm"
        self._key = key

    async def complete(self, ask: Ask, *, seconds: float | None = None, on_text: OnText | None = None) -> Reply:
        """The whole answer; `on_text` sees it in one piece. Raises as `OpenAIModel.complete` does."""
        patience = self._patience(seconds)
        answer = await self._ask(ask, patience, stream=False)
        builder = ReplyBuilder(self.profile.think_tags)
        for delta in StreamDecoder(self.profile.think_tags).whole(answer.model_dump()):
            builder.add(delta)
            if on_text is not None and delta.text:
                on_text(delta.text)
        return builder.reply(patience.elapsed())

    async def stream(self, ask: Ask, *, seconds: float | None = None) -> AsyncGenerator[Delta, None]:
        """The answer as it comes. Raises as `OpenAIModel.stream` does."""
        patience = self._patience(seconds)
        decoder = StreamDecoder(self.profile.think_tags)
        async with aclosing(self._chunks(ask, patience)) as chunks:
            async for chunk in chunks:
                for delta in decoder.take(chunk):
                    yield delta
        for delta in decoder.finish():
            yield delta

    async def _chunks(self, ask: Ask, patience: Patience) -> AsyncGenerator[JSON, None]:
        answer = await self._ask(ask, patience, stream=True)
        try:
            while True:
                try:
                    async with asyncio.timeout_at(patience.deadline):
                        chunk = await anext(answer, None)
                except Exception as error:
                    raise self._typed(error, patience, begun=True) from error
                if chunk is None:
                    return
                yield chunk.model_dump()
        finally:
            if close := getattr(getattr(answer, "completion_stream", None), "close", None):
                await close()  # litellm's own wrapper has no way to stop the server

    async def _ask(self, ask: Ask, patience: Patience, *, stream: bool) -> Any:
        """litellm's answer or stream; what failed before it began is tried again."""
        litellm = await load()
        fields = options(ask, self.profile.no_thinking)
        if stream:
            fields["stream_options"] = {"include_usage": True}
        # extra_body passes unknown fields on as they are; known ones must be arguments to be translated.
        fields |= {"extra_body": dict(ask.extra)} if ask.extra else {}
        while True:
            try:
                async with asyncio.timeout_at(patience.deadline):
                    return await litellm.acompletion(
                        model=self.name,
                        messages=[json.loads(message.body) for message in ask.messages],
                        stream=stream,
                        api_key=self._key,
                        api_base=self.url,
                        timeout=self.read_seconds if stream else self.total_seconds,
                        max_retries=0,
                        num_retries=0,
                        **fields,
                    )
            except Exception as error:
                found = self._typed(error, patience)
                response = getattr(error, "response", None)
                after = retry_after(response.headers.get("Retry-After")) if response is not None else None
                if not found.retryable:
                    raise found from error
                await patience.again(found, after=after)

    def _patience(self, seconds: float | None) -> Patience:
        return Patience(self.retries, self.total_seconds if seconds is None else seconds)

    def _typed(self, error: Exception, patience: Patience, *, begun: bool = False) -> ModelError:
        """Our error for one of litellm's; anything else it raises is re-raised as it is."""
        if isinstance(error, TimeoutError):
            return ModelTimeout(f"the model's answer took longer than {patience.seconds:g} s in all")
        kind = type(error).__name__
        status = getattr(error, "status_code", None)
        words = str(getattr(error, "message", error)).encode()
        if kind == "ContextWindowExceededError":
            return ContextOverflow(str(error), status=status, fix="Send less, or choose a model with a longer context.")
        if kind == "Timeout":
            return ModelTimeout(f"{self.name} was silent for {self.read_seconds:g} s", fix="See ORION_READ_SECONDS.")
        if begun and (isinstance(error, httpx.TransportError) or status is not None):
            return ModelBroke(f"the stream of {self.name} broke: {error}", retryable=True)
        connection = kind == "APIConnectionError" or (kind == "InternalServerError" and _lost(error))
        if connection and _refused(error):
            return ModelUnreachable(f"{self.name} does not answer: {error}", fix="Check ORION_MODEL and the network.")
        if connection:
            return ModelBroke(f"the connection to {self.name} broke: {error}", retryable=True)
        if status is None:
            raise error
        return server_error(int(status), words, self.name)

    async def close(self) -> None:
        """Nothing to give back: litellm keeps its own clients."""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _lost(error: BaseException) -> bool:
    """True when the connection, not the server, failed."""
    return any(isinstance(cause, httpx.TransportError | ConnectionError) for cause in _causes(error))


def _refused(error: BaseException) -> bool:
    """True when nobody listens there."""
    return any(isinstance(cause, httpx.ConnectError | ConnectionRefusedError) for cause in _causes(error))


async def load() -> ModuleType:
    """litellm, imported in a thread because that takes seconds. Raises `NotConfigured` when it is missing."""
    return await asyncio.to_thread(_import)


def _import() -> ModuleType:
    # Unset, litellm fetches a price list at import: 13 s of tries on a machine without internet.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        import litellm
    except ImportError as error:
        line = 'pip install "orion-visual-agent[litellm]"'
        raise NotConfigured("a model named provider/model needs litellm", setting=line, fix=f"Run {line}.") from error
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    module: ModuleType = litellm
    return module


async def context_of(name: str) -> int:
    """Context in tokens by litellm's own table, else `DEFAULT_CONTEXT`."""
    litellm = await load()
    known = litellm.model_cost.get(name) or litellm.model_cost.get(name.partition("/")[2]) or {}
    return int(known.get("max_input_tokens") or DEFAULT_CONTEXT)
