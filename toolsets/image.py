"""The image toolset: cutting, turning and scaling, text by OCR, bar codes, further frames."""

from __future__ import annotations

from typing import Annotated, Any

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field

from orion.errors import MediaError, ToolFailed, ToolRetry
from orion.geometry import crop_transform, resize_transform, rotate_transform
from orion.media import decode, open_image
from orion.tools import ImageFile, Toolset, tool
from orion.toolsets import codes, ocr
from orion.toolsets.codes import Code
from orion.toolsets.image_look import look
from orion.toolsets.ocr import OcrText

MIN_SIDE = 28  # px; vision models refuse smaller crops
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
    """Cut out a box, in fractions (0 to 1) from the top left.

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
    """Scale an image by a factor, or to a size in pixels.

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
    """Level a scan or photo of text that is askew.

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
    """Turn an image by quarters so that its text is upright.

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


@tool
def open_frame(image: ImageFile, frame: Annotated[int, Field(ge=1)]) -> Image.Image:
    """Open a further page or frame of an image.

    Args:
        frame: page of a TIFF or frame of an animation, from 1.

    Returns:
        The page or frame, upright.
    """
    try:
        return open_image(image, frame=frame - 1)
    except MediaError as error:
        if error.code != "unsupported":
            raise ToolFailed(f"frame {frame} cannot be read: {error.message}") from error
        count = decode(image).frames
        raise ToolRetry(f"there is no frame {frame}: the image has {count} frame{'s' if count > 1 else ''}") from error


TOOLSET = Toolset(
    name="image",
    summary="crop, rotate, resize and level images; read text (OCR) and bar codes in them",
    tools=(read_image, read_barcodes, crop, rotate, resize, deskew, correct_orientation, open_frame),
    media=("image",),
    look=look,
)
