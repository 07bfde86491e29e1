from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pydantic import ValidationError

from orion.geometry import (
    IDENTITY,
    Box,
    Point,
    Transform,
    apply,
    compose,
    crop_transform,
    invert,
    map_box,
    resize_transform,
    rotate_transform,
)

number = st.floats(-1000, 1000, allow_nan=False)
side = st.integers(1, 4000)


@st.composite
def transforms(draw: st.DrawFn) -> Transform:
    scale_x, scale_y = draw(st.floats(0.1, 10)), draw(st.floats(0.1, 10))
    turn, (_width, _height) = rotate_transform(draw(st.floats(-360, 360)), draw(side), draw(side))
    stretched = compose(resize_transform((scale_x, scale_y), (1, 1)), turn)
    return compose(stretched, crop_transform(draw(number), draw(number)))


def close(a: tuple[float, ...], b: tuple[float, ...], tolerance: float = 1e-6) -> bool:
    return all(math.isclose(p, q, rel_tol=tolerance, abs_tol=tolerance) for p, q in zip(a, b, strict=True))


@given(number, number, number, number, side, side)
def test_box_round_trip_orders_the_corners(x1: float, y1: float, x2: float, y2: float, w: int, h: int) -> None:
    box = Box.from_xyxy_px(x1, y1, x2, y2, w, h)
    assert box.w >= 0
    assert box.h >= 0
    assert close(box.to_xyxy_px(w, h), (min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)))
    assert Box.model_validate_json(box.model_dump_json()) == box


@given(number, number, side, side)
def test_point_round_trip(x: float, y: float, w: int, h: int) -> None:
    assert close(Point.from_px(x, y, w, h).to_px(w, h), (x, y))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_is_refused(bad: float) -> None:
    with pytest.raises(ValidationError):
        Box(x=bad, y=0, w=1, h=1)
    with pytest.raises(ValidationError):
        Box.from_xyxy_px(0, 0, bad, 1, 10, 10)
    with pytest.raises(ValidationError):
        Point(x=0, y=bad)


def test_negative_size_is_put_in_order() -> None:
    assert Box(x=0.75, y=0.5, w=-0.5, h=0.25) == Box(x=0.25, y=0.5, w=0.5, h=0.25)


@pytest.mark.parametrize("size", [(0, 10), (10, -1), (math.nan, 5)])
def test_a_size_must_be_positive(size: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="positive"):
        Box.from_xyxy_px(0, 0, 1, 1, *size)


@pytest.mark.parametrize("score", [-0.1, 1.1])
def test_score_is_a_share(score: float) -> None:
    with pytest.raises(ValidationError):
        Box(x=0, y=0, w=1, h=1, score=score)


def test_out_of_frame_is_reported_not_hidden() -> None:
    box = Box(x=0.9, y=0.9, w=0.4, h=0.05)
    assert not box.inside
    assert box.clamp().inside
    assert close(box.clamp().to_xyxy_px(1, 1), (0.9, 0.9, 1.0, 0.95))
    assert Box(x=2, y=2, w=1, h=1).clamp().area == 0


def test_schema_shows_the_range() -> None:
    field = Box.model_json_schema()["properties"]["x"]
    assert (field["minimum"], field["maximum"]) == (0, 1)


@given(st.tuples(*[st.floats(0, 1)] * 4), st.tuples(*[st.floats(0, 1)] * 4))
def test_iou_is_symmetric_and_bounded(a: tuple[float, ...], b: tuple[float, ...]) -> None:
    first, second = (Box(x=x, y=y, w=w, h=h) for x, y, w, h in (a, b))
    assert 0 <= first.iou(second) <= 1
    assert first.iou(second) == second.iou(first)
    if first.area > 1e-9:
        assert math.isclose(first.iou(first), 1, rel_tol=1e-6)


@given(transforms(), number, number)
def test_invert_undoes(transform: Transform, x: float, y: float) -> None:
    assert close(apply(invert(transform), *apply(transform, x, y)), (x, y), 1e-4)


@given(transforms(), transforms(), number, number)
def test_compose_is_one_after_the_other(first: Transform, then: Transform, x: float, y: float) -> None:
    assert close(apply(compose(first, then), x, y), apply(then, *apply(first, x, y)), 1e-5)


@given(transforms())
def test_identity_is_neutral(transform: Transform) -> None:
    assert close(compose(IDENTITY, transform), transform)
    assert close(compose(transform, IDENTITY), transform)


def test_a_flat_transform_has_no_inverse() -> None:
    with pytest.raises(ValueError, match="inverted"):
        invert((1, 1, 0, 1, 1, 0))


@pytest.mark.parametrize("expand", [True, False])
@pytest.mark.parametrize("degrees", [0, 17, 90, 91.5, 135, 180, 270, -30, 359, 450])
def test_rotation_is_pillows(degrees: float, expand: bool) -> None:
    """A marked block is found in the turned image where the transform says it is."""
    image = Image.new("L", (160, 90))
    image.paste(255, (100, 40, 112, 52))  # centre (106, 46), near enough to the middle to stay in the frame
    turned = image.rotate(degrees, expand=expand, resample=Image.Resampling.BILINEAR)
    transform, size = rotate_transform(degrees, 160, 90, expand=expand)
    assert size == turned.size
    left, top, right, bottom = turned.getbbox() or (0, 0, 0, 0)
    x, y = apply(transform, (left + right) / 2, (top + bottom) / 2)
    assert max(abs(x - 106), abs(y - 46)) <= 1


@given(st.integers(1, 300), st.integers(1, 300), st.floats(-360, 360) | st.integers(-8, 8).map(lambda n: n * 90))
def test_rotated_size_is_pillows(width: int, height: int, degrees: float) -> None:
    ours = rotate_transform(degrees, width, height)[1]
    pillows = Image.new("1", (width, height)).rotate(degrees, expand=True).size
    assert ours == pillows


def test_map_box_through_a_quarter_turn() -> None:
    transform, size = rotate_transform(90, 640, 480)
    box = Box(x=0, y=0, w=0.5, h=0.25, of="img_000001", label="stamp", score=0.5)
    mapped = map_box(box, transform, size, (640, 480))
    assert (mapped.label, mapped.score) == ("stamp", 0.5)
    assert close(mapped.to_xyxy_px(1, 1), (0.75, 0, 1, 0.5))
