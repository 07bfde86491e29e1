"""Pictures drawn by code: scans, charts, barcodes and photos. The same arguments always give the same pixels.

The font is Bitstream Vera, which comes with reportlab: Pillow's own font knows neither umlauts nor accents.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Literal

import reportlab
import zxingcpp
from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageFont


@cache
def font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    """Bitstream Vera at `size` pixels."""
    name = "VeraBd.ttf" if bold else "Vera.ttf"
    return ImageFont.truetype(Path(reportlab.__file__).parent / "fonts" / name, size)


def paper(lines: Sequence[str | tuple[str, str]], width: int = 1000, size: int = 26, space: float = 1.6) -> Image.Image:
    """A grey-scale page. A line is text, or text at the left edge and text at the right edge; a `#` makes it bold."""
    step, margin = int(size * space), size * 2
    page = Image.new("L", (width, margin * 2 + step * len(lines)), 255)
    draw = ImageDraw.Draw(page)
    for index, line in enumerate(lines):
        left, right = (line, "") if isinstance(line, str) else line
        face, y = font(size, left.startswith("#")), margin + step * index
        draw.text((margin, y), left.lstrip("#"), fill=0, font=face)
        if right:
            draw.text((width - margin, y), right, fill=0, font=face, anchor="ra")
    return page


def scanned(page: Image.Image, seed: int, skew: float = 0.0, noise: float = 0.1, shadow: float = 0.0) -> Image.Image:
    """The page as a scanner or phone would give it: turned by `skew` degrees counter-clockwise, grainy, shaded."""
    page = page.convert("L").rotate(skew, Image.Resampling.BICUBIC, expand=True, fillcolor=255)
    if shadow:
        slope = Image.linear_gradient("L").rotate(90).resize(page.size)
        page = ImageChops.multiply(page, slope.point(lambda v: int(255 - (255 - v) * shadow)))
    grain = Image.frombytes("L", page.size, Random(seed).randbytes(page.width * page.height))
    return Image.blend(page.filter(ImageFilter.GaussianBlur(0.6)), grain, noise)


def encoded(picture: Image.Image, format: Literal["PNG", "JPEG"] = "PNG", orientation: int = 1) -> bytes:
    """The picture as a file. With an EXIF `orientation` the pixels are stored turned; viewers still show `picture`."""
    out = io.BytesIO()
    if orientation == 1:
        picture.save(out, format)
        return out.getvalue()
    undo = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture.transpose(undo[orientation]).save(out, format, exif=exif)
    return out.getvalue()


def tiff(pages: Sequence[Image.Image]) -> bytes:
    """A 1-bit TIFF of one or more pages, as fax machines and office scanners write it."""
    out = io.BytesIO()
    first, *rest = [page.convert("L").point(lambda v: 255 if v > 150 else 0).convert("1") for page in pages]
    first.save(out, "TIFF", compression="group4", save_all=True, append_images=rest, dpi=(150, 150))
    return out.getvalue()


COLOURS = ((76, 120, 168), (245, 133, 24), (84, 162, 75), (178, 121, 162))


def bar_chart(
    title: str, categories: Sequence[str], series: Mapping[str, Sequence[float]], form: str = "{:g}", axis: str = ""
) -> Image.Image:
    """Upright bars, grouped when there are several series, each with its value above it, and a legend."""
    bar, gap, height = (78 if len(series) == 1 else 54), 56, 380
    group = bar * len(series) + gap
    picture = Image.new(
        "RGB", (110 + group * len(categories) + (190 if len(series) > 1 else 40), height + 170), "white"
    )
    draw = ImageDraw.Draw(picture)
    draw.text((80, 22), title, fill="black", font=font(22, bold=True))
    base, most = height + 90, max(max(values) for values in series.values())
    draw.line((80, base, 80 + group * len(categories), base), fill="black", width=2)
    draw.line((80, base - height + 10, 80, base), fill="black", width=2)
    for row, (name, values) in enumerate(series.items()):
        for column, value in enumerate(values):
            x, top = 80 + gap // 2 + group * column + bar * row, base - int((height - 40) * value / most)
            draw.rectangle((x, top, x + bar - 4, base - 1), fill=COLOURS[row])
            draw.text((x + bar / 2 - 2, top - 5), form.format(value), fill="black", font=font(17), anchor="ms")
        if len(series) > 1:
            x, y = picture.width - 170, 90 + 32 * row
            draw.rectangle((x, y, x + 20, y + 20), fill=COLOURS[row])
            draw.text((x + 30, y + 10), name, fill="black", font=font(18), anchor="lm")
    for column, category in enumerate(categories):
        x = 80 + group * column + group // 2
        draw.text((x, base + 12), category, fill="black", font=font(18), anchor="ma")
    draw.text((80 + group * len(categories) / 2, base + 48), axis, fill="black", font=font(16), anchor="ma")
    return picture


def lying_chart(title: str, bars: Sequence[tuple[str, float]], form: str = "{:g}") -> Image.Image:
    """Bars from left to right, the name before and the value behind each."""
    step, left, length = 58, 230, 520
    picture = Image.new("RGB", (left + length + 140, 90 + step * len(bars)), "white")
    draw = ImageDraw.Draw(picture)
    draw.text((30, 22), title, fill="black", font=font(22, bold=True))
    most = max(value for _name, value in bars)
    for row, (name, value) in enumerate(bars):
        y, end = 80 + step * row, left + int(length * value / most)
        draw.rectangle((left, y, end, y + 34), fill=COLOURS[row % len(COLOURS)])
        draw.text((left - 12, y + 17), name, fill="black", font=font(18), anchor="rm")
        draw.text((end + 10, y + 17), form.format(value), fill="black", font=font(18), anchor="lm")
    return picture


def code(text: str, symbology: Literal["QRCode", "EAN13", "Code128", "DataMatrix"], scale: int = 6) -> Image.Image:
    """A barcode with its quiet zone, without the text in plain letters."""
    barcode = zxingcpp.create_barcode(text, getattr(zxingcpp.BarcodeFormat, symbology))
    return Image.fromarray(barcode.to_image(scale=scale)).convert("L")


def label(lines: Sequence[str], codes: Sequence[Image.Image], width: int = 900, size: int = 28) -> Image.Image:
    """A sticker: lines of text, then the codes below one another. It widens for a code that does not fit."""
    step, margin = int(size * 1.5), 40
    width = max([width, *(picture.width + 2 * margin for picture in codes)])
    height = margin * 2 + step * len(lines) + sum(picture.height + 20 for picture in codes)
    sticker = Image.new("L", (width, height), 255)
    draw = ImageDraw.Draw(sticker)
    for index, line in enumerate(lines):
        draw.text((margin, margin + step * index), line, fill=0, font=font(size))
    y = margin + step * len(lines)
    for picture in codes:
        sticker.paste(picture, (margin, y))
        y += picture.height + 20
    return sticker


def photographed(
    sticker: Image.Image, seed: int, angle: float = 0.0, tilt: float = 0.0, noise: float = 0.08, border: int = 90
) -> Image.Image:
    """The sticker on a dark table: turned by `angle` degrees, its far edge shrunk by the share `tilt` on each side."""
    sticker = sticker.convert("L")
    w, h = sticker.size
    table = Image.new("L", (w + 2 * border, h + 2 * border), 95)
    table.paste(sticker, (border, border))
    w, h = table.size
    if tilt:
        # Where the new picture's corners lie in the old one: outside it at the top, so that the top shrinks.
        quad = (-w * tilt, 0, 0, h, w, h, w * (1 + tilt), 0)
        bicubic = Image.Resampling.BICUBIC
        table = table.transform((w, h), Image.Transform.QUAD, quad, bicubic, fillcolor=95)
    table = table.rotate(angle, Image.Resampling.BICUBIC, expand=True, fillcolor=95)
    return scanned(table, seed, noise=noise, shadow=0.35)
