"""What a model server can really do, asked with three tiny requests instead of believed from names."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import struct
import tempfile
import time
import zlib
from dataclasses import asdict, fields
from pathlib import Path

from orion.errors import ContextOverflow, ModelBroke, ModelError
from orion.model import Ask, Model, OpenAIModel, Reply
from orion.profiles import Capabilities
from orion.run import JSON
from orion.types import Message

PROBE_SECONDS = 60.0
"""Longest wait for each of the three answers."""
CACHE_SECONDS = 7 * 86400.0
"""After this an answer is asked for anew: servers get upgraded and restarted with other flags."""
REFUSED = frozenset({400, 413, 415, 422, 500, 501})
"""Statuses that mean "not this": 500 is what llama.cpp says to an image without a vision model."""
PIXELS = 448
IMAGE_TOKENS_MIN = 48
"""A prompt with the picture that counts fewer tokens did not hold it: every known family needs 196 or more."""

__all__ = ["Capabilities", "probe"]

log = logging.getLogger("orion")


async def probe(model: Model, cache_dir: Path | None = None, *, seconds: float = 3 * PROBE_SECONDS) -> Capabilities:
    """Asks the server, once per server and model; later answers come from a file in `cache_dir`.

    `seconds` bounds the three requests together.

    Raises `ModelError` when the server cannot be asked (unreachable, wrong key, busy, silent); nothing is cached then.
    """
    key = f"{getattr(model, 'identity', '')}#{model.name}"
    path = _path(cache_dir, key) if cache_dir is not None else None
    if path is not None and (known := _read(path, key)) is not None:
        return known
    end = time.monotonic() + seconds
    schema = await _ask(model, _schema_ask(), end)
    tools = await _ask(model, _tools_ask(), end)
    images = await _ask(model, _image_ask(), end)
    found = Capabilities(
        schema=schema is not None and _is_bound(schema.text),
        tools=tools is not None and _is_called(tools),
        images=images is not None and _has_seen(images),
        context=await model.server_context() if isinstance(model, OpenAIModel) else model.context,
    )
    if path is not None:
        _write(path, key, found)
    return found


async def _ask(model: Model, ask: Ask, end: float) -> Reply | None:
    """The reply, or None when the server refuses such a request or breaks over it."""
    try:
        return await model.complete(ask, seconds=max(min(PROBE_SECONDS, end - time.monotonic()), 0.1))
    except ContextOverflow:
        raise
    except ModelError as error:
        if error.status in REFUSED or (isinstance(error, ModelBroke) and error.message.startswith("runaway")):
            return None
        raise


def _schema_ask() -> Ask:
    # No model says this by itself, and the schema leaves nothing else to say.
    schema: dict[str, JSON] = {
        "type": "object",
        "properties": {"q7x": {"enum": ["vu3"]}},
        "required": ["q7x"],
        "additionalProperties": False,
    }
    return Ask([Message.text("user", "Say hello.")], 24, schema=schema)


def _is_bound(text: str) -> bool:
    try:
        return bool(json.loads(text) == {"q7x": "vu3"})
    except ValueError:
        return False


def _tools_ask() -> Ask:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    function = {"name": "get_weather", "description": "The weather of a city.", "parameters": parameters}
    question = Message.text("user", "What is the weather in Paris? Call get_weather.")
    return Ask([question], 64, tools=[{"type": "function", "function": function}], tool_choice="auto")


def _is_called(reply: Reply) -> bool:
    try:
        return any(call.name == "get_weather" and "city" in json.loads(call.arguments) for call in reply.calls)
    except (ValueError, TypeError):
        return False


def _image_ask() -> Ask:
    picture = _png(PIXELS, (220, 30, 30))
    return Ask([Message.user("Which colour?", [(picture, "image/png", PIXELS, PIXELS)])], 4)


def _has_seen(reply: Reply) -> bool:
    """True unless the server counted a prompt too short to hold the picture: some drop images without a word."""
    return reply.usage.prompt_tokens == 0 or reply.usage.prompt_tokens >= IMAGE_TOKENS_MIN


def _png(side: int, colour: tuple[int, int, int]) -> bytes:
    """A square PNG of one colour, without an imaging library."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = (b"\0" + bytes(colour) * side) * side
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", zlib.compress(rows, 9)) + part(b"IEND", b"")


def _path(cache_dir: Path, key: str) -> Path:
    return cache_dir / "capabilities" / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"


def _read(path: Path, key: str) -> Capabilities | None:
    """What was cached under `key`, None when there is nothing, it is old, or it cannot be read."""
    try:
        data = json.loads(path.read_bytes())
        known = Capabilities(**{field.name: data["capabilities"][field.name] for field in fields(Capabilities)})
        age = time.time() - float(data["asked"])
        flags = (known.schema, known.tools, known.images)
        if not all(isinstance(flag, bool) for flag in flags) or not isinstance(known.context, int | None):
            raise TypeError("wrong types")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("the cached capabilities in %s cannot be read (%s); asking the model again", path, error)
        return None
    return known if data["key"] == key and 0 <= age < CACHE_SECONDS else None


def _write(path: Path, key: str, found: Capabilities) -> None:
    """Writes whole or not at all, also beside another process; a full disk costs only the next probe."""
    data = json.dumps({"key": key, "asked": time.time(), "capabilities": asdict(found)})
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False) as file:
            temporary = Path(file.name)
            file.write(data)
        os.replace(temporary, path)
    except OSError as error:
        log.warning("the capabilities of the model cannot be cached in %s: %s", path.parent, error)
        if temporary is not None:
            temporary.unlink(missing_ok=True)
