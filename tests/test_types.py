"""Messages: their bytes are made once, are JSON, and count what the context needs to know."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion.run import Call
from orion.types import ImageSize, Message, encode

PNG = (b"\x89PNG", "image/png", 30, 20)
DATA = f"data:image/png;base64,{base64.b64encode(PNG[0]).decode()}"


@pytest.mark.parametrize(
    ("message", "wire", "chars"),
    [
        (Message.text("system", "Hi é"), {"role": "system", "content": "Hi é"}, 4),
        (Message.text("user", ""), {"role": "user", "content": ""}, 0),
        (
            Message.user("Look:", [PNG]),
            {
                "role": "user",
                "content": [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": DATA}}],
            },
            5,
        ),
        (
            Message.user("", [PNG]),
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": DATA}}]},
            0,
        ),
        (Message.assistant("Yes."), {"role": "assistant", "content": "Yes."}, 4),
        (Message.assistant(""), {"role": "assistant", "content": ""}, 0),
        (
            Message.assistant("", [Call(tool="add", arguments={"a": 1}, id="c1")]),
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}},
                ],
            },
            10,
        ),
        (Message.tool("c1", "3"), {"role": "tool", "tool_call_id": "c1", "content": "3"}, 1),
    ],
)
def test_the_wire_form(message: Message, wire: dict[str, Any], chars: int) -> None:
    assert json.loads(message.body) == wire
    assert list(json.loads(message.body)) == list(wire)
    assert message.chars == chars
    assert message.role == wire["role"]


def test_sizes_of_pictures_are_known() -> None:
    assert Message.user("x", [PNG, (b"x", "image/jpeg", 5, 6)]).images == (ImageSize(30, 20), ImageSize(5, 6))


def test_what_stays_of_a_message() -> None:
    left = Message.user("Look:", [PNG]).with_text("[img_1 was shown here]")
    assert json.loads(left.body) == {"role": "user", "content": "[img_1 was shown here]"}
    assert (left.images, left.chars) == ((), 22)
    answered = Message.tool("c1", "long").with_text("[left out]")
    assert json.loads(answered.body) == {"role": "tool", "tool_call_id": "c1", "content": "[left out]"}


def test_messages_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Message.text("user", "x").body = b""  # type: ignore[misc]


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({"b": [1, 2.5, None, True]}, b'{"b":[1,2.5,null,true]}'),
        ("\ud83d\ude00", '"\U0001f600"'.encode()),
        ("a\ud800b", '"a\ufffdb"'.encode()),
        ({"\udfff": "\x00"}, '{"\ufffd":"\\u0000"}'.encode()),
    ],
)
def test_encode(value: Any, data: bytes) -> None:
    assert encode(value) == data


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_json_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode(value)


@given(st.text(st.characters()))
def test_any_text_makes_a_message(text: str) -> None:
    said = json.loads(Message.text("user", text).body)["content"]
    whole = not any("\ud800" <= char <= "\udfff" for char in text)
    assert said == text or not whole
