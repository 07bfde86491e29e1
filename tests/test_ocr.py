"""OCR on drawn pages: accuracy by characters, in every direction, and the text's layout."""

from __future__ import annotations

from difflib import SequenceMatcher

import pytest
from PIL import Image

from orion.toolsets import image, ocr
from tests import pictures

LINES = [
    "#Delivery note 5512",
    ("Customer: Ortega Tools", "Date: 4 June 2026"),
    "",
    ("Widget A", "3 pcs"),
    ("Widget B", "14 pcs"),
    ("Große Flasche, süß", "2 pcs"),
    "",
    "Signed by the driver on arrival.",
]
TRUTH = (
    "Delivery note 5512 Customer: Ortega Tools Date: 4 June 2026 Widget A 3 pcs Widget B 14 pcs "
    "Große Flasche, süß 2 pcs Signed by the driver on arrival."
)
PAGE = pictures.paper(LINES)


def accuracy(text: str, truth: str = TRUTH) -> float:
    return SequenceMatcher(None, " ".join(text.split()), truth, autojunk=False).ratio()


@pytest.mark.parametrize("quarter", [0, 90, 180, 270])
@pytest.mark.parametrize("skew", [0, 3.4, -8, 15])
def test_reads_pages_however_they_lie(quarter: int, skew: float) -> None:
    lying = pictures.scanned(PAGE, seed=quarter + 1, skew=skew).rotate(quarter, expand=True)
    read = ocr.read(lying)
    assert accuracy(read.text) > 0.97, read.text
    assert read.rotation == (360 - quarter) % 360
    assert read.skew == pytest.approx(-skew, abs=0.5)


def test_layout_keeps_rows_and_columns() -> None:
    rows = ocr.read(pictures.scanned(PAGE, seed=9, skew=2)).text.splitlines()
    (widget,) = [row for row in rows if row.startswith("Widget B")]
    assert widget.split("  ")[0] == "Widget B"
    assert widget.endswith("14 pcs")


def test_shadow_and_faint_print() -> None:
    assert accuracy(ocr.read(pictures.scanned(PAGE, seed=2, shadow=0.7)).text) > 0.95
    assert accuracy(ocr.read(PAGE.point(lambda value: 200 if value < 128 else 230)).text) > 0.95


def test_small_bitonal_print() -> None:
    fax = PAGE.resize((PAGE.width // 2, PAGE.height // 2), Image.Resampling.LANCZOS).convert("1", dither=0)
    assert accuracy(ocr.read(fax).text) > 0.9


def test_long_strip_is_read_once() -> None:
    strip = pictures.paper([" ".join(f"w{at:02d}" for at in range(60))], width=4200, size=26)
    words = ocr.read(strip).text.split()
    expected = [f"w{at:02d}" for at in range(60)]
    assert SequenceMatcher(None, words, expected, autojunk=False).ratio() > 0.9


def test_boxes_lie_on_the_ink() -> None:
    for line in ocr.read(PAGE).lines:
        x0, y0, x1, y1 = (round(edge) for edge in line.box.to_xyxy_px(*PAGE.size))
        inside = PAGE.crop((x0, y0, x1, y1))
        assert min(inside.tobytes()) < 80, line.text
        assert 0 <= line.confidence <= 1
        assert type(line.confidence) is float
        assert type(line.box.x) is float


def test_boxes_belong_to_the_picture_as_given() -> None:
    upside = PAGE.rotate(180)
    (title,) = [line for line in ocr.read(upside).lines if "5512" in line.text]
    assert title.box.y > 0.7
    assert title.box.x > 0.4


def test_nothing_to_read() -> None:
    read = ocr.read(Image.new("RGB", (300, 200), "white"))
    assert (read.text, read.lines, read.rotation) == ("", [], 0)
    assert read.for_model() == "No text was found in the image."


@pytest.mark.parametrize("quarter", [0, 90, 180, 270])
def test_correct_orientation(quarter: int) -> None:
    made = image.correct_orientation(pictures.scanned(PAGE, seed=3).rotate(quarter, expand=True))
    assert made.degrees == (360 - quarter) % 360
    assert made.image.size == PAGE.size


def test_a_picture_without_text_is_not_turned() -> None:
    assert image.correct_orientation(Image.radial_gradient("L").resize((400, 300))).degrees == 0
