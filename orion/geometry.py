"""Boxes and points in 0–1 of an upright artifact, and the affine transforms that link a crop to what it was cut from.

Pixel coordinates are continuous: (0, 0) is the upper left corner of the upper left pixel, (width, height) the lower
right corner of the last one. A transform `(a, b, c, d, e, f)` maps `(x, y)` to `(a·x + b·y + c, d·x + e·y + f)`.
"""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

Transform = tuple[float, float, float, float, float, float]

IDENTITY: Transform = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)

# The schema a model sees says 0–1. Values outside are kept, not clamped: an out-of-frame box is to be reported
# (see `Box.inside`), because a silently clamped one hides that the model answered in another frame.
_Unit = Annotated[FiniteFloat, Field(json_schema_extra={"minimum": 0, "maximum": 1})]


class _Placed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    of: str | None = Field(default=None, description="id of the artifact these coordinates belong to")
    label: str | None = None
    score: Annotated[float, Field(ge=0, le=1)] | None = None


class Point(_Placed):
    """A point; `x` from the left and `y` from the top, both in 0–1 of the artifact `of`.

    >>> Point.from_px(320, 120, width=640, height=480)
    Point(of=None, label=None, score=None, x=0.5, y=0.25)
    """

    x: _Unit
    y: _Unit

    @classmethod
    def from_px(cls, x: float, y: float, width: float, height: float, **fields: object) -> Point:
        """From pixels of an image of `width` × `height` pixels; `fields` are `of`, `label`, `score`."""
        _positive(width, height)
        return cls.model_validate({"x": x / width, "y": y / height, **fields})

    def to_px(self, width: float, height: float) -> tuple[float, float]:
        """`(x, y)` in pixels of an image of `width` × `height` pixels."""
        _positive(width, height)
        return self.x * width, self.y * height


class Box(_Placed):
    """An upright rectangle: left, top, width and height in 0–1 of the artifact `of`.

    Negative sizes (swapped corners) are put in order; NaN and infinity are refused with pydantic's `ValidationError`.

    >>> box = Box(x=0.25, y=0.5, w=0.5, h=0.25)
    >>> box.to_xyxy_px(640, 480)
    (160.0, 240.0, 480.0, 360.0)
    >>> Box.from_xyxy_px(480, 360, 160, 240, width=640, height=480) == box
    True
    """

    x: _Unit
    y: _Unit
    w: _Unit
    h: _Unit

    @model_validator(mode="before")
    @classmethod
    def _order(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        data = dict(data)
        for start, size in (("x", "w"), ("y", "h")):
            low, length = data.get(start), data.get(size)
            if isinstance(low, int | float) and isinstance(length, int | float) and length < 0:
                data[start], data[size] = low + length, -length
        return data

    @classmethod
    def from_xyxy_px(
        cls, x1: float, y1: float, x2: float, y2: float, width: float, height: float, **fields: object
    ) -> Box:
        """From two opposite corners, in any order, in pixels of an image of `width` × `height` pixels."""
        _positive(width, height)
        left, right = sorted((x1 / width, x2 / width))
        top, bottom = sorted((y1 / height, y2 / height))
        return cls.model_validate({"x": left, "y": top, "w": right - left, "h": bottom - top, **fields})

    def to_xyxy_px(self, width: float, height: float) -> tuple[float, float, float, float]:
        """`(left, top, right, bottom)` in pixels of an image of `width` × `height` pixels."""
        _positive(width, height)
        return self.x * width, self.y * height, (self.x + self.w) * width, (self.y + self.h) * height

    @property
    def area(self) -> float:
        """Share of the artifact, 0–1 for a box inside it."""
        return self.w * self.h

    @property
    def inside(self) -> bool:
        """Whether the box lies within its artifact, give or take a thousandth."""
        slack = 1e-3
        return min(self.x, self.y) >= -slack and max(self.x + self.w, self.y + self.h) <= 1 + slack

    def clamp(self) -> Box:
        """The part inside the artifact; of zero size, at the border, when nothing is.

        >>> Box(x=-0.1, y=0.5, w=0.3, h=0.7).clamp().to_xyxy_px(100, 100)
        (0.0, 50.0, 20.0, 100.0)
        """
        left, right = (min(max(value, 0.0), 1.0) for value in (self.x, self.x + self.w))
        top, bottom = (min(max(value, 0.0), 1.0) for value in (self.y, self.y + self.h))
        return self.model_copy(update={"x": left, "y": top, "w": right - left, "h": bottom - top})

    def iou(self, other: Box) -> float:
        """Intersection over union, 0–1; 0 when both are empty.

        >>> Box(x=0, y=0, w=0.5, h=1).iou(Box(x=0.25, y=0, w=0.5, h=1))
        0.3333333333333333
        """
        across = min(self.x + self.w, other.x + other.w) - max(self.x, other.x)
        down = min(self.y + self.h, other.y + other.h) - max(self.y, other.y)
        shared = max(across, 0.0) * max(down, 0.0)
        union = self.area + other.area - shared
        return min(shared / union, 1.0) if union > 0 else 0.0


def apply(transform: Transform, x: float, y: float) -> tuple[float, float]:
    """Map one pixel position.

    >>> apply(crop_transform(30, 40), 1, 2)
    (31.0, 42.0)
    """
    a, b, c, d, e, f = transform
    return a * x + b * y + c, d * x + e * y + f


def compose(first: Transform, then: Transform) -> Transform:
    """The transform that applies `first` and then `then`.

    A crop of a crop: child → crop is `first`, crop → page is `then`.

    >>> compose(crop_transform(5, 5), crop_transform(30, 40))
    (1.0, 0.0, 35.0, 0.0, 1.0, 45.0)
    """
    a, b, c, d, e, f = first
    g, h, i, j, k, m = then
    return g * a + h * d, g * b + h * e, g * c + h * f + i, j * a + k * d, j * b + k * e, j * c + k * f + m


def invert(transform: Transform) -> Transform:
    """The transform back; `ValueError` when it flattens the plane (determinant 0)."""
    a, b, c, d, e, f = transform
    determinant = a * e - b * d
    if determinant == 0 or not math.isfinite(determinant):
        raise ValueError(f"transform {transform} cannot be inverted")
    a2, b2, d2, e2 = e / determinant, -b / determinant, -d / determinant, a / determinant
    return a2, b2, -(a2 * c + b2 * f), d2, e2, -(d2 * c + e2 * f)


def crop_transform(x0: float, y0: float) -> Transform:
    """Pixel of a crop → pixel of the image it was cut from at left `x0`, top `y0` (pixels)."""
    return 1.0, 0.0, float(x0), 0.0, 1.0, float(y0)


def resize_transform(from_size: tuple[float, float], to_size: tuple[float, float]) -> Transform:
    """Pixel of the resized image → pixel of the image before; both sizes are (width, height) in pixels.

    >>> apply(resize_transform((200, 100), (100, 100)), 50, 50)
    (100.0, 50.0)
    """
    _positive(*from_size)
    _positive(*to_size)
    return from_size[0] / to_size[0], 0.0, 0.0, 0.0, from_size[1] / to_size[1], 0.0


def rotate_transform(
    degrees: float, width: int, height: int, *, expand: bool = True
) -> tuple[Transform, tuple[int, int]]:
    """Pixel of the rotated image → pixel of the image before, and the rotated image's (width, height) in pixels.

    Turns counterclockwise about the centre, as `PIL.Image.rotate(degrees, expand=expand)` does.

    >>> rotate_transform(90, 640, 480)
    ((0.0, -1.0, 640.0, 1.0, 0.0, 0.0), (480, 640))
    """
    _positive(width, height)
    # To 15 digits, as Pillow does: cos(90°) is then 0 and not 6e-17, and sizes agree to the pixel.
    degrees %= 360
    cos, sin = round(math.cos(math.radians(degrees)), 15), round(math.sin(math.radians(degrees)), 15)
    new_width, new_height = width, height
    if expand and degrees % 180 == 90:
        new_width, new_height = height, width
    elif expand and degrees % 180:
        new_width, new_height = _rotated_size(cos, sin, width, height)
    # Output → input is a turn by the angle in a frame whose y points down.
    c = width / 2 - cos * new_width / 2 + sin * new_height / 2
    f = height / 2 - sin * new_width / 2 - cos * new_height / 2
    # Adding 0.0 turns -0.0 into 0.0, so that the same turn always prints the same.
    return (cos + 0.0, -sin + 0.0, c + 0.0, sin + 0.0, cos + 0.0, f + 0.0), (new_width, new_height)


def _rotated_size(cos: float, sin: float, width: int, height: int) -> tuple[int, int]:
    """Whole pixels around the turned corners, which keep the old image's centre."""
    c = -cos * width / 2 + sin * height / 2 + width / 2
    f = -sin * width / 2 - cos * height / 2 + height / 2
    xs = [cos * x - sin * y + c for x in (0, width) for y in (0, height)]
    ys = [sin * x + cos * y + f for x in (0, width) for y in (0, height)]
    return math.ceil(max(xs)) - math.floor(min(xs)), math.ceil(max(ys)) - math.floor(min(ys))


def map_box(box: Box, transform: Transform, size: tuple[float, float], to_size: tuple[float, float]) -> Box:
    """The upright box around `box` (of an image of `size`) after `transform` into an image of `to_size`, in 0–1.

    >>> map_box(Box(x=0, y=0, w=1, h=1), crop_transform(50, 0), (50, 100), (100, 100))
    Box(of=None, label=None, score=None, x=0.5, y=0.0, w=0.5, h=1.0)
    """
    left, top, right, bottom = box.to_xyxy_px(*size)
    corners = [apply(transform, x, y) for x in (left, right) for y in (top, bottom)]
    xs, ys = [x for x, _ in corners], [y for _, y in corners]
    mapped = Box.from_xyxy_px(min(xs), min(ys), max(xs), max(ys), *to_size)
    return mapped.model_copy(update={"of": box.of, "label": box.label, "score": box.score})


def _positive(width: float, height: float) -> None:
    if not (width > 0 and height > 0 and math.isfinite(width) and math.isfinite(height)):
        raise ValueError(f"an image size must be positive, got {width} × {height}")
