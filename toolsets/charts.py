"""Bar charts with printed values: which value belongs to which category and series, from labels and colours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from orion.toolsets.layout import Row, Span, rows_of

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

    Pixels = NDArray[Any]

Colour = tuple[float, float, float]  # red, green, blue, 0-255
MIN_TICKS = 3  # numbers in even steps that make a value axis
STEP_ERROR = 0.08  # of a step, by which a tick may miss its place
SPACING_ERROR = 0.2  # of the pitch, by which a category may miss its place
COLOUR_NEAR = 60.0  # distance in RGB within which two colours count as one
MIN_SHARE = 0.7  # of the numbers in the plot that must find their category and bar


@dataclass(slots=True)
class Chart:
    """Values by category, then by series; the series is "" when there is no legend."""

    values: dict[str, dict[str, str]]
    axis: tuple[str, str] | None = None
    """Lowest and highest tick of the value axis."""
    other: list[str] = field(default_factory=list)
    """Titles and whatever else is printed."""

    def text(self) -> str:
        """One line a category."""
        lines = ["bar chart, values printed at the bars:"]
        known = list(dict.fromkeys(series for bars in self.values.values() for series in bars))
        for category, bars in self.values.items():
            read = {series: bars.get(series, "(not read)") for series in known}
            shown = ", ".join(f"{series}={value}" if series else value for series, value in read.items())
            lines.append(f"{category}: {shown}")
        if self.axis:
            lines.append(f"value axis from {self.axis[0]} to {self.axis[1]}")
        if self.other:
            lines.append(f"other text: {'; '.join(self.other)}")
        return "\n".join(lines)


def number(text: str) -> float | None:
    """The number a label shows, or None.

    >>> [number(text) for text in ("0.7", "1,204", "12%", "$ 5", "3.5k", "A", "")]
    [0.7, 1204.0, 12.0, 5.0, 3.5, None, None]
    """
    bare = re.sub(r"^[$€£]\s?|\s?[%kKmMbB€]$", "", text.strip()).replace("−", "-")
    if not re.fullmatch(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?|-?\d+(?:[.,]\d+)?", bare):
        return None
    grouped = re.fullmatch(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?", bare)
    return float(bare.replace(",", "") if grouped else bare.replace(",", "."))


def read_chart(image: Image.Image, spans: Sequence[Span]) -> Chart | None:
    """The chart that labelled text (px of the upright image) makes up, or None when it is not clearly one."""
    import numpy as np

    pixels = np.asarray(image.convert("RGB")).astype(np.int16)
    colours = _Colours(pixels)
    legend = _legend(spans, colours)
    rest = [span for span in spans if span not in legend]
    ticks = _value_axis(rest)
    rest = [span for span in rest if span not in ticks]
    categories = _categories(rest, ticks)
    if len(categories) < 2:
        return None
    pitch = min(b - a for a, b in _pairs(sorted(_centre(span) for span in categories)))
    top = min(span.y0 for span in categories)
    numbers = [span for span in rest if span not in categories and number(span.text) is not None and span.middle < top]
    values: dict[str, dict[str, str]] = {span.text: {} for span in categories}
    used: list[Span] = []
    for span in sorted(numbers, key=_centre):
        nearest = min(categories, key=lambda one: abs(_centre(one) - _centre(span)))
        bar = colours.bar(span)
        if bar is None or abs(_centre(nearest) - _centre(span)) > 0.6 * pitch:
            continue
        series = _series(bar, legend)
        if series is None or series in values[nearest.text]:
            return None
        values[nearest.text][series] = span.text
        used.append(span)
    if len(used) < max(2, MIN_SHARE * len(numbers)) or len(values) != len(categories):
        return None
    other = [span.text for span in rest if span not in categories and span not in used]
    order = [span.text for span in legend] or [""]
    values = {name: {series: bars[series] for series in order if series in bars} for name, bars in values.items()}
    lowest, highest = (ticks[0].text, ticks[-1].text) if ticks else ("", "")
    return Chart(values, (lowest, highest) if ticks else None, other)


def _centre(span: Span) -> float:
    return (span.x0 + span.x1) / 2


def _pairs(values: Sequence[float]) -> list[tuple[float, float]]:
    return list(pairwise(values))


def _value_axis(spans: Sequence[Span]) -> list[Span]:
    """The ticks of an upright value axis, lowest value first: numbers under each other in even steps."""
    numbers = [span for span in spans if number(span.text) is not None]
    best: list[Span] = []
    for side in ("x1", "x0"):
        for anchor in numbers:
            edge = getattr(anchor, side)
            column = [span for span in numbers if abs(getattr(span, side) - edge) < 0.6 * anchor.height]
            column.sort(key=lambda span: -span.middle)
            if len(column) > max(len(best), MIN_TICKS - 1) and _even(column):
                best = column
    return best


def _even(column: Sequence[Span]) -> bool:
    """True when the values rise in proportion to the height."""
    values = [number(span.text) or 0.0 for span in column]
    heights = [-span.middle for span in column]
    rise, run = values[-1] - values[0], heights[-1] - heights[0]
    if rise <= 0 or run <= 0:
        return False
    step = run / (len(column) - 1)
    return all(
        abs((value - values[0]) / rise * run - (height - heights[0])) < STEP_ERROR * step + 0.15 * span.height
        for value, height, span in zip(values, heights, column, strict=True)
    )


def _categories(spans: Sequence[Span], ticks: Sequence[Span]) -> Row:
    """The lowest row of two or more labels in even distances, under the plot."""
    floor = max((span.y0 for span in ticks), default=float("-inf"))
    rows = [row for row in rows_of(spans) if len(row) >= 2 and fmean(span.middle for span in row) > floor]
    for row in reversed(rows):
        gaps = [b - a for a, b in _pairs([_centre(span) for span in row])]
        if min(gaps) > 0 and max(gaps) - min(gaps) <= 2 * SPACING_ERROR * median(gaps):
            return row
    return []


def _legend(spans: Sequence[Span], colours: _Colours) -> dict[Span, Colour]:
    """Labels with a patch of colour to their left, when there are two or more different ones.

    Numbers, e.g. years, count only when they stand under each other: a value at a bar may have another bar beside it.
    """
    patches = {span: patch for span in spans if (patch := colours.swatch(span)) is not None}
    words = {span: patch for span, patch in patches.items() if number(span.text) is None}
    if _distinct(words):
        return words
    for anchor in patches:
        column = {span: patches[span] for span in patches if abs(span.x0 - anchor.x0) < 0.5 * anchor.height}
        if _distinct(column):
            return column
    return {}


def _distinct(patches: dict[Span, Colour]) -> bool:
    """True for two or more patches of which no two are alike."""
    colours = list(patches.values())
    alike = [_distance(a, b) <= COLOUR_NEAR / 2 for at, a in enumerate(colours) for b in colours[:at]]
    return len(colours) >= 2 and not any(alike)


def _series(bar: Colour, legend: dict[Span, Colour]) -> str | None:
    if not legend:
        return ""
    span = min(legend, key=lambda one: _distance(legend[one], bar))
    return span.text if _distance(legend[span], bar) <= COLOUR_NEAR else None


def _distance(a: Sequence[float], b: Sequence[float]) -> float:
    return float(sum((one - other) ** 2 for one, other in zip(a, b, strict=True)) ** 0.5)


class _Colours:
    """Colours of small regions, told apart from the background."""

    def __init__(self, pixels: Pixels) -> None:
        import numpy as np

        self.pixels = pixels
        coarse = (pixels[::3, ::3] // 16).reshape(-1, 3)
        keys, counts = np.unique(coarse, axis=0, return_counts=True)
        self.background = tuple(float(part) * 16 + 8 for part in keys[int(np.argmax(counts))])

    def bar(self, label: Span) -> Colour | None:
        """The colour just under the middle of a label, or just above it for a bar that hangs down."""
        third = (label.x1 - label.x0) / 6
        x0, x1 = _centre(label) - third, _centre(label) + third
        height = label.height
        below = self._main(x0, label.y1, x1, label.y1 + height, share=0.4)
        return below or self._main(x0, label.y0 - height, x1, label.y0, share=0.4)

    def swatch(self, label: Span) -> Colour | None:
        """The colour of the patch left of a label."""
        height = label.height
        return self._main(
            label.x0 - 1.6 * height, label.middle - height / 5, label.x0 - 0.2 * height, label.middle + height / 5
        )

    def _main(self, x0: float, y0: float, x1: float, y1: float, share: float = 0.2) -> Colour | None:
        """The most frequent colour that is not background, if it covers a share of the region."""
        import numpy as np

        rows, columns = self.pixels.shape[:2]
        left, top = max(0, round(x0)), max(0, round(y0))
        region = self.pixels[top : min(rows, max(round(y1), top + 1)), left : min(columns, max(round(x1), left + 1))]
        flat = region.reshape(-1, 3)
        if not len(flat):
            return None
        far = flat[np.sqrt(((flat - np.array(self.background)) ** 2).sum(axis=1)) > COLOUR_NEAR]
        if len(far) < share * len(flat):
            return None
        keys, counts = np.unique(far // 24, axis=0, return_counts=True)
        if int(np.max(counts)) < 0.5 * share * len(flat):
            return None
        chosen = far[(far // 24 == keys[int(np.argmax(counts))]).all(axis=1)]
        red, green, blue = (float(part) for part in chosen.mean(axis=0))
        return red, green, blue
