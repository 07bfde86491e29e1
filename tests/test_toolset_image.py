"""The image toolset on pictures drawn here: geometry by pixels, codes at every angle, charts by their numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from orion.errors import ToolRetry
from orion.geometry import apply
from orion.toolsets import charts, image, ocr
from orion.toolsets.deskewing import skew
from tests import pictures

SHARED = Path(__file__).resolve().parents[2] / "shared"


def marked(width: int = 400, height: int = 300) -> Image.Image:
    """White, with a red patch of 40 x 30 px at (100, 60)."""
    picture = Image.new("RGB", (width, height), "white")
    ImageDraw.Draw(picture).rectangle((100, 60, 139, 89), fill="red")
    return picture


def red_centre(picture: Image.Image) -> tuple[float, float]:
    found = [
        (x + 0.5, y + 0.5)
        for x in range(picture.width)
        for y in range(picture.height)
        if picture.getpixel((x, y))[0] > 200 > 80 > picture.getpixel((x, y))[1]
    ]
    return sum(x for x, _ in found) / len(found), sum(y for _, y in found) / len(found)


@pytest.mark.parametrize(
    "make",
    [
        lambda picture: image.crop(picture, 0.2, 0.1, 0.4, 0.5),
        lambda picture: image.crop(picture, 80, 30, 160, 150),
        lambda picture: image.rotate(picture, 90),
        lambda picture: image.rotate(picture, -30),
        lambda picture: image.resize(picture, scale=2),
        lambda picture: image.resize(picture, width=200),
        lambda picture: image.resize(picture, width=300, height=400),
    ],
)
def test_transform_leads_back_to_the_parent(make) -> None:  # type: ignore[no-untyped-def]
    made = make(marked())
    x, y = apply(made.info["transform"], *red_centre(made))
    assert abs(x - 120) < 1.2
    assert abs(y - 75) < 1.2


def test_crop_fractions_and_pixels_agree() -> None:
    picture = marked()
    assert image.crop(picture, 0.25, 0.2, 0.5, 0.4).tobytes() == image.crop(picture, 100, 60, 200, 120).tobytes()


def test_crop_grows_to_a_side_that_models_accept() -> None:
    made = image.crop(marked(), 0.99, 0.5, 0.005, 0.005)
    assert made.size == (28, 28)
    assert made.info["transform"][2] == 400 - 28


@pytest.mark.parametrize(
    ("box", "message"),
    [
        ((0.1, 0.1, 0, 0.5), "above 0"),
        ((0.1, 0.1, 200, 0.5), "fractions"),
        ((500, 10, 50, 50), "outside the image of 400x300 px"),
    ],
)
def test_crop_refuses(box: tuple[float, float, float, float], message: str) -> None:
    with pytest.raises(ToolRetry, match=message):
        image.crop(marked(), *box)


def test_resize_wants_one_way_to_say_it() -> None:
    with pytest.raises(ToolRetry, match="either scale"):
        image.resize(marked())
    with pytest.raises(ToolRetry, match="either scale"):
        image.resize(marked(), width=10, scale=2)
    with pytest.raises(ToolRetry, match="megapixels"):
        image.resize(marked(), width=20_000)


def test_rotate_fills_corners_with_the_paper() -> None:
    turned = image.rotate(Image.new("RGB", (100, 100), (240, 230, 220)), 45)
    assert turned.getpixel((0, 0)) == (240, 230, 220)


NOTE = pictures.paper(
    [
        "#Delivery note 5512",
        "Received in good order by the night shift",
        "All fourteen boxes were sealed",
        "Bay 7, row C",
    ]
)


@pytest.mark.parametrize("angle", [-12, -7.5, -3.4, -1, 1, 3.4, 7.5, 12])
def test_deskew_finds_the_angle_and_its_sign(angle: float) -> None:
    askew = pictures.scanned(NOTE, seed=4, skew=angle)
    made = image.deskew(askew)
    assert made.degrees == pytest.approx(-angle, abs=0.3)
    assert abs(skew(made.image, 15)) <= 0.3


def test_deskew_leaves_level_and_empty_pictures_alone() -> None:
    assert abs(image.deskew(NOTE).degrees) <= 0.1
    assert image.deskew(Image.new("RGB", (300, 200), "white")).degrees == 0


@pytest.mark.parametrize("symbology", ["QRCode", "EAN13", "Code128", "DataMatrix"])
@pytest.mark.parametrize("degrees", range(0, 360, 15))
def test_codes_at_every_angle(symbology: str, degrees: int) -> None:
    text = "4006381333931" if symbology == "EAN13" else "LOT-0042/7"
    drawn = pictures.code(text, symbology, scale=4)  # type: ignore[arg-type]
    sheet = Image.new("L", (1000, 900), 255)
    turned = drawn.rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor=255)
    sheet.paste(turned, (150, 120))
    (found,) = image.read_barcodes(sheet)
    assert (found.format, found.text) == (symbology, text)
    left, top, right, bottom = found.box.to_xyxy_px(*sheet.size)
    middle = 150 + turned.width / 2, 120 + turned.height / 2
    assert (left + right) / 2 == pytest.approx(middle[0], abs=40)
    assert (top + bottom) / 2 == pytest.approx(middle[1], abs=40)


@pytest.mark.parametrize("how", ["inverted", "tiny", "photo"])
def test_hard_codes(how: str) -> None:
    drawn = pictures.code("https://example.org/p/77", "QRCode", scale=6)
    if how == "inverted":
        drawn = drawn.point(lambda value: 255 - value)
    elif how == "tiny":
        drawn = drawn.resize((drawn.width // 4, drawn.height // 4), Image.Resampling.BOX)
    else:
        drawn = pictures.photographed(drawn, seed=1, angle=20, tilt=0.08)
    assert [code.text for code in image.read_barcodes(drawn)] == ["https://example.org/p/77"]


def test_two_codes_come_top_to_bottom() -> None:
    codes = [pictures.code("first", "QRCode"), pictures.code("second", "Code128", 3)]
    assert [code.text for code in image.read_barcodes(pictures.label(["Crate"], codes))] == ["first", "second"]


def test_no_code_is_an_empty_list() -> None:
    assert image.read_barcodes(NOTE) == []


@pytest.mark.parametrize(
    ("names", "series", "form"),
    [
        (["Jan", "Feb", "Mar", "Apr"], {"": [12, 30.5, 18, 7]}, "{:g}"),
        (["North", "South", "East"], {"2023": [12, 30, 18], "2024": [14, 28, 21], "2025": [9, 33, 25]}, "{:g}"),
        (["2021", "2022", "2023"], {"Oslo": [120, 300, 180], "Bergen": [140, 280, 210]}, "{:g}"),
        (["Red", "Green", "Blue", "Grey"], {"A": [0.5, 0.25, 1.5, 0.75], "B": [1.25, 0.8, 0.6, 1.1]}, "{:.2f}"),
    ],
)
def test_charts_are_read_as_values(names: list[str], series: dict[str, list[float]], form: str) -> None:
    picture = pictures.bar_chart("Output", names, series, form=form, axis="what").convert("RGB")
    reading = ocr.find_lines(picture)
    chart = charts.read_chart(picture, ocr.level(reading, picture)[0])
    assert chart is not None
    expected = {name: {key: form.format(series[key][at]) for key in series} for at, name in enumerate(names)}
    assert chart.values == expected


def test_a_page_with_numbers_is_no_chart() -> None:
    page = pictures.paper([("Item", "Amount"), ("Bolt", "12.50"), ("Nut", "3.20"), ("Total", "15.70")])
    assert "chart" not in ocr.read(page).text


def test_look_at_a_photo(tmp_path: Path) -> None:
    path = tmp_path / "label.png"
    code = pictures.code("https://example.org/p/77", "QRCode")
    pictures.label(["Part 77-B", "Lot 2026-04"], [code]).convert("RGB").save(path)
    meta = {"orientation": 6, "format": "JPEG", "exif": {"DateTimeOriginal": "2026:05:04 10:00:00"}}
    seen = image.look(path, meta, 2000, True)
    assert "EXIF orientation 6 was applied" in seen.text
    assert "frame" not in seen.text
    assert "2026:05:04" in seen.text
    assert "QRCode: https://example.org/p/77" in seen.text
    assert "Part 77-B\nLot 2026-04" in seen.text
    assert seen.covers == ("read_more", "read_barcodes", "ocr", "open_frame")
    assert seen.whole
    assert "Part 77-B" not in image.look(path, {}, 2000, False).text
    assert image.look(path, meta, 2000, True) == seen


def test_look_keeps_to_its_budget(tmp_path: Path) -> None:
    path = tmp_path / "note.png"
    pictures.paper([f"Line number {at} of a long note" for at in range(12)]).save(path)
    seen = image.look(path, {}, 200, True)
    assert len(seen.text) < 320
    assert "ocr(image) reads all" in seen.text
    assert "ocr" not in seen.covers
