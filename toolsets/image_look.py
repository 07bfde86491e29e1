"""The first look at an image: size, orientation, codes and, for a model that sees nothing, its text."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orion.errors import MediaError
from orion.media import open_image
from orion.tools import Look
from orion.toolsets import codes, ocr

if TYPE_CHECKING:
    from PIL import Image

MIN_ROOM = 80  # characters of text a first look shows whatever its budget
LOOK_FRAMES = 3  # pages or frames read in a first look


@dataclass(slots=True)
class _Seen:
    """What is told so far, and which tools could tell more."""

    parts: list[str] = field(default_factory=list)
    codes: bool = True
    """All codes of all frames were looked for."""
    text: bool = True
    """All text of all frames was read."""


def look(path: Path, meta: dict[str, Any], budget_chars: int, text_only: bool) -> Look:
    """The first observation of an image. Of several pages or frames, the first few are read from `meta["original"]`."""
    count = meta.get("frames") or 1
    image = open_image(path).convert("RGB")
    seen = _Seen([_size_line(image, meta)])
    word = "page" if meta.get("format") == "TIFF" else "frame"
    if _missing(codes.NEEDS):
        seen.parts.append('codes cannot be read: pip install "orion-visual-agent[image]"')
        seen.codes = False
    if text_only and _missing(ocr.NEEDS):
        seen.parts.append(f"its text cannot be read: {ocr.INSTALL}")
        seen.text = False
    shown = _read_frames(image, Path(meta.get("original") or path), count, word, budget_chars, text_only, seen)
    if count > 1:
        which = f"only {word} 1 is" if shown == 1 else f"{word}s 1 to {shown} are"
        rest = f"{which} shown; " if shown < count else ""
        seen.parts.append(f"[{count} {word}s; {rest}open_frame(image, frame=N) opens one as an image]")
    covers = ["read_more"]
    covers += ["read_barcodes"] if seen.codes else []
    covers += ["ocr"] if text_only and seen.text else []
    covers += ["open_frame"] if count == 1 else []
    return Look("\n".join(seen.parts), tuple(covers), whole=seen.codes and seen.text and shown == count)


def _read_frames(
    first: Image.Image, original: Path, count: int, word: str, budget: int, text_only: bool, seen: _Seen
) -> int:
    """Tells codes and text of the first frames and how many of them there are told of."""
    for number in range(1, min(count, LOOK_FRAMES if text_only else 1) + 1):
        room = budget - sum(map(len, seen.parts))
        if number > 1 and room < MIN_ROOM:
            return number - 1
        if count > 1:
            seen.parts.append(f"{word} {number}:")
        try:
            image = first if number == 1 else open_image(original, frame=number - 1).convert("RGB")
        except MediaError as error:  # the frames before it are good
            seen.parts.append(f"cannot be read: {error}")
            continue
        if not _missing(codes.NEEDS):
            seen.parts += [f"code found, {code.for_model()}" for code in codes.decode(image)]
        if text_only and not _missing(ocr.NEEDS):
            _read_text(image, max(room, MIN_ROOM), seen, titled=count > 1)
    return number


def _read_text(image: Image.Image, room: int, seen: _Seen, *, titled: bool) -> None:
    read = ocr.read(image)
    if read.rotation:
        seen.parts.append(f"its text was not upright; read after a turn of {read.rotation} degrees counter-clockwise")
    if not read.text:
        seen.parts.append("no text found")
        return
    head = "" if titled else "text:\n"
    if len(read.text) <= room:
        seen.parts.append(f"{head}{read.for_model()}")
        return
    end = read.text.rfind("\n", 0, room)
    cut = read.text[: end if end > room // 2 else room]
    seen.parts.append(f"{head}{cut}\n[cut; ocr(image) reads all {len(read.text)} characters]")
    seen.text = False


def _missing(modules: tuple[str, ...]) -> bool:
    return any(importlib.util.find_spec(module) is None for module in modules)


def _size_line(image: Image.Image, meta: dict[str, Any]) -> str:
    line = f"image, {image.width}x{image.height} px"
    orientation = meta.get("orientation") or 1
    if orientation != 1:
        line += f" upright (width x height); EXIF orientation {orientation} was applied"
    if meta.get("format"):
        line += f"; {meta['format']}"
    exif = meta.get("exif") or {}
    taken = exif.get("DateTimeOriginal") or exif.get("DateTime") if isinstance(exif, dict) else None
    return line + (f"; taken {taken}" if taken else "")
