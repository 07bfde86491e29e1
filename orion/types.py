"""One chat message of the OpenAI wire format, encoded to JSON once."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass

from orion.run import JSON, Call


def encode(value: JSON) -> bytes:
    """Canonical JSON: no blanks, UTF-8, keys in the order given.

    >>> encode({"b": 1, "a": "é"})
    b'{"b":1,"a":"\\xc3\\xa9"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return text.encode()
    except UnicodeEncodeError:  # halves of surrogate pairs, which no UTF-8 can hold: joined or replaced by U+FFFD
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


@dataclass(frozen=True, slots=True)
class ImageSize:
    """Pixels of an image as it is sent."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Message:
    """A message whose bytes never change, so that one request stays a byte prefix of the next.

    >>> Message.text("user", "hi").body
    b'{"role":"user","content":"hi"}'
    """

    role: str
    body: bytes
    chars: int
    """Characters of text, tool names and arguments; image data does not count."""
    images: tuple[ImageSize, ...] = ()

    @classmethod
    def text(cls, role: str, text: str) -> Message:
        """A plain text message."""
        return cls(role, encode({"role": role, "content": text}), len(text))

    @classmethod
    def user(cls, text: str, images: Sequence[tuple[bytes, str, int, int]]) -> Message:
        """Text followed by images, each `(bytes, media type, width px, height px)`."""
        parts: list[JSON] = [{"type": "text", "text": text}] if text else []
        for data, media_type, _width, _height in images:
            url = f"data:{media_type};base64,{base64.b64encode(data).decode()}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
        sizes = tuple(ImageSize(width, height) for _data, _type, width, height in images)
        return cls("user", encode({"role": "user", "content": parts}), len(text), sizes)

    @classmethod
    def assistant(cls, text: str, calls: Sequence[Call] = ()) -> Message:
        """What the model said; `calls` are native tool calls with their server ids."""
        wire: dict[str, JSON] = {"role": "assistant", "content": text if text or not calls else None}
        chars = len(text)
        if calls:
            wire["tool_calls"] = []
            for call in calls:
                arguments = encode(call.arguments).decode()
                chars += len(call.tool) + len(arguments)
                function = {"name": call.tool, "arguments": arguments}
                wire["tool_calls"].append({"id": call.id, "type": "function", "function": function})
        return cls("assistant", encode(wire), chars)

    @classmethod
    def tool(cls, call_id: str, text: str) -> Message:
        """The observation of one native tool call."""
        return cls("tool", encode({"role": "tool", "tool_call_id": call_id, "content": text}), len(text))

    def with_text(self, text: str) -> Message:
        """The same message with other text and without images: what stays of one that had to leave."""
        wire = json.loads(self.body)
        return Message(self.role, encode({**wire, "content": text}), len(text))
