"""Bar codes and QR codes: the decoder, and what to try when it finds nothing at first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from orion.geometry import Box, Transform, apply, resize_transform, rotate_transform

if TYPE_CHECKING:
    from PIL import Image

NEEDS = ("zxingcpp",)
EXTRA = "image"
LONG_SIDE = 3000  # px; larger pictures are reduced first
SMALL = 1200  # px; smaller pictures are also tried enlarged
TURNS = (15, 30, 45, 60, 75)  # degrees; the decoder itself tries quarter turns


class Code(BaseModel):
    """One decoded code; `box` is the upright rectangle around it in 0–1 of the image."""

    format: str
    text: str
    box: Box

    def for_model(self) -> str:
        """Format and content."""
        return f"{self.format}: {self.text}"


def decode(image: Image.Image, thorough: bool = True) -> list[Code]:
    """All codes, top to bottom. `thorough` goes on with other scales, contrasts and angles when none is found."""
    import zxingcpp

    found: dict[tuple[str, str], Code] = {}
    for variant, transform in _variants(image, thorough):
        for barcode in zxingcpp.read_barcodes(variant, try_rotate=True, try_downscale=True, try_invert=True):
            if not barcode.valid or not barcode.text:
                continue
            corners = (getattr(barcode.position, name) for name in _CORNERS)
            points = [apply(transform, corner.x, corner.y) for corner in corners]
            xs, ys = [x for x, _y in points], [y for _x, y in points]
            box = Box.from_xyxy_px(min(xs), min(ys), max(xs), max(ys), image.width, image.height).clamp()
            code = Code(format=_name(barcode.format), text=barcode.text, box=box)
            found.setdefault((code.format, code.text), code)
        if found:
            break
    return sorted(found.values(), key=lambda code: (round(code.box.y, 2), code.box.x))


_CORNERS = ("top_left", "top_right", "bottom_right", "bottom_left")


def _name(format_: Any) -> str:
    return str(getattr(format_, "name", format_))


def _variants(image: Image.Image, thorough: bool) -> Iterator[tuple[Image.Image, Transform]]:
    """Pictures to try, each with the transform of its pixels to those of `image`."""
    from PIL import Image, ImageFilter, ImageOps

    grey = image.convert("L")
    if max(grey.size) > LONG_SIDE:
        grey = ImageOps.contain(grey, (LONG_SIDE, LONG_SIDE))
    back = (
        resize_transform(grey.size, grey.size) if grey.size == image.size else resize_transform(image.size, grey.size)
    )
    yield grey, back
    if not thorough:
        return
    spread = ImageOps.autocontrast(grey, cutoff=2)
    yield spread, back
    if max(grey.size) < SMALL:
        for factor in (2, 3):
            size = (grey.width * factor, grey.height * factor)
            yield spread.resize(size, Image.Resampling.BICUBIC), resize_transform(image.size, size)
    small = ImageOps.contain(spread, (800, 800))
    shrink = resize_transform(image.size, small.size)
    yield small, shrink
    yield small.filter(ImageFilter.GaussianBlur(1.2)), shrink
    yield small.filter(ImageFilter.UnsharpMask(3, 200, 2)), shrink
    from orion.geometry import compose

    for degrees in TURNS:
        turned = small.rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor=255)
        yield turned, compose(rotate_transform(degrees, *small.size)[0], shrink)
