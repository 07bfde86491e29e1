"""The image toolset: cutting, turning and scaling, text by OCR, bar codes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated, Any

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field

from orion.errors import ToolRetry
from orion.geometry import crop_transform, resize_transform, rotate_transform
from orion.tools import Look, Toolset, tool
from orion.toolsets import codes, ocr
from orion.toolsets.codes import Code
from orion.toolsets.ocr import OcrText

MIN_SIDE = 28  # px; vision models refuse smaller crops
MIN_ROOM = 80  # characters of text a first look shows whatever its budget
MAX_PIXELS = 100_000_000  # of a resized or turned image


class Deskewed(BaseModel):
    """A levelled image and the counter-clockwise angle it was turned by."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    image: Image.Image
    degrees: float


class Upright(BaseModel):
    """An image turned so that its text stands upright, and the counter-clockwise turn (0, 90, 180 or 270)."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    image: Image.Image
    degrees: int


@tool
def crop(image: Image.Image, x: float, y: float, width: float, height: float) -> Image.Image:
    """Cut out a box, given as fractions of the image (0 to 1) from the top left.

    Args:
        x: left edge, 0-1 (or pixels, when width and height are larger than 1).
        y: top edge, 0-1 (or pixels).
        width: 0-1 (or pixels).
        height: 0-1 (or pixels).

    Returns:
        The part inside the image, grown to at least 28 px a side.

    >>> crop(Image.new("RGB", (200, 100)), x=0.5, y=0.5, width=0.5, height=0.5).size
    (100, 50)
    """
    if width <= 0 or height <= 0:
        raise ToolRetry(f"crop: width and height must be above 0, got {width:g} and {height:g}")
    pixels = width > 1 and height > 1
    if not pixels and (width > 1 or height > 1 or x > 1 or y > 1):
        raise ToolRetry("crop: give all four values as fractions from 0 to 1, or all in pixels")
    across, down = (1, 1) if pixels else image.size
    left, right = _grown(x * across, (x + width) * across, image.width)
    top, bottom = _grown(y * down, (y + height) * down, image.height)
    if left >= right or top >= bottom:
        raise ToolRetry(f"crop: the box lies outside the image of {image.width}x{image.height} px")
    part = image.crop((left, top, right, bottom))
    part.info = {"transform": crop_transform(left, top)}
    return part


def _grown(start: float, end: float, length: int) -> tuple[int, int]:
    """Whole pixels inside 0..length, at least MIN_SIDE of them where the image has as many."""
    low, high = max(0, int(start)), min(length, round(end))
    if low >= high:
        return low, high
    missing = min(MIN_SIDE, length) - (high - low)
    if missing > 0:
        low = min(max(0, low - missing // 2), length - min(MIN_SIDE, length))
        high = low + min(MIN_SIDE, length)
    return low, high


@tool
def rotate(image: Image.Image, degrees: float) -> Image.Image:
    """Turn an image counter-clockwise; it grows so that nothing is cut off.

    Args:
        degrees: counter-clockwise; 90 turns the right side to the top, negative turns clockwise.

    >>> rotate(Image.new("RGB", (200, 100)), degrees=90).size
    (100, 200)
    """
    transform, size = rotate_transform(degrees, *image.size)
    if size[0] * size[1] > MAX_PIXELS:
        raise ToolRetry(f"rotate: {size[0]}x{size[1]} px would be too large; crop or resize first")
    fill = _paper(image) if degrees % 90 else None
    turned = image.rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor=fill)
    turned.info = {"transform": transform}
    return turned


def _paper(image: Image.Image) -> Any:
    """The colour of the border, which new corners are filled with."""
    small = image.resize((16, 16), Image.Resampling.BOX)
    edge = [small.getpixel((x, y)) for x in range(16) for y in range(16) if x in (0, 15) or y in (0, 15)]
    return max(set(edge), key=lambda colour: (edge.count(colour), str(colour)))


@tool
def resize(
    image: Image.Image,
    width: Annotated[int, Field(ge=1, le=20_000)] | None = None,
    height: Annotated[int, Field(ge=1, le=20_000)] | None = None,
    scale: Annotated[float, Field(gt=0, le=16)] | None = None,
) -> Image.Image:
    """Scale an image by a factor, or to a width or height in pixels.

    Args:
        width: new width in px; alone, the height follows in proportion.
        height: new height in px; alone, the width follows in proportion.
        scale: factor, e.g. 2 doubles both sides; not together with width or height.

    >>> resize(Image.new("RGB", (200, 100)), width=50).size
    (50, 25)
    """
    if (scale is None) == (width is None and height is None):
        raise ToolRetry("resize: give either scale, or width and height in pixels (one of them is enough)")
    if scale is not None:
        size = image.width * scale, image.height * scale
    elif width is not None and height is not None:
        size = float(width), float(height)
    elif width is not None:
        size = float(width), image.height * width / image.width
    else:
        assert height is not None
        size = image.width * height / image.height, float(height)
    whole = max(1, round(size[0])), max(1, round(size[1]))
    if whole[0] * whole[1] > MAX_PIXELS:
        raise ToolRetry(f"resize: {whole[0]}x{whole[1]} px is too large; at most {MAX_PIXELS // 1_000_000} megapixels")
    scaled = image.resize(whole, Image.Resampling.LANCZOS)
    scaled.info = {"transform": resize_transform(image.size, whole)}
    return scaled


@tool(needs=("cv2", "numpy"), extra="image")
def deskew(image: Image.Image, max_degrees: Annotated[float, Field(gt=0, le=45)] = 15) -> Deskewed:
    """Level a scan or photo of text that is slightly askew.

    Args:
        max_degrees: largest angle to look for.

    Returns:
        The levelled image and the angle in degrees, 0 when the text is level.
    """
    from orion.toolsets.deskewing import skew

    degrees = skew(image, max_degrees)
    if not degrees:
        level = image.copy()
        level.info = {"transform": crop_transform(0, 0)}
        return Deskewed(image=level, degrees=0.0)
    return Deskewed(image=rotate(image, degrees), degrees=degrees)


@tool(needs=ocr.NEEDS, extra=ocr.EXTRA)
def correct_orientation(image: Image.Image) -> Upright:
    """Turn an image that lies on its side or on its head so that its text is upright.

    Returns:
        The image and the counter-clockwise turn: 0, 90, 180 or 270 degrees; 0 when it cannot be told.
    """
    degrees = ocr.orientation(image)
    return Upright(image=rotate(image, degrees), degrees=degrees)


@tool(name="ocr", needs=ocr.NEEDS, extra=ocr.EXTRA)
def read_image(image: Image.Image) -> OcrText:
    """Read the text in an image, whichever way it is turned.

    Returns:
        Text with rows and columns kept, and lines with their boxes (0-1) and confidence.
    """
    return ocr.read(image)


@tool(needs=codes.NEEDS, extra=codes.EXTRA, empty="No bar code or QR code was found.")
def read_barcodes(image: Image.Image) -> list[Code]:
    """Decode QR codes and bar codes: format, text and box.

    Returns:
        Codes from top to bottom; boxes in 0-1 of the image.
    """
    return codes.decode(image)


def look(path: Path, meta: dict[str, Any], budget_chars: int, text_only: bool) -> Look:
    """The first observation of an image: size, orientation, codes and, for a model that sees nothing, its text."""
    with Image.open(path) as opened:
        image = opened.convert("RGB")
    parts = [_size_line(image, meta)]
    covers: list[str] = []
    if _missing(codes.NEEDS):
        parts.append('codes cannot be read: pip install "orion-visual-agent[image]"')
    else:
        found = codes.decode(image)
        parts += [f"code found, {code.for_model()}" for code in found]
        covers.append("read_barcodes")
    if not text_only:
        return Look("\n".join(parts), tuple(covers))
    if _missing(ocr.NEEDS):
        parts.append(f"its text cannot be read: {ocr.INSTALL}")
        return Look("\n".join(parts), tuple(covers))
    read = ocr.read(image)
    if read.rotation:
        parts.append(f"its text was not upright; read after a turn of {read.rotation} degrees counter-clockwise")
    room = max(budget_chars - sum(map(len, parts)), MIN_ROOM)
    if len(read.text) <= room:
        parts.append(f"text:\n{read.text}" if read.text else "no text found")
        covers.append("ocr")
    else:
        end = read.text.rfind("\n", 0, room)
        cut = read.text[: end if end > room // 2 else room]
        parts.append(f"text:\n{cut}\n[cut; ocr(image) reads all {len(read.text)} characters]")
    return Look("\n".join(parts), tuple(covers))


def _missing(modules: tuple[str, ...]) -> bool:
    return any(importlib.util.find_spec(module) is None for module in modules)


def _size_line(image: Image.Image, meta: dict[str, Any]) -> str:
    line = f"image, {image.width}x{image.height} px upright (width x height)"
    orientation = meta.get("orientation") or 1
    if orientation != 1:
        line += f"; EXIF orientation {orientation} was applied"
    if (meta.get("frames") or 1) > 1:
        line += f"; frame 1 of {meta['frames']}"
    if meta.get("format"):
        line += f"; {meta['format']}"
    exif = meta.get("exif") or {}
    taken = exif.get("DateTimeOriginal") or exif.get("DateTime") if isinstance(exif, dict) else None
    return line + (f"; taken {taken}" if taken else "")


TOOLSET = Toolset(
    name="image",
    summary="crop, rotate, resize and level images; read text (OCR) and bar codes in them",
    tools=(read_image, read_barcodes, crop, rotate, resize, deskew, correct_orientation),
    media=("image",),
    look=look,
)
