"""The answer of a server as bytes → deltas → a reply. No network here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic_core import from_json

from orion.errors import ContextOverflow, ModelBroke, ModelError
from orion.run import JSON, Usage
from orion.types import encode
from orion.wire import CallDelta, Delta, NativeCall, Reply, server_error

EVENT_BYTES_MAX = 16 * 2**20
"""Longest event of a stream; a server that sends more is broken."""
HELD_BLANKS_MAX = 64
"""Leading blanks held back while it is open whether a think tag follows."""

DONE = b"[DONE]"


class EventSplitter:
    """Splits the bytes of a server-sent event stream into the data of its events, wherever the bytes are cut.

    >>> events = EventSplitter()
    >>> events.feed(b": keep-alive\\n\\ndata: {\\"a\\""), events.feed(b": 1}\\r\\n\\r\\ndata: [DO"), events.finish()
    ([], [b'{"a": 1}'], [b'[DO'])
    """

    __slots__ = ("_data", "_tail")

    def __init__(self) -> None:
        self._tail = b""
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """The data of every event that `data` completes."""
        lines = (self._tail + data).split(b"\n")
        self._tail = lines.pop()
        if len(self._tail) > EVENT_BYTES_MAX:
            raise ModelBroke(f"the model server sent a line of more than {EVENT_BYTES_MAX} bytes")
        return self._events(lines)

    def finish(self) -> list[bytes]:
        """The data of an event whose closing blank line never came."""
        lines, self._tail = [self._tail, b""], b""
        return self._events(lines)

    def _events(self, lines: Iterable[bytes]) -> list[bytes]:
        out: list[bytes] = []
        for line in lines:
            if line.endswith(b"\r"):
                line = line[:-1]
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif not line:
                if self._data:
                    out.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                    self._data = []
            elif line.startswith(b"error:"):  # llama.cpp up to 2025 names the field so
                self._data.append(b'{"error":' + line[6:] + b"}")
        return out


class ThinkSplitter:
    """Moves a leading `<think>…</think>` of the content into the reasoning, also when the tags come in pieces.

    Blanks between thinking and text are dropped, whoever split them.

    >>> split = ThinkSplitter(("<think>", "</think>"))
    >>> [split.feed(part) for part in ("<thi", "nk>why", "</think", ">\\n\\nso")]
    [('', ''), ('why', ''), ('', ''), ('', 'so')]
    """

    __slots__ = ("_close", "_held", "_open", "_reasoned", "_skipped", "_state")

    def __init__(self, tags: tuple[str, str] | None) -> None:
        self._open, self._close = tags or ("", "")
        self._state: Literal["no tags", "start", "thinking", "gap", "text"] = "start" if tags else "no tags"
        self._held = ""
        self._reasoned = False
        self._skipped = 0

    def reasoned(self) -> None:
        """Notes that the server has split off reasoning itself."""
        self._reasoned = True
        if self._state == "no tags":
            self._state = "gap"

    def feed(self, text: str) -> tuple[str, str]:
        """`(reasoning, text)` that is certain by now."""
        if self._state == "text":
            return "", text
        if self._state == "no tags":
            self._state = "text"
            return "", text
        reasoning = ""
        held, self._held = self._held + text, ""
        if self._state == "start":
            begun = held.lstrip()
            if begun.startswith(self._open):
                self._state, held = "thinking", begun[len(self._open) :]
            elif self._open.startswith(begun) and len(held) - len(begun) < HELD_BLANKS_MAX:
                self._held = held
                return "", ""
            else:
                self._state = "text"
                return "", begun if self._reasoned else held
        if self._state == "thinking":
            reasoning, closed, after = held.partition(self._close)
            if not closed:
                cut = len(reasoning) - _overlap(reasoning, self._close)
                self._held = reasoning[cut:]
                return reasoning[:cut], ""
            self._state, held = "gap", after
        kept = held.lstrip()
        self._skipped += len(held) - len(kept)
        if kept or self._skipped > HELD_BLANKS_MAX:  # blanks without end are for others to see
            self._state = "text"
        return reasoning, kept

    def finish(self) -> tuple[str, str]:
        """What was held back when the stream ended."""
        held, self._held = self._held, ""
        return (held, "") if self._state == "thinking" else ("", held)


def _overlap(text: str, tag: str) -> int:
    """Length of the longest end of `text` that begins `tag`."""
    return next((size for size in range(min(len(tag) - 1, len(text)), 0, -1) if text.endswith(tag[:size])), 0)


class StreamDecoder:
    """Bytes of a streamed answer → deltas. The deltas do not depend on where the bytes are cut."""

    __slots__ = ("_events", "_think", "done", "finished")

    def __init__(self, tags: tuple[str, str] | None = None) -> None:
        self._events = EventSplitter()
        self._think = ThinkSplitter(tags)
        self.done = False
        """`[DONE]` was seen."""
        self.finished = False
        """A finish reason was seen."""

    def feed(self, data: bytes) -> list[Delta]:
        """Raises `ModelError` for an error the server put into the stream, `ModelBroke` for what is no JSON."""
        return self._deltas(self._events.feed(data))

    def finish(self) -> list[Delta]:
        """What is left at the end of the stream. Raises `ModelBroke` when the stream was cut."""
        deltas = self._deltas(self._events.finish())
        reasoning, text = self._think.finish()
        if reasoning or text:
            deltas.append(Delta(text, reasoning))
        if not self.done and not self.finished:
            raise ModelBroke("the model server dropped the stream midway", retryable=True)
        return deltas

    def whole(self, event: JSON) -> list[Delta]:
        """The deltas of an answer that was not streamed."""
        out = self.take(event)
        self.finished = True
        return out + self.finish()

    def take(self, event: JSON) -> list[Delta]:
        """The deltas of one chunk that was parsed elsewhere."""
        out: list[Delta] = []
        self._event(event, out)
        return out

    def _deltas(self, events: Iterable[bytes]) -> list[Delta]:
        out: list[Delta] = []
        for data in events:
            if data == DONE:
                self.done = True
            elif not self.done:
                self._event(_json(data), out)
        return out

    def _event(self, event: JSON, out: list[Delta]) -> None:
        try:
            self._split(event, out)
        except (
            AttributeError,
            TypeError,
            KeyError,
            IndexError,
            ValueError,
        ) as error:
            # Other types than the protocol's.
            raise ModelBroke(f"the model server sent what is no chat completion: {str(event)[:80]}") from error

    def _split(self, event: JSON, out: list[Delta]) -> None:
        for delta in deltas_of(event):
            if delta.finish_reason:
                self.finished = True
            if delta.reasoning:
                self._think.reasoned()
            if delta.text:
                reasoning, delta.text = self._think.feed(delta.text)
                delta.reasoning += reasoning
            if delta.text or delta.reasoning or delta.call or delta.finish_reason or delta.usage:
                out.append(delta)


def _json(data: bytes) -> JSON:
    try:
        return from_json(data)  # three times as fast as json.loads
    except ValueError:
        # … but it refuses half of a surrogate pair, which a model may well write in a tool's arguments.
        try:
            return json.loads(data)
        except ValueError as error:
            shown = data[:80].decode(errors="replace")
            raise ModelBroke(f"the model server sent what is no JSON: {shown}", retryable=True) from error


def deltas_of(event: JSON) -> list[Delta]:
    """The deltas of one chunk, or of a whole `chat.completion`; tool calls one a delta."""
    if not isinstance(event, dict) or event.get("error") or event.get("object") == "error":
        raise _stream_error(event)
    raw = event.get("usage")
    usage = usage_of(raw, event.get("timings")) if raw else None
    choices = event.get("choices")
    if not choices:
        return [Delta(usage=usage)] if usage else []
    choice = choices[0]
    message = choice.get("delta") or choice.get("message") or {}
    content = message.get("content")
    first = Delta(
        content if isinstance(content, str) else _joined(content or message.get("refusal")),
        message.get("reasoning") or message.get("reasoning_content") or "",
        None,
        choice.get("finish_reason"),
        usage,
    )
    calls = message.get("tool_calls")
    if not calls:
        return [first]
    # The end of the answer follows its calls, also when a server puts both into one chunk.
    last = Delta(finish_reason=first.finish_reason, usage=first.usage)
    first.finish_reason = first.usage = None
    return [first, *(Delta(call=_call_delta(raw, place)) for place, raw in enumerate(calls)), last]


def _joined(content: JSON) -> str:
    """Text of a content that is no string: None, or a list of parts."""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _call_delta(raw: JSON, place: int) -> CallDelta:
    function = raw.get("function") or {}
    arguments = function.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        arguments = encode(arguments).decode()
    index = place if raw.get("index") is None else raw["index"]
    return CallDelta(index, raw.get("id") or "", function.get("name") or "", arguments or "")


def usage_of(raw: Mapping[str, JSON], timings: Mapping[str, JSON] | None = None) -> Usage:
    """Usage of one answer; the cached share as OpenAI and vLLM report it, or as llama.cpp does in `timings`."""
    details = raw.get("prompt_tokens_details") or {}
    cached = details.get("cached_tokens")
    if cached is None and timings:
        cached = timings.get("cache_n")
    return Usage(
        calls=1,
        prompt_tokens=raw.get("prompt_tokens") or 0,
        completion_tokens=raw.get("completion_tokens") or 0,
        cached_tokens=cached or 0,
    )


class ReplyBuilder:
    """Adds deltas up to a reply. Tool calls are put together here and parsed by nobody before the end."""

    def __init__(self, tags: tuple[str, str] | None = None) -> None:
        self._tags = tags
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[NativeCall] = []
        self._open: dict[int, NativeCall] = {}
        self._finish_reason: str | None = None
        self._usage = Usage(calls=1)

    def add(self, delta: Delta) -> None:
        """Takes the next delta of the stream."""
        if delta.text:
            self._text.append(delta.text)
        if delta.reasoning:
            self._reasoning.append(delta.reasoning)
        if delta.call is not None:
            self._add_call(delta.call)
        if delta.finish_reason:
            self._finish_reason = delta.finish_reason
        if delta.usage is not None:
            self._usage = delta.usage

    def _add_call(self, part: CallDelta) -> None:
        call = self._open.get(part.index)
        # Some servers number every call 0. A second name with a second id begins a new call; a new id alone does not,
        # because some vLLM versions draw a fresh id for each fragment.
        begins = call is not None and part.name and part.id and call.id and part.id != call.id
        if call is None or begins:
            call = NativeCall("", "", "")
            self._open[part.index] = call
            self._calls.append(call)
        call.id = call.id or part.id
        call.name = call.name or part.name
        call.arguments += part.arguments

    def reply(self, seconds: float) -> Reply:
        """The whole answer; arguments that never came are `{}`."""
        text, reasoning = "".join(self._text), "".join(self._reasoning)
        if self._tags and not reasoning and self._tags[1] in text and self._tags[0] not in text:
            # The chat template had opened the tag in the prompt; only its end is in the answer.
            reasoning, _close, text = text.partition(self._tags[1])
            text = text.lstrip()
        for call in self._calls:
            call.arguments = call.arguments if call.arguments.strip() else "{}"
        return Reply(text, reasoning.strip(), self._calls, self._finish_reason, self._usage, seconds)


def reply_of(body: bytes, tags: tuple[str, str] | None, seconds: float) -> Reply:
    """The reply in the body of a `chat.completion` that was not streamed. Raises `ModelBroke` when it is none."""
    decoder = StreamDecoder(tags)
    builder = ReplyBuilder(tags)
    event = _json(body)
    if not isinstance(event, dict) or not (event.get("choices") or event.get("error")):
        raise ModelBroke(f"the model server's answer has no choices: {body[:80].decode(errors='replace')}")
    for delta in decoder.whole(event):
        builder.add(delta)
    return builder.reply(seconds)


def _stream_error(event: JSON) -> ModelError:
    if not isinstance(event, dict):
        return ModelBroke(f"the model server sent an event that is no object: {str(event)[:80]}")
    error = event.get("error")
    code = error.get("code") if isinstance(error, dict) else event.get("code")
    found = server_error(code if isinstance(code, int) else 500, encode(event))
    if isinstance(found, ContextOverflow):
        return found
    return ModelBroke(f"the model server broke off: {found.message}", status=found.status, retryable=True)
