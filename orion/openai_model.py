"""A model behind an OpenAI-compatible HTTP server: the only module that talks to one."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

import httpx

from orion.errors import ModelBroke, ModelError, ModelTimeout, ModelUnreachable, UserError
from orion.patience import Deadline, Patience, retry_after
from orion.profiles import Profile
from orion.run import JSON
from orion.runaway import BLANK_RUN_MAX, Watchdog
from orion.stream import ReplyBuilder, StreamDecoder, reply_of
from orion.wire import REPETITION, Ask, Delta, Dialect, OnText, Reply, request_body, server_error

T = TypeVar("T")

DRAIN_SECONDS = 1.0
"""Wait for the end of the body after `[DONE]`, so that the connection can be used again."""
RUNAWAY_PENALTY = 0.3
"""`frequency_penalty` of the one retry after a blank runaway. It grows with every repetition, so a loop of one token
ends by construction, which a higher temperature or a constant repetition penalty does not assure; it is small, because
digits of a right answer repeat too. The messages stay as they are: the server's prefix cache holds, and templates that
insist on alternating roles are content."""
INFO_SECONDS = 20.0
"""Longest wait for what a server says about itself."""
KEY_BYTES = 8
"""A shorter key is no secret but a placeholder, such as `none`; it is not searched for in messages."""


@dataclass(frozen=True, slots=True)
class Served:
    """One entry of `/v1/models`."""

    name: str
    root: str
    """The name of the weights behind `name`, where the server tells."""
    context: int | None


class OpenAIModel:
    """A model behind an OpenAI-compatible HTTP server (vLLM, llama.cpp, …); used from one event loop at a time.

    `url` is the base with its `/v1`. `read_seconds` bounds the silence within a streamed answer, `total_seconds` a
    whole call. Retried, at most `retries` times and within the total: what failed before the first byte of an
    answer with 429, 502, 503, 504 or a cut connection, and a broken stream inside `complete`.
    """

    def __init__(
        self,
        url: str,
        name: str,
        key: str | None,
        profile: Profile,
        *,
        context: int,
        connect_seconds: float = 5.0,
        read_seconds: float = 120.0,
        total_seconds: float = 600.0,
        retries: int = 2,
    ) -> None:
        self.url, basic = _without_user(_base(url))
        if key and basic:
            raise UserError(
                "there are a key and a user name in the URL; the server can be sent one of them",
                param="ORION_MODEL_URL",
                fix="Leave one out.",
            )
        authorization = f"Bearer {key}" if key else basic
        self.name = name
        self.profile = profile
        self.context = context
        self.dialect: Dialect = "xgrammar"
        """vLLM's default; a server that answers as llama.cpp is found out by `server_context`."""
        self.connect_seconds = connect_seconds
        self.read_seconds = read_seconds
        self.total_seconds = total_seconds
        self.retries = retries
        self.identity = self.url
        """What the server is, for caches; the embedded engine, whose port changes, sets its own."""
        self._key = (key or basic.removeprefix("Basic ")).encode()
        self._headers = {"Accept-Encoding": "identity"} | ({"Authorization": authorization} if authorization else {})
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def complete(self, ask: Ask, *, seconds: float | None = None, on_text: OnText | None = None) -> Reply:
        """The whole answer. With a schema it is streamed inside, so that an endless answer is cut short.

        Raises `ModelUnreachable`, `ModelTimeout`, `ModelBroke`, `ContextOverflow` or `ModelError`.
        """
        patience = self._patience(seconds)
        aborted = 0
        while True:
            try:
                if ask.schema is None and on_text is None:
                    reply = await self._whole(ask, patience)
                else:
                    reply = await self._collect(ask, patience, on_text)
            except _Runaway:
                aborted += 1
                if aborted > 1:
                    raise
                ask = replace(ask, extra={**ask.extra, "frequency_penalty": RUNAWAY_PENALTY})
            except ModelBroke as error:  # nothing was acted upon yet: safe to ask again
                await patience.again(error)
            else:
                reply.usage.calls += aborted
                return reply

    def _patience(self, seconds: float | None) -> Patience:
        return Patience(self.retries, self.total_seconds if seconds is None else seconds)

    async def _whole(self, ask: Ask, patience: Patience) -> Reply:
        body = request_body(ask, self.name, stream=False)
        response = await self._open(body, patience, stream=False)
        try:
            data = await _within(patience, response.aread())
        finally:
            await response.aclose()
        return reply_of(data, self.profile.think_tags, patience.elapsed())

    async def _collect(self, ask: Ask, patience: Patience, on_text: OnText | None) -> Reply:
        builder, watchdog, pieces = ReplyBuilder(self.profile.think_tags), Watchdog(), 0
        async with aclosing(self._stream(ask, patience)) as deltas:
            async for delta in deltas:
                builder.add(delta)
                pieces += bool(delta.text)
                if on_text is not None and delta.text:
                    on_text(delta.text)
                ran = watchdog.feed(delta.text) if ask.schema is not None else None
                if ran == "blanks":
                    raise _Runaway(f"runaway: the model wrote more than {BLANK_RUN_MAX} blanks in a row")
                if ran == "repetition":
                    reply = builder.reply(patience.elapsed())
                    reply.finish_reason = REPETITION
                    reply.usage.completion_tokens = pieces  # a server counts only answers that it ends itself
                    return reply
        return builder.reply(patience.elapsed())

    def stream(self, ask: Ask, *, seconds: float | None = None) -> AsyncGenerator[Delta, None]:
        """The answer as it comes; tool calls in fragments. Close the generator early and the server stops.

        Raises as `complete` does; nothing is retried once the first delta was given.
        """
        return self._stream(ask, None, seconds)

    async def _stream(
        self, ask: Ask, patience: Patience | None, seconds: float | None = None
    ) -> AsyncGenerator[Delta, None]:
        patience = patience or self._patience(seconds)
        body = request_body(ask, self.name, stream=True, defaults=self.profile.no_thinking, dialect=self.dialect)
        response = await self._open(body, patience, stream=True)
        decoder, deadline = StreamDecoder(self.profile.think_tags), Deadline(patience.deadline)
        try:
            chunks = response.aiter_raw()
            while (data := await _read(chunks, deadline, patience)) is not None:
                for delta in decoder.feed(data):
                    yield delta
                if decoder.done:
                    await _drain(chunks)
                    break
            for delta in decoder.finish():
                yield delta
        finally:
            deadline.close()
            await response.aclose()

    async def _open(self, body: bytes, patience: Patience, *, stream: bool) -> httpx.Response:
        """An answer whose status is good and whose body is still to be read."""
        while True:
            try:
                response = await self._request("POST", self.url + "/chat/completions", patience, body, stream=stream)
            except ModelBroke as error:
                await patience.again(error)
                continue
            if response.status_code == 200:
                return response
            try:
                data = await _within(patience, response.aread())
            finally:
                await response.aclose()
            found = self._error(response.status_code, data)
            if not found.retryable:
                raise found
            after = retry_after(response.headers.get("Retry-After"))
            loading = response.status_code == 503 and b"loading" in data.lower()
            await patience.again(found, after=after, loading=loading)

    async def _request(
        self, method: str, url: str, patience: Patience, body: bytes | None = None, *, stream: bool = True
    ) -> httpx.Response:
        # An answer that is not streamed is one long silence: only the total bounds it.
        read = self.read_seconds if stream else None
        timeout = httpx.Timeout(read, connect=self.connect_seconds, pool=self.connect_seconds)
        client = self._http()
        headers = {"Content-Type": "application/json"} if body is not None else None
        request = client.build_request(method, url, content=body, headers=headers, timeout=timeout)
        return await _within(patience, client.send(request, stream=True))

    def _http(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            local = urlsplit(self.url).hostname in ("127.0.0.1", "localhost", "::1")
            self._client = httpx.AsyncClient(
                headers=self._headers,
                trust_env=not local,  # a proxy has no business between two processes of one machine
                verify=self.url.startswith("https:"),  # reading the certificate store costs 20 ms
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            )
            self._loop = loop
        return self._client

    async def served(self) -> list[Served]:
        """The models the server offers. Raises as `complete` does."""
        status, data = await self._get(self.url + "/models")
        if status != 200:
            raise self._error(status, data)
        try:
            entries = json.loads(data)["data"]
            return [Served(str(e["id"]), str(e.get("root") or e["id"]), _context_of(e)) for e in entries]
        except (ValueError, KeyError, TypeError) as error:
            shown = data[:80].decode(errors="replace")
            raise ModelBroke(f"{self.url}/models is not a list of models: {shown}") from error

    def _error(self, status: int, data: bytes) -> ModelError:
        """The server's error; some repeat the key they were sent, which must not get into a trace or a log."""
        if len(self._key) >= KEY_BYTES:
            data = data.replace(self._key, b"[the key]")
        return server_error(status, data, self.name)

    async def server_context(self) -> int | None:
        """Tokens of context one request may use as the server tells it; None when it does not.

        llama.cpp tells what it runs with in `/props`, vLLM its `max_model_len` in `/models`.
        """
        status, data = await self._get(self.url.removesuffix("/v1") + "/props")
        if status == 200:
            with suppress(ValueError, KeyError, TypeError):  # another server may mean anything by /props
                context = int(json.loads(data)["default_generation_settings"]["n_ctx"])
                self.dialect = "llamacpp"
                return context if context > 0 else None
        return next((served.context for served in await self.served() if served.name == self.name), None)

    async def _get(self, url: str) -> tuple[int, bytes]:
        patience = Patience(self.retries, INFO_SECONDS)
        while True:
            try:
                response = await self._request("GET", url, patience)
                try:
                    data = await _within(patience, response.aread())
                finally:
                    await response.aclose()
            except ModelBroke as error:
                await patience.again(error)
            else:
                found = self._error(response.status_code, data)
                if not found.retryable:
                    return response.status_code, data
                await patience.again(found, loading=response.status_code == 503)

    async def close(self) -> None:
        """Closes the connections."""
        if self._client is not None and self._loop is asyncio.get_running_loop():
            await self._client.aclose()
        self._client = None


class _Runaway(ModelBroke):
    """The answer is an endless run of blanks."""


async def _within(patience: Patience, work: Awaitable[T]) -> T:
    """Awaits one step of the conversation with the server; its failures become our errors."""
    try:
        async with asyncio.timeout_at(patience.deadline):
            return await work
    except (TimeoutError, httpx.TransportError) as error:
        raise _typed(error, patience) from error


async def _read(chunks: AsyncIterator[bytes], deadline: Deadline, patience: Patience) -> bytes | None:
    """The next bytes of a stream, None at its end; failures as in `_within`."""
    try:
        return await deadline.next(chunks)
    except (TimeoutError, httpx.TransportError) as error:
        raise _typed(error, patience) from error


def _typed(error: TimeoutError | httpx.TransportError, patience: Patience) -> ModelError:
    if isinstance(error, TimeoutError):
        return ModelTimeout(f"the model's answer took longer than {patience.seconds:g} s in all")
    if isinstance(error, httpx.TimeoutException):
        return _timeout(error)
    if isinstance(error, httpx.ConnectError | httpx.UnsupportedProtocol):
        url = error.request.url
        message = f"no model server answers at {url.scheme}://{url.netloc.decode()}: {error}"
        return ModelUnreachable(message, fix="Start it, or set ORION_MODEL_URL to one that runs.")
    name = type(error).__name__
    return ModelBroke(f"the connection to the model server broke: {str(error) or name}", retryable=True)


def _timeout(error: httpx.TimeoutException) -> ModelTimeout:
    limits = error.request.extensions.get("timeout", {})
    where = error.request.url.netloc.decode()
    if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
        limit = limits.get("connect")
        return ModelTimeout(f"no connection to {where} within {limit:g} s", fix="See ORION_CONNECT_SECONDS.")
    if isinstance(error, httpx.WriteTimeout):
        return ModelTimeout(f"{where} did not take the request within {limits.get('write'):g} s")
    return ModelTimeout(f"{where} was silent for {limits.get('read'):g} s", fix="See ORION_READ_SECONDS.")


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Reads the end of a body that is over, so that its connection can carry the next request."""
    with suppress(TimeoutError, httpx.TransportError):  # the answer is complete: nothing is lost
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _rest in chunks:
                pass


def _base(url: str) -> str:
    """The base of the API: what people paste, made right."""
    base = url.rstrip("/").removesuffix("/chat/completions")
    return base if urlsplit(base).path else base + "/v1"


def _without_user(url: str) -> tuple[str, str]:
    """A URL without its `user:password@`, which must get into no message or file, and the header that it stands for.

    >>> _without_user("http://ann:s%21@gpu/v1")
    ('http://gpu/v1', 'Basic YW5uOnMh')
    """
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, ""
    basic = base64.b64encode(":".join(unquote(part) for part in user.split(":", 1)).encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), f"Basic {basic}"


def _context_of(entry: JSON) -> int | None:
    meta = entry.get("meta") or {}
    value = entry.get("max_model_len") or meta.get("n_ctx") or meta.get("n_ctx_train")
    return int(value) if value and int(value) > 0 else None
