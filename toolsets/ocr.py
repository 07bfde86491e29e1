"""Reading text in a picture: RapidOCR's models, with orientation, skew and reading order worked out from its boxes."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from orion.geometry import Box
from orion.toolsets.charts import Chart, read_chart
from orion.toolsets.deskewing import skew as profile_skew
from orion.toolsets.layout import Span, lay_out, rows_of
from orion.toolsets.sums import column_sums, line_for, words_for

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

    Pixels = NDArray[Any]

NEEDS = ("cv2", "rapidocr", "onnxruntime")
EXTRA = "ocr"
INSTALL = 'pip install "orion-visual-agent[ocr]"'

LONG_SIDE = 2600  # px; larger pictures are reduced to this before reading
DETECT_SIDE = 1800  # px; lines are looked for in a copy of this size and read in the larger one
DETECT_SCORE = 0.3  # lone digits score low; whether it is text is settled by reading it
PAD = 12  # px
SHORT_SIDE = 900  # px; smaller pictures are enlarged towards this, at most MAX_ENLARGE times
MAX_ENLARGE = 3.0
TILE_RATIO = 4.0  # a picture longer than this many times its short side is read in overlapping pieces
TILE_OVERLAP = 0.12  # of a piece
MIN_CONFIDENCE = 0.5
MIN_SHORT = 0.75  # for one or two letters, unless the picture has MANY sure lines
MANY = 5
MIN_SPLIT = 0.6  # mean confidence at which a tall box is taken for lines under each other
SURE = 0.9  # mean confidence at which the other directions are not even tried
SAMPLE = 8  # lines read both ways to find out which way is up
TALL = 1.5  # a box this many times higher than wide holds a line that runs up or down
MIN_EVIDENCE = 4.0  # letters read with confidence before a picture is turned
MIN_SKEW = 0.2  # degrees
LONG_LINE, SHORT_LINE = 5.0, 2.0  # length over height of lines whose slope is trusted
CLEAR_SKEW = 3.0  # degrees; what a short line must slope to count
MAX_DRIFT = 6.0  # degrees between a line and the median slope
FAINT = 0.8  # mean confidence under which a second pass on a thresholded copy is made

_LOCK = threading.RLock()


class Line(BaseModel):
    """One line of text. `box` is in 0–1 of the picture as given; `confidence` is 0–1."""

    text: str
    box: Box
    confidence: float


class OcrText(BaseModel):
    """Text of a picture: `text` keeps rows and columns, `lines` have the boxes, in reading order."""

    text: str
    lines: list[Line]
    rotation: int = 0
    """Degrees counter-clockwise that turn the picture upright: 0, 90, 180 or 270."""
    skew: float = 0.0
    """Degrees counter-clockwise that level the lines after that turn."""
    sums: str = ""
    """What the number columns of its tables, or the bars of a chart with one series, add up to."""

    def for_model(self) -> str:
        """What the language model reads."""
        return "\n".join(part for part in (self.text, self.sums) if part) or "No text was found in the image."


@dataclass(frozen=True, slots=True)
class Piece:
    """A recognised line: `quad` holds its corners in px of the picture, clockwise from where the text starts."""

    text: str
    confidence: float
    quad: Pixels
    across: bool
    """True when the line runs up or down in the upright picture."""


@dataclass(frozen=True, slots=True)
class Reading:
    """All lines of a picture and how it lies."""

    pieces: list[Piece]
    rotation: int

    @property
    def score(self) -> float:
        """Letters read, each weighted with its confidence."""
        return sum(piece.confidence * len(piece.text) for piece in self.pieces)


def read(image: Image.Image) -> OcrText:
    """Read the text of a picture that may lie on its side, on its head or askew.

    Raises `ImportError` when the `ocr` extra is missing: tools that call this declare it with `needs=NEEDS`.
    """
    reading = find_lines(image)
    spans, skew = level(reading, image)
    pieces = {id(span): piece for span, piece in zip(spans, reading.pieces, strict=True)}
    ordered = [span for row in rows_of(spans) for span in row]
    width, height = image.size
    lines = []
    for span in ordered:
        piece = pieces[id(span)]
        box = Box.from_xyxy_px(*_bounds(piece.quad), width=width, height=height).clamp()
        lines.append(Line(text=piece.text, box=box, confidence=round(piece.confidence, 3)))
    text, sums = _text(image, ordered, [pieces[id(span)].across for span in ordered], reading.rotation, skew)
    return OcrText(text=text, lines=lines, rotation=reading.rotation, skew=skew, sums=sums)


def _text(image: Image.Image, spans: list[Span], across: list[bool], rotation: int, skew: float) -> tuple[str, str]:
    """What a language model reads: a chart as its values, anything else as laid out; and the sums of its numbers."""
    if not rotation and abs(skew) < 1:
        chart = read_chart(image, spans)
        if chart:
            return chart.text(), _chart_sums(chart)
    upright = [span for span, turned in zip(spans, across, strict=True) if not turned]
    text = lay_out(upright)
    running = "; ".join(span.text for span, turned in zip(spans, across, strict=True) if turned)
    if running:
        text += ("\n" if text else "") + f"running up or down: {running}"
    return text, line_for(upright)


def _chart_sums(chart: Chart) -> str:
    """The sum of a chart's only series; several sums beside several series would rather confuse."""
    series = {name for bars in chart.values.values() for name in bars}
    if len(series) != 1:
        return ""
    sums = column_sums([[category, *bars.values()] for category, bars in chart.values.items()])
    return f"sum of the values: {words_for(sums)}" if sums else ""


def find_lines(image: Image.Image) -> Reading:
    """All lines, unordered; the picture is scaled, tiled and, when it is faint, thresholded as needed."""
    import numpy as np

    pixels = np.asarray(image.convert("RGB"))[:, :, ::-1]
    with _LOCK:
        reading = _read_scaled(pixels)
        letters = [piece.confidence for piece in reading.pieces]
        if letters and fmean(letters) < FAINT:
            second = _read_scaled(_thresholded(pixels))
            if second.score > reading.score * 1.05:
                reading = second
    return reading


def level(reading: Reading, image: Image.Image) -> tuple[list[Span], float]:
    """Boxes of the lines as they would stand in the upright, levelled picture (px), and the skew in degrees.

    In a photo taken at an angle the slope changes from top to bottom, so it is fitted as a line over y. Where no line
    is long enough to tell, the profile of the whole picture does.
    """
    turned = [_ordered(_turn(piece.quad, reading.rotation, image.size)) for piece in reading.pieces]
    slopes = _slopes([quad for quad, piece in zip(turned, reading.pieces, strict=True) if not piece.across])
    if slopes or len(turned) < 2:
        skew = _median(slopes)
    else:
        upright = image.rotate(reading.rotation, expand=True) if reading.rotation else image
        skew = profile_skew(upright, CLEAR_SKEW)
    drift = _drift(slopes, skew)
    cos, sin = math.cos(math.radians(skew)), math.sin(math.radians(skew))
    spans = []
    for piece, quad in zip(reading.pieces, turned, strict=True):
        x, y = quad[:, 0], quad[:, 1]
        # Turning by `skew` counter-clockwise in a frame whose y points down.
        x, y = x * cos + y * sin, y * cos - x * sin
        y = y - math.radians(drift(float(quad[:, 1].mean()))) * x
        spans.append(Span(piece.text, *_bounds(_stack(x, y))))
    return spans, round(skew, 2)


def orientation(image: Image.Image) -> int:
    """Degrees counter-clockwise (0, 90, 180, 270) that turn the picture's text upright; 0 when it cannot be told."""
    import numpy as np

    reduced = image.convert("RGB")
    reduced.thumbnail((1600, 1600))
    with _LOCK:
        pixels = np.asarray(reduced)[:, :, ::-1]
        quads = _detect(pixels)
        return _which_way(pixels, quads)[0] if quads else 0


@cache
def engine() -> Any:
    """The models, loaded once in a process (about 1 s)."""
    from rapidocr import RapidOCR

    return RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.max_side_len": 10_000,  # scaling is done here
            "Global.text_score": 0.0,
            # Several workers read at the same time, and threads beyond the cores make each other wait.
            "EngineConfig.onnxruntime.intra_op_num_threads": max(1, (os.cpu_count() or 2) // 2),
            # Lines of one batch are padded to the longest, and padding costs the reader blanks between words.
            "Rec.rec_batch_num": 1,
        }
    )


def _read_scaled(pixels: Pixels) -> Reading:
    import cv2

    height, width = pixels.shape[:2]
    long, short = max(height, width), min(height, width)
    if long / short > TILE_RATIO:
        return _read_tiles(pixels)
    scale = min(LONG_SIDE / long, max(1.0, min(MAX_ENLARGE, SHORT_SIDE / short)))
    if scale != 1.0:
        method = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
        pixels = cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=method)
    reading = _read_plain(pixels)
    pieces = [replace(piece, quad=piece.quad / scale) for piece in reading.pieces]
    return Reading(pieces, reading.rotation)


def _read_tiles(pixels: Pixels) -> Reading:
    """A strip, piece by piece; a line seen twice is kept where it is whole."""
    height, width = pixels.shape[:2]
    wide = width > height
    long, short = max(height, width), min(height, width)
    size = min(long, max(int(short * TILE_RATIO * 0.75), 64))
    count = max(2, math.ceil((long - size * TILE_OVERLAP) / (size * (1 - TILE_OVERLAP))))
    pieces: list[Piece] = []
    rotations: list[tuple[float, int]] = []
    for index in range(count):
        start = round(index * (long - size) / (count - 1))
        tile = pixels[:, start : start + size] if wide else pixels[start : start + size]
        reading = _read_scaled(tile)
        rotations.append((reading.score, reading.rotation))
        for piece in reading.pieces:
            quad = piece.quad + ((start, 0) if wide else (0, start))
            _keep(pieces, replace(piece, quad=quad))
    return Reading(pieces, max(rotations)[1])


def _keep(pieces: list[Piece], new: Piece) -> None:
    """Adds a line unless a longer one covers it; replaces those that it covers."""
    left, top, right, bottom = _bounds(new.quad)
    for at, old in enumerate(pieces):
        x0, y0, x1, y1 = _bounds(old.quad)
        across, down = min(right, x1) - max(left, x0), min(bottom, y1) - max(top, y0)
        if across <= 0 or down <= 0.5 * min(bottom - top, y1 - y0):
            continue
        if across > 0.5 * min(right - left, x1 - x0):
            if len(new.text) > len(old.text):
                pieces[at] = new
            return
    pieces.append(new)


def _which_way(pixels: Pixels, quads: list[Pixels]) -> tuple[int, dict[int, tuple[str, float]]]:
    """The turn that brings the text upright, and the lines read to find it.

    A line on its head is read with much less confidence, so reading the longest lines both ways tells.
    """
    lengths = [_length(quad) for quad in quads]
    upright = sum(length for quad, length in zip(quads, lengths, strict=True) if not _is_tall(quad))
    sideways = sum(lengths) - upright > 1.2 * upright
    sample = sorted((at for at, quad in enumerate(quads) if _is_tall(quad) == sideways), key=lambda at: -lengths[at])
    sample = sample[:SAMPLE]
    crops = [_crop(pixels, quads[at], sideways) for at in sample]
    first = _recognise(crops)
    flipped = False
    if fmean(confidence for _text, confidence in first) < SURE:
        second = _recognise([_flip(crop) for crop in crops])
        flipped = _weight(second) > 1.15 * _weight(first)
        first = second if flipped else first
    rotation = (90 if sideways else 0) + (180 if flipped else 0)
    if rotation and _weight(first) < MIN_EVIDENCE:
        return 0, {}
    return rotation, dict(zip(sample, first, strict=True))


def _read_plain(pixels: Pixels) -> Reading:
    quads = _detect(pixels)
    if not quads:
        return Reading([], 0)
    rotation, known = _which_way(pixels, quads)
    sideways, flipped = rotation in (90, 270), rotation in (180, 270)
    rest = [at for at in range(len(quads)) if at not in known]
    crops = [_crop(pixels, quads[at], sideways) for at in rest]
    known |= zip(rest, _recognise([_flip(crop) if flipped else crop for crop in crops]), strict=True)
    pieces = []
    for at, quad in enumerate(quads):
        text, confidence = known[at]
        piece = Piece(text, confidence, quad, across=False)
        clearly = _aspect(quad) >= TALL if not sideways else _aspect(quad) <= 1 / TALL
        pieces += _read_across(pixels, piece, sideways, flipped) if clearly else [piece]
    return Reading(_believed(pieces), rotation)


def _believed(pieces: list[Piece]) -> list[Piece]:
    """Texture is easily taken for one or two letters, so those must be surer where there is hardly any text."""
    sure = sum(piece.confidence >= SURE for piece in pieces)
    least = MIN_CONFIDENCE if sure >= MANY else MIN_SHORT
    return [
        piece
        for piece in pieces
        if piece.text.strip() and piece.confidence >= (MIN_CONFIDENCE if len(piece.text.strip()) > 2 else least)
    ]


def _read_across(pixels: Pixels, piece: Piece, sideways: bool, flipped: bool) -> list[Piece]:
    """A box that is long the other way: a line running up or down, one narrow letter, or lines run together."""
    crop = _crop(pixels, piece.quad, not sideways)
    both = _recognise([crop, _flip(crop)])
    text, confidence = max(both, key=lambda one: one[1])
    best = [piece]
    if len(text) > 1 and confidence > piece.confidence + 0.02 * (len(piece.text) == 1):
        best = [Piece(text, confidence, piece.quad, across=True)]
    parts = _split(pixels, piece.quad, sideways) if len(best[0].text) < 2 or best[0].confidence < SURE else []
    if len(parts) > 1:
        crops = [_crop(pixels, quad, sideways) for quad in parts]
        read_parts = _recognise([_flip(crop) if flipped else crop for crop in crops])
        if fmean(confidence for _text, confidence in read_parts) > min(best[0].confidence, MIN_SPLIT):
            best = [Piece(t, c, q, across=False) for (t, c), q in zip(read_parts, parts, strict=True)]
    return best


def _split(pixels: Pixels, quad: Pixels, sideways: bool) -> list[Pixels]:
    """Cuts a box across its long side where no ink is; one box when that gives no parts of like size."""
    import numpy as np

    crop = _crop(pixels, quad, sideways).mean(axis=2)
    ink = np.abs(crop - np.median(crop)).max(axis=1)
    dark = [False, *(bool(value) for value in ink > 0.35 * max(float(ink.max()), 1.0)), False]
    edges = [at for at in range(1, len(dark)) if dark[at] != dark[at - 1]]
    letters = list(zip(edges[::2], edges[1::2], strict=True))
    sizes = [end - start for start, end in letters]
    if len(letters) < 2 or min(sizes) < 0.4 * max(sizes):
        return [quad]
    cuts = [0.0, *((left[1] + right[0]) / 2 - 1 for left, right in pairwise(letters)), float(len(ink))]
    shares = [cut / len(ink) for cut in cuts]
    top_left, top_right, bottom_right, bottom_left = quad[[1, 2, 3, 0]] if sideways else quad
    left, right = bottom_left - top_left, bottom_right - top_right
    return [
        np.array([top_left + left * start, top_right + right * start, top_right + right * end, top_left + left * end])
        for start, end in pairwise(shares)
    ]


def _weight(lines: list[tuple[str, float]]) -> float:
    return sum(confidence**2 * min(len(text), 20) for text, confidence in lines if confidence >= MIN_CONFIDENCE)


def _detect(pixels: Pixels) -> list[Pixels]:
    """Corners of each line in px, clockwise from the upper left as it stands in the picture."""
    import cv2

    scale = min(1.0, DETECT_SIDE / max(pixels.shape[:2]))
    if scale < 1:
        pixels = cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    # The detector misses text that touches the border.
    padded = cv2.copyMakeBorder(pixels, PAD, PAD, PAD, PAD, cv2.BORDER_REPLICATE)
    found = engine()(padded, use_det=True, use_cls=False, use_rec=False, box_thresh=DETECT_SCORE).boxes
    return [] if found is None else [_ordered((quad.astype(float) - PAD) / scale) for quad in found]


def _recognise(crops: list[Pixels]) -> list[tuple[str, float]]:
    if not crops:
        return []
    result = engine().recognize_txt(crops)
    return [(str(text), float(score)) for text, score in zip(result.txts, result.scores, strict=True)]


def _ordered(quad: Pixels) -> Pixels:
    """Corners from the upper left on: the first side is the one that points most to the right."""
    import numpy as np

    sides = np.roll(quad, -1, axis=0) - quad
    return np.roll(quad, -int(np.argmax(sides[:, 0] / (np.hypot(sides[:, 0], sides[:, 1]) + 1e-9))), axis=0)


def _crop(pixels: Pixels, quad: Pixels, quarter: bool) -> Pixels:
    """The box cut out and levelled, turned a quarter counter-clockwise when `quarter`."""
    import cv2
    import numpy as np

    width = max(1, round(max(math.dist(quad[0], quad[1]), math.dist(quad[3], quad[2]))))
    height = max(1, round(max(math.dist(quad[0], quad[3]), math.dist(quad[1], quad[2]))))
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], dtype=np.float32)
    matrix = cv2.getPerspectiveTransform(quad.astype(np.float32), corners)
    crop = cv2.warpPerspective(pixels, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    turned: Pixels = np.rot90(crop, 1 if quarter else 0)
    return turned


def _flip(crop: Pixels) -> Pixels:
    return crop[::-1, ::-1]


def _aspect(quad: Pixels) -> float:
    return math.dist(quad[0], quad[3]) / max(math.dist(quad[0], quad[1]), 1e-6)


def _is_tall(quad: Pixels) -> bool:
    return _aspect(quad) >= TALL


def _length(quad: Pixels) -> float:
    return max(math.dist(quad[0], quad[3]), math.dist(quad[0], quad[1]))


def _thresholded(pixels: Pixels) -> Pixels:
    """Dark on white whatever the light: the local background is divided out and the contrast spread."""
    import cv2

    grey = cv2.cvtColor(pixels, cv2.COLOR_BGR2GRAY)
    size = max(31, (min(grey.shape) // 20) | 1)
    background = cv2.medianBlur(cv2.dilate(grey, cv2.getStructuringElement(cv2.MORPH_RECT, (9, 9))), min(size, 255))
    even = cv2.divide(grey, background, scale=255)
    spread = cv2.normalize(cv2.medianBlur(even, 3), None, 0, 255, cv2.NORM_MINMAX)
    three: Pixels = cv2.cvtColor(spread, cv2.COLOR_GRAY2BGR)
    return three


def _turn(quad: Pixels, rotation: int, size: tuple[int, int]) -> Pixels:
    """Corners after a counter-clockwise turn of the whole picture."""
    width, height = size
    x, y = quad[:, 0], quad[:, 1]
    turned = {0: (x, y), 90: (y, width - x), 180: (width - x, height - y), 270: (height - y, x)}
    return _stack(*turned[rotation])


def _slopes(quads: list[Pixels]) -> list[tuple[float, float, float]]:
    """(degrees counter-clockwise that level the line, its length px, its y px) of lines much longer than high.

    Where all lines are short, shorter ones count too, but only a slope that is clear on them.
    """
    found: list[tuple[float, float, float]] = []
    short: list[tuple[float, float, float]] = []
    for quad in quads:
        along = (quad[1] - quad[0] + quad[2] - quad[3]) / 2
        length, height = float(math.hypot(*along)), math.dist(quad[0], quad[3])
        angle = math.degrees(math.atan2(float(along[1]), float(along[0])))
        if length > LONG_LINE * height:
            found.append((angle, length, float(quad[:, 1].mean())))
        elif length > SHORT_LINE * height and abs(angle) > CLEAR_SKEW:
            short.append((angle, length, float(quad[:, 1].mean())))
    return found or (short if len(short) > len(quads) / 2 else [])


def _median(slopes: list[tuple[float, float, float]]) -> float:
    """The slope that half of the text, by length, does not exceed; slopes that do not matter count as 0."""
    half = sum(length for _angle, length, _y in slopes) / 2
    for angle, length, _y in sorted(slopes):
        half -= length
        if half <= 0:
            return angle if abs(angle) >= MIN_SKEW else 0.0
    return 0.0


def _drift(slopes: list[tuple[float, float, float]], skew: float) -> Callable[[float], float]:
    """How far the slope at a y lies from the median slope, in degrees; zero without enough lines to tell."""
    close = [(angle - skew, length, y) for angle, length, y in slopes if abs(angle - skew) < MAX_DRIFT]
    total = sum(length for _angle, length, _y in close)
    if len(close) < 5:
        return lambda _y: 0.0
    mean_y = sum(length * y for _angle, length, y in close) / total
    mean = sum(length * angle for angle, length, _y in close) / total
    spread = sum(length * (y - mean_y) ** 2 for _angle, length, y in close)
    rate = sum(length * (y - mean_y) * (angle - mean) for angle, length, y in close) / max(spread, 1e-9)
    return lambda y: max(-MAX_DRIFT, min(MAX_DRIFT, mean + rate * (y - mean_y)))


def _stack(x: Pixels, y: Pixels) -> Pixels:
    import numpy as np

    return np.stack([x, y], axis=1)


def _bounds(quad: Pixels) -> tuple[float, float, float, float]:
    return float(quad[:, 0].min()), float(quad[:, 1].min()), float(quad[:, 0].max()), float(quad[:, 1].max())
