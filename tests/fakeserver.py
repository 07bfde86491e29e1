"""A scriptable OpenAI-compatible server on loopback, for tests and benchmarks. Standard library only.

    with FakeServer([answer("hello"), Response(status=503, body=b"Loading model")]) as server:
        ...  # talk to server.url from a test or from async code; server.requests holds what arrived

It runs on its own thread, so synchronous and asynchronous tests use it alike. Responses are taken in order, one a
chat request; a callable `(Request) -> Response` is asked instead of a list. When the script is used up it answers 500
with a message that says so. Run as a program it serves a long stream for benchmarks and prints its URL:

    python -m tests.fakeserver --chunks 2000 --framing chunked --gap-us 0
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

JSON = Any
READY_SECONDS = 10.0


@dataclass
class Request:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> JSON:
        return json.loads(self.body)


@dataclass
class Response:
    """What is sent back. With `pieces` the body is sent piece by piece, each its own HTTP chunk and socket write."""

    status: int = 200
    body: bytes = b""
    pieces: Sequence[bytes] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    before: float = 0.0  # seconds of silence before the status line
    gap: float = 0.0  # seconds between two pieces
    drop: bool = False  # cut the connection after the last piece, without the end of the body
    reset: bool = False  # close the connection without any answer
    hang: bool = False  # after the last piece, stay silent until the client leaves
    framing: str = "chunked"  # or "close": no length, the body ends with the connection


Script = Iterable[Response] | Callable[[Request], Response]


def sse(event: JSON | bytes | str) -> bytes:
    """One server-sent event."""
    data = event if isinstance(event, bytes) else event.encode() if isinstance(event, str) else _dump(event)
    return b"data: " + data + b"\n\n"


def _dump(value: JSON) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def chunk(delta: JSON, finish_reason: str | None = None, **more: JSON) -> JSON:
    """A `chat.completion.chunk` with one choice."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "fake"}
    return {**head, "choices": [choice], **more}


def usage_of(prompt: int = 10, completion: int = 5, cached: int = 4) -> JSON:
    """A usage object with a cached share."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def tool_call(name: str, arguments: str | None, call_id: str = "call_1") -> JSON:
    """A complete tool call of a non-streamed message."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def answer(
    text: str | None = "",
    *,
    calls: Sequence[JSON] = (),
    reasoning: str | None = None,
    reasoning_field: str = "reasoning",
    finish_reason: str | None = "stop",
    usage: JSON = None,
    **more: Any,
) -> Callable[[Request], Response]:
    """A good answer, streamed or not as the request asks; `more` goes to `Response`."""

    def respond(request: Request) -> Response:
        used = usage or usage_of()
        if request.json.get("stream"):
            events = stream_events(text, calls, reasoning, reasoning_field, finish_reason, used)
            pieces = [*map(sse, events), sse("[DONE]")]
            return Response(content_type="text/event-stream", pieces=pieces, **more)
        message: JSON = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = list(calls)
        if reasoning is not None:
            message[reasoning_field] = reasoning
        choice = {"index": 0, "message": message, "finish_reason": finish_reason}
        body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "fake"}
        return Response(body=_dump({**body, "choices": [choice], "usage": used}), **more)

    return respond


def stream_events(
    text: str | None,
    calls: Sequence[JSON] = (),
    reasoning: str | None = None,
    reasoning_field: str = "reasoning",
    finish_reason: str | None = "stop",
    usage: JSON = None,
) -> list[JSON]:
    """The chunks vLLM sends for a message: role first, deltas of four characters, finish reason, usage last."""
    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({reasoning_field: part}) for part in _parts(reasoning or "")]
    events += [chunk({"content": part}) for part in _parts(text or "")]
    for index, call in enumerate(calls):
        function = call["function"]
        first = {"index": index, "id": call["id"], "type": "function", "function": {"name": function["name"]}}
        events.append(chunk({"tool_calls": [first]}))
        for part in _parts(function["arguments"] or ""):
            events.append(chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]}))
    events.append(chunk({}, finish_reason))
    if usage:
        events.append({**chunk({}), "choices": [], "usage": usage})
    return events


def _parts(text: str, size: int = 4) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def error(status: int, message: str, **more: Any) -> Response:
    """An error in OpenAI's shape; `more` goes to `Response`."""
    return Response(status=status, body=_dump({"error": {"message": message, "type": "error", "code": status}}), **more)


class FakeServer:
    """See the module's docstring. `url` ends in `/v1`; `cut` counts chat answers the client did not wait for."""

    def __init__(
        self, script: Script | Sequence[Any] = (), *, models: Sequence[JSON] | None = None, props: JSON | None = None
    ) -> None:
        self._script = script if callable(script) else iter(script)
        self.models = list(models) if models is not None else [{"id": "fake", "object": "model"}]
        self.props = props
        self.requests: list[Request] = []
        self.cut = 0
        self.connections = 0
        self.url = ""
        self._ready = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def chats(self) -> list[Request]:
        """The chat requests among `requests`."""
        return [request for request in self.requests if request.path == "/v1/chat/completions"]

    def wait_for_cut(self, count: int = 1, seconds: float = 5.0) -> bool:
        """Waits until `count` answers were cut; false when that did not happen in time."""
        end = time.monotonic() + seconds
        while self.cut < count and time.monotonic() < end:
            time.sleep(0.005)
        return self.cut >= count

    def __enter__(self) -> FakeServer:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="fakeserver", daemon=True)
        self._thread.start()
        if not self._ready.wait(READY_SECONDS):
            raise RuntimeError("the fake server did not start")
        return self

    def __exit__(self, *_exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(READY_SECONDS)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._main())
        finally:
            self._loop.close()

    async def _main(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while request := await _read_request(reader):
                    self.requests.append(request)
                    if not await self._respond(request, reader, writer):
                        break
        finally:
            self._tasks.discard(task)
            writer.close()

    def _response(self, request: Request) -> Response:
        if request.path == "/v1/models":
            return Response(body=_dump({"object": "list", "data": self.models}))
        if request.path == "/props":
            return Response(body=_dump(self.props)) if self.props is not None else error(404, "no such page")
        if request.path != "/v1/chat/completions":
            return error(404, f"no such page: {request.path}")
        step = self._script if callable(self._script) else next(self._script, None)
        if step is None:
            return error(500, "the script of the fake server is used up")
        return step(request) if callable(step) else step

    async def _respond(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Sends one response; true when the connection may carry another request."""
        response = self._response(request)
        if response.reset:
            return False
        gone = asyncio.ensure_future(reader.read(1))  # a client that leaves makes this end; nothing else is sent
        try:
            async for data in _wire(response):
                if gone.done():
                    raise ConnectionError
                if data is None:
                    await gone
                    raise ConnectionError
                writer.write(data)
                await writer.drain()
            done = not (response.drop or response.framing == "close")
        except ConnectionError:
            self.cut += 1
            return False
        finally:
            if not gone.done():
                gone.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await gone
        return done


async def _wire(response: Response) -> AsyncIterator[bytes | None]:
    """The bytes of a response as they go out; None means: stay silent until the client leaves."""
    if response.before:
        await asyncio.sleep(response.before)
    headers = {"Content-Type": response.content_type, **response.headers}
    if response.pieces is None:
        headers["Content-Length"] = str(len(response.body))
    elif response.framing == "chunked":
        headers["Transfer-Encoding"] = "chunked"
    head = f"HTTP/1.1 {response.status} -\r\n" + "".join(f"{key}: {value}\r\n" for key, value in headers.items())
    yield head.encode() + b"\r\n" + (response.body if response.pieces is None else b"")
    if response.pieces is not None:
        for piece in response.pieces:
            yield b"%x\r\n%b\r\n" % (len(piece), piece) if response.framing == "chunked" else piece
            if response.gap:
                await asyncio.sleep(response.gap)
    if response.hang:
        yield None
    if response.pieces is not None and response.framing == "chunked" and not response.drop:
        yield b"0\r\n\r\n"


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    lines = head.decode("latin-1").split("\r\n")
    method, path, _version = lines[0].split(" ", 2)
    fields = [line.partition(":") for line in lines[1:] if line]
    headers = {name.lower(): value.strip() for name, _colon, value in fields}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, body)


def main(arguments: Sequence[str]) -> None:
    """Serves one long stream again and again until standard input closes."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--chunks", type=int, default=2000)
    parser.add_argument("--framing", choices=("chunked", "close"), default="chunked")
    parser.add_argument("--gap-us", type=float, default=0.0)
    options = parser.parse_args(arguments)
    middle = [sse(chunk({"content": f" word{n}"})) for n in range(options.chunks)]
    end = [sse(chunk({}, "stop")), sse({**chunk({}), "choices": [], "usage": usage_of()}), sse("[DONE]")]
    pieces = [sse(chunk({"role": "assistant", "content": ""})), *middle, *end]
    response = Response(
        content_type="text/event-stream", pieces=pieces, framing=options.framing, gap=options.gap_us / 1e6
    )
    with FakeServer(lambda _request: response) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1:])
