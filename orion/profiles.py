"""What is true of a model, as data: of its family (a profile), and of one server (its capabilities)."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Literal

from pydantic import BaseModel, ConfigDict

from orion.run import JSON

SMALL_BILLIONS = 3.0  # a thought before the action hurts models up to this size: -3 of 15 right arguments when measured
RATIO_MAX = 200  # Qwen's image processors refuse longer strips


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Patches(_Data):
    """An image is cut into squares; one token each, after a resize to multiples of `side`."""

    kind: Literal["patches"] = "patches"
    side: int
    """Pixels of a square that becomes one token (patch size times spatial merge)."""
    min_pixels: int = 0
    max_pixels: int = 0
    """0 = no bound."""
    max_side: int = 0
    """Longest side in pixels after the resize; 0 = no bound."""
    round_up: bool = False
    """True: sides are rounded up to the multiple instead of to the nearest."""
    per_row: int = 0
    """Extra tokens at the end of each row."""
    extra: int = 0
    """Extra tokens of an image: start and end marks."""


class Tiles(_Data):
    """An image is cut into tiles of `side` pixels, each worth `tokens`."""

    kind: Literal["tiles"] = "tiles"
    side: int
    tokens: int
    max_tiles: int
    extra: int = 0
    """Tokens of the thumbnail or base view; with one tile it counts only if `extra_single`."""
    extra_single: bool = True
    fit_long: int = 0
    """The image is first shrunk so that its longer side is at most this; 0 = not."""
    fit_short: int = 0
    """… and its shorter side at most this; 0 = not."""


class Fixed(_Data):
    """Every image costs the same."""

    kind: Literal["fixed"] = "fixed"
    tokens: int


class Area(_Data):
    """An image costs its pixels divided by `pixels_per_token`, after shrinking to `max_side`."""

    kind: Literal["area"] = "area"
    pixels_per_token: int
    max_side: int


Coordinates = Literal["rel1000_xyxy", "rel1000_yxyx", "abs_resized_xyxy"]


class Profile(_Data):
    """A model family. What is unknown is None, never guessed."""

    family: str
    match: tuple[str, ...] = ()
    """Regular expressions searched in the lower-case served name; the first profile that matches is taken."""
    actions: Literal["schema", "native"] = "schema"
    """How to ask for an action unless the caller says otherwise."""
    tool_syntax: Literal["hermes", "qwen_xml", "json", "pythonic", "mistral", "native"] = "json"
    """The form in which the family writes calls into text: what salvage meets."""
    tool_parser: str | None = None
    """vLLM's `--tool-call-parser`."""
    reasoning_parser: str | None = None
    """vLLM's `--reasoning-parser`."""
    think_tags: tuple[str, str] | None = None
    """Tags around the thinking inside `content` when the server does not split it off."""
    no_thinking: dict[str, JSON] = {}
    """Body fields that turn thinking off; sent with every call that has a schema."""
    max_thought: int = 0
    """Characters of a `thought` before an action; 0 = none."""
    vision: bool | None = None
    """Does it see images? None: it depends on the model, ask the server (`orion.capabilities`)."""
    coordinates: Coordinates | None = None
    """Units and order of the boxes it writes: 0–1000 of the image, or pixels of the resized image."""
    image: Patches | Tiles | Fixed | Area = Patches(side=28, extra=2)
    """What an image costs."""
    max_images: int | None = None
    """Images of one request, if the family has a limit."""
    chars_per_token: float = 3.5
    """Characters of English prose and JSON a token; a careful (low) estimate."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """`schema`: answers are bound to a JSON schema. `tools`: calls arrive parsed. `context`: tokens, None if untold."""

    schema: bool
    tools: bool
    images: bool
    context: int | None


def profile_for(name: str) -> Profile:
    """The profile of a served model name, a file name or `provider/model`; the generic one when nothing matches.

    >>> profile_for("Qwen/Qwen2.5-VL-7B-Instruct").coordinates
    'abs_resized_xyxy'
    >>> profile_for("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf").max_thought
    0
    >>> profile_for("my-own-model").family
    'generic'
    """
    lower = name.lower()
    profile = next((p for p in _profiles() if any(re.search(pattern, lower) for pattern in p.match)), _profiles()[-1])
    size = billions(name)
    if profile.max_thought and (size is None or size <= SMALL_BILLIONS) and profile.actions == "schema":
        return profile.model_copy(update={"max_thought": 0})
    return profile


def billions(name: str) -> float | None:
    """Parameters in billions as written in a model's name.

    >>> billions("Qwen2.5-Coder-1.5B-Instruct"), billions("SmolLM2-135M"), billions("phi-4")
    (1.5, 0.135, None)
    """
    found = re.search(r"(?<![a-z0-9.])(?:\d+x)?(\d+(?:\.\d+)?)([bm])(?![a-z0-9])", name.lower())
    if found is None:
        return None
    return float(found[1]) / (1 if found[2] == "b" else 1000)


def model_size(profile: Profile, width: int, height: int) -> tuple[int, int]:
    """Width and height in pixels of an image as the model sees it; unchanged where the family does not resize.

    Send images in this size to families with `abs_resized_xyxy`, so that the boxes they write are in sent pixels.

    >>> model_size(profile_for("qwen2.5-vl"), 900, 600)
    (896, 588)
    """
    _check(width, height)
    maths = profile.image
    if isinstance(maths, Patches):
        return _to_multiple(maths, width, height)
    if isinstance(maths, Area):
        return _shrink(width, height, maths.max_side, 0)
    return width, height


def image_tokens(profile: Profile, width: int, height: int) -> int:
    """Prompt tokens of one image of `width` × `height` pixels.

    >>> image_tokens(profile_for("qwen2.5-vl"), 900, 600)
    674
    """
    _check(width, height)
    maths = profile.image
    if isinstance(maths, Fixed):
        return maths.tokens
    if isinstance(maths, Area):
        w, h = _shrink(width, height, maths.max_side, 0)
        return math.ceil(w * h / maths.pixels_per_token)
    if isinstance(maths, Patches):
        w, h = _to_multiple(maths, width, height)
        rows = h // maths.side
        return rows * (w // maths.side) + rows * maths.per_row + maths.extra
    return _tile_tokens(maths, width, height)


def _check(width: int, height: int) -> None:
    if width < 1 or height < 1:
        raise ValueError(f"an image has at least one pixel a side, got {width} x {height}")


def _shrink(width: int, height: int, long: int, short: int) -> tuple[int, int]:
    scale = 1.0
    if long:
        scale = min(scale, long / max(width, height))
    if short:
        scale = min(scale, short / min(width, height))
    return max(1, round(width * scale)), max(1, round(height * scale))


def _to_multiple(maths: Patches, width: int, height: int) -> tuple[int, int]:
    """The resize of the Qwen-VL processors: multiples of `side`, the ratio kept, the area within bounds."""
    side = maths.side
    if maths.max_side:
        width, height = _shrink(width, height, maths.max_side, 0)
    fit = math.ceil if maths.round_up else round
    w, h = max(side, fit(width / side) * side), max(side, fit(height / side) * side)
    if maths.max_pixels and w * h > maths.max_pixels:
        shrink = math.sqrt(width * height / maths.max_pixels)
        w = max(side, math.floor(width / shrink / side) * side)
        h = max(side, math.floor(height / shrink / side) * side)
    elif maths.min_pixels and w * h < maths.min_pixels:
        grow = math.sqrt(maths.min_pixels / (width * height))
        w, h = math.ceil(width * grow / side) * side, math.ceil(height * grow / side) * side
    return min(w, h * RATIO_MAX), min(h, w * RATIO_MAX)


def _tile_tokens(maths: Tiles, width: int, height: int) -> int:
    if maths.fit_long or maths.fit_short:
        width, height = _shrink(width, height, maths.fit_long, maths.fit_short)
    tiles = min(maths.max_tiles, math.ceil(width / maths.side) * math.ceil(height / maths.side))
    extra = maths.extra if tiles > 1 or maths.extra_single else 0
    return tiles * maths.tokens + extra


@lru_cache(maxsize=1)
def _profiles() -> tuple[Profile, ...]:
    data = json.loads(files("orion.data").joinpath("profiles.json").read_text("utf-8"))
    return tuple(Profile.model_validate(entry) for entry in data)
