from __future__ import annotations

import json
from itertools import pairwise

import pytest

from orion.errors import ContextOverflow, ModelError
from orion.types import Message
from orion.wire import Ask, request_body, server_error


def test_a_request_is_a_byte_prefix_of_the_next() -> None:
    messages = [Message.text("system", "be brief"), Message.text("user", "hé"), Message.text("assistant", "ok")]
    bodies = [request_body(Ask(messages[:n], 9), "m", stream=False) for n in (1, 2, 3)]
    for earlier, later in pairwise(bodies):
        end = earlier.index(b'],"model"')
        assert later.startswith(earlier[:end] + b",")


def test_a_request_with_everything() -> None:
    ask = Ask(
        [Message.text("user", "hi")],
        7,
        temperature=0.5,
        schema={"type": "string"},
        tools=[{"type": "function", "function": {"name": "f"}}],
        tool_choice="none",
        stop=["END"],
        extra={"seed": 3, "temperature": 0.1},
    )
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    assert json.loads(request_body(ask, "m", stream=True, defaults=off)) == {
        "messages": [{"role": "user", "content": "hi"}],
        "model": "m",
        "max_tokens": 7,
        "temperature": 0.1,
        "stream": True,
        "stream_options": {"include_usage": True},
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": {"type": "string"}},
        },
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "tool_choice": "none",
        "stop": ["END"],
        "seed": 3,
        **off,
    }


def test_thinking_is_turned_off_only_with_a_schema() -> None:
    plain = Ask([Message.text("user", "hi")], 7)
    assert b"enable_thinking" not in request_body(plain, "m", stream=False, defaults={"enable_thinking": False})


@pytest.mark.parametrize(
    ("status", "body", "kind", "says"),
    [
        (400, b'{"error":{"message":"max_tokens must be positive"}}', ModelError, "400: max_tokens must be positive"),
        (400, b'{"error":{"message":"the request exceeds the available context size"}}', ContextOverflow, "Send less"),
        (400, b'{"object":"error","message":"This model\'s maximum context length is 8192"}', ContextOverflow, "8192"),
        (400, b'{"error":{"type":"exceed_context_size_error","message":"too long"}}', ContextOverflow, "too long"),
        (401, b'{"error":{"message":"Invalid API Key"}}', ModelError, "ORION_MODEL_KEY"),
        (403, b"", ModelError, "ORION_MODEL_KEY"),
        (404, b'{"detail":"Not Found"}', ModelError, "ORION_MODEL"),
        (500, b"<html>oops</html>", ModelError, "oops"),
    ],
)
def test_typed_errors(status: int, body: bytes, kind: type[ModelError], says: str) -> None:
    error = server_error(status, body, "m")
    assert type(error) is kind
    assert error.status == status
    assert says in str(error)


def test_a_long_error_page_is_cut() -> None:
    assert len(str(server_error(500, b"x" * 10**6))) < 1000
