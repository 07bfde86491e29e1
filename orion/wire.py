"""The OpenAI chat wire format as data: what is asked, what comes back, what an error says. No network here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from orion.errors import ContextOverflow, ModelError
from orion.run import JSON, Usage
from orion.types import Message, encode

Dialect = Literal["llguidance", "llamacpp", "xgrammar", "plain"]
"""How a server is bound to a JSON schema: the embedded engine's own grammar field, llama.cpp's and vLLM's
`response_format`; "plain" when nothing is known about it."""

COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""JSON on one line, as LLGuidance's `x-guidance`: the 1.5 B model otherwise indents, at 18 to 50 % more."""

REPETITION = "repetition"
"""`finish_reason` of an answer that was ended because it said the same over and over."""
CUT = frozenset({"length", REPETITION})
"""Finish reasons of answers that are not whole: never acted upon."""

OnText = Callable[[str], None]
"""Called with each piece of an answer's text as it comes."""

ERROR_CHARS_MAX = 600
"""Characters of a server's own error message that are passed on."""
OVERFLOW_MARKS = (
    "exceeds the available context size",  # llama.cpp
    "exceed_context_size",  # llama.cpp, the error's type
    "maximum context length",  # vLLM, OpenAI
    "context_length_exceeded",  # OpenAI, the error's code
    "longer than the maximum model length",  # vLLM
    "prompt is too long",  # Anthropic
)
RETRYABLE_STATUS = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to a model."""

    messages: Sequence[Message]
    max_tokens: int
    temperature: float = 0.0
    schema: dict[str, JSON] | None = None
    """Sent as `response_format` json_schema: the answer is bound to it from its first token."""
    tools: Sequence[dict[str, JSON]] = ()
    """OpenAI function tools, sorted by name."""
    tool_choice: Literal["auto", "none", "required"] | None = None
    stop: Sequence[str] = ()
    extra: Mapping[str, JSON] = field(default_factory=dict)
    """Further body fields: sampling, `chat_template_kwargs`. They win over all others."""


@dataclass(slots=True)
class NativeCall:
    """A tool call given by the protocol; `arguments` is the raw JSON text, `name` is empty when the server lost it."""

    id: str
    name: str
    arguments: str


@dataclass(slots=True)
class CallDelta:
    """A fragment of a tool call; fragments of one `index` belong together."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class Delta:
    """What one chunk of a stream brought."""

    text: str = ""
    reasoning: str = ""
    call: CallDelta | None = None
    finish_reason: str | None = None
    usage: Usage | None = None


@dataclass(slots=True)
class Reply:
    """A whole answer. `seconds` is wall-clock time, retries included; `usage.calls` counts the answers begun."""

    text: str = ""
    reasoning: str = ""
    calls: list[NativeCall] = field(default_factory=list)
    finish_reason: str | None = None
    usage: Usage = field(default_factory=lambda: Usage(calls=1))
    seconds: float = 0.0


def request_body(
    ask: Ask, model: str, *, stream: bool, defaults: Mapping[str, JSON] | None = None, dialect: Dialect = "plain"
) -> bytes:
    """The request as JSON. Messages stand first, so that an appended transcript keeps the bytes before it.

    `defaults` are body fields for calls with a schema (thinking off); `ask.extra` overrides them.

    >>> request_body(Ask([Message.text("user", "hi")], 5), "m", stream=False)
    b'{"messages":[{"role":"user","content":"hi"}],"model":"m","max_tokens":5,"temperature":0.0,"stream":false}'
    """
    rest = options(ask, defaults)
    if dialect == "llguidance" and ask.schema is not None:
        del rest["response_format"]
        schema = encode({**ask.schema, "x-guidance": COMPACT}).decode()
        rest["grammar"] = f"%llguidance {{}}\nstart: %json {schema}\n"
    rest = {"model": model, **rest, "stream": stream}
    if stream:
        rest["stream_options"] = {"include_usage": True}
    rest.update(ask.extra)
    return b'{"messages":[' + b",".join([message.body for message in ask.messages]) + b"]," + encode(rest)[1:]


def options(ask: Ask, defaults: Mapping[str, JSON] | None = None) -> dict[str, JSON]:
    """Every body field of `ask` but the messages, the model and `ask.extra`."""
    fields: dict[str, JSON] = {"max_tokens": ask.max_tokens, "temperature": ask.temperature}
    if ask.tools:
        fields["tools"] = list(ask.tools)
    if ask.tool_choice is not None:
        fields["tool_choice"] = ask.tool_choice
    if ask.schema is not None:
        json_schema = {"name": "answer", "strict": True, "schema": ask.schema}
        fields["response_format"] = {"type": "json_schema", "json_schema": json_schema}
        fields.update(defaults or {})
    if ask.stop:
        fields["stop"] = list(ask.stop)
    return fields


def server_error(status: int, body: bytes, model: str = "") -> ModelError:
    """The typed error of an HTTP status and the server's own words.

    >>> server_error(401, b'{"error":{"message":"no such key"}}')
    ModelError('the model server answered 401: no such key')
    """
    words = error_words(body)
    message = f"the model server answered {status}: {words}" if words else f"the model server answered {status}"
    lower = body.decode(errors="replace").lower()
    if status not in (401, 403) and any(mark in lower for mark in OVERFLOW_MARKS):
        return ContextOverflow(message, status=status, fix="Send less, or serve the model with a longer context.")
    fix = None
    if status in (401, 403):
        fix = "Set ORION_MODEL_KEY to the server's key."
    elif status == 404:
        name = f" (now {model})" if model else ""
        fix = f"Set ORION_MODEL to a name this server serves{name}, and ORION_MODEL_URL with its /v1."
    return ModelError(message, status=status, retryable=status in RETRYABLE_STATUS, fix=fix)


def error_words(body: bytes) -> str:
    """The message inside an error body of OpenAI's, vLLM's, llama.cpp's or FastAPI's shape; else its text."""
    try:
        value = json.loads(body)
    except ValueError:
        return body.decode(errors="replace").strip()[:ERROR_CHARS_MAX]
    while isinstance(value, dict):
        value = value.get("error") or value.get("message") or value.get("detail") or encode(value).decode()
    return (value if isinstance(value, str) else encode(value).decode())[:ERROR_CHARS_MAX]
