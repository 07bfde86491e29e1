"""Words with boxes → text that keeps rows, columns and reading order. Pure Python, for text layers and OCR alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

CELL_GAP = 0.9  # a gap wider than this many row heights starts a new cell
WORD_GAP = 0.12  # a gap wider than this many row heights is a blank
GUTTER = 3  # blanks between two columns in the text
MAX_INDENT = 160  # characters; a wider grid is squeezed
PROSE_ROWS = 5  # rows side by side that make newspaper columns rather than a table
PROSE_CHARS = 22  # mean characters of a line in such a column


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of text and its box, y downwards, in any one unit."""

    text: str
    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def height(self) -> float:
        return self.y1 - self.y0

    @property
    def middle(self) -> float:
        return (self.y0 + self.y1) / 2


Row = list[Span]


def union(spans: Sequence[Span], text: str) -> Span:
    """One span around several."""
    return Span(
        text,
        min(span.x0 for span in spans),
        min(span.y0 for span in spans),
        max(span.x1 for span in spans),
        max(span.y1 for span in spans),
    )


def rows_of(spans: Sequence[Span]) -> list[Row]:
    """Spans that stand beside each other, top to bottom, each row left to right.

    >>> words = [Span("b", 50, 1, 60, 11), Span("c", 0, 20, 10, 30), Span("a", 0, 0, 10, 10)]
    >>> [[span.text for span in row] for row in rows_of(words)]
    [['a', 'b'], ['c']]
    """
    rows: list[tuple[Row, float, float]] = []
    for span in sorted(spans, key=lambda one: (one.middle, one.x0)):
        best, overlap = None, 0.0
        for index in range(len(rows) - 1, max(-1, len(rows) - 6), -1):
            _row, top, bottom = rows[index]
            shared = min(bottom, span.y1) - max(top, span.y0)
            share = shared / max(min(bottom - top, span.height), 1e-6)
            if share > 0.5 and share > overlap:
                best, overlap = index, share
        if best is None:
            rows.append(([span], span.y0, span.y1))
            continue
        row, top, bottom = rows[best]
        # The band of a row follows the mean, so that one tall span does not swallow the next row.
        count = len(row)
        row.append(span)
        rows[best] = (row, (top * count + span.y0) / (count + 1), (bottom * count + span.y1) / (count + 1))
    rows.sort(key=lambda one: one[1] + one[2])
    return [sorted(row, key=lambda span: span.x0) for row, _top, _bottom in rows]


def cells_of(row: Row, gap: float = CELL_GAP) -> Row:
    """Joins the words of a row that belong together; what stays apart are cells."""
    cells: list[list[Span]] = []
    for span in row:
        height = max(min(span.height, cells[-1][-1].height), 1e-6) if cells else 1.0
        if cells and span.x0 - max(one.x1 for one in cells[-1]) <= gap * height:
            cells[-1].append(span)
        else:
            cells.append([span])
    return [union(cell, _joined(cell)) for cell in cells]


def _joined(words: Sequence[Span]) -> str:
    text = words[0].text
    for left, right in pairwise(words):
        blank = right.x0 - left.x1 > WORD_GAP * min(left.height, right.height)
        text += (" " if blank else "") + right.text
    return text


def lay_out(spans: Sequence[Span]) -> str:
    """Text in reading order. Cells of a row are set apart by three or more blanks and stand under each other.

    >>> print(lay_out([
    ...     Span("Prices", 0, 0, 60, 10),
    ...     Span("Bolt", 0, 20, 40, 30), Span("3.75", 200, 20, 240, 30),
    ...     Span("Long pipe", 0, 40, 90, 50), Span("11.20", 190, 40, 240, 50),
    ... ]))
    Prices
    Bolt         3.75
    Long pipe   11.20
    """
    rows = [cells_of(row) for row in rows_of([span for span in spans if span.text.strip()])]
    if not rows:
        return ""
    pitch = median(max(cell.height for cell in row) for row in rows)
    out: list[str] = []
    block: list[Row] = []
    for row in [*rows, []]:
        far = bool(block and row) and row[0].y0 - block[-1][0].y1 > 2.5 * pitch
        if row and not far and (len(row) > 1 or _continues(block, row[0])):
            block.append(row)
            continue
        out += _block(block)
        if far:
            out.append("")
        block = [row] if len(row) > 1 else []
        if len(row) == 1:
            out.append(row[0].text)
    return "\n".join(line.rstrip() for line in out).strip("\n")


def _continues(block: list[Row], cell: Span) -> bool:
    """True when a lone cell stands inside one column of the rows above, e.g. a wrapped description."""
    if not block or cell.y0 - block[-1][0].y1 > cell.height:
        return False
    columns = _anchors(block)
    if len(columns) < 2 or len(block) < 2:
        return False
    starts = [left for left, _right in columns[1:]]
    inside = [left for left, _right in columns if left <= cell.x0 + cell.height]
    return bool(inside) and cell.x1 < min((x for x in starts if x > inside[-1]), default=columns[-1][1] + cell.height)


def _block(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    if len(rows) >= PROSE_ROWS:
        gutter = _prose_gutter(rows)
        if gutter is not None:
            left = [[cell for cell in row if cell.x1 <= gutter] for row in rows]
            right = [[cell for cell in row if cell.x0 >= gutter] for row in rows]
            return [*_block([row for row in left if row]), "", *_block([row for row in right if row])]
    if len({len(row) for row in rows}) == 1 and len(rows[0]) == 1:
        return [row[0].text for row in rows]
    return _grid(rows)


def _prose_gutter(rows: list[Row]) -> float | None:
    """The x between two columns of running text, or None."""
    pairs = [row for row in rows if len(row) == 2]
    if len(pairs) < 0.6 * len(rows):
        return None
    left, right = max(row[0].x1 for row in pairs), min(row[1].x0 for row in pairs)
    letters = [sum(len(row[side].text) for row in pairs) / len(pairs) for side in (0, 1)]
    if left >= right or min(letters) < PROSE_CHARS:
        return None
    gutter = (left + right) / 2
    return None if any(cell.x0 < gutter < cell.x1 for row in rows for cell in row) else gutter


def _grid(rows: list[Row]) -> list[str]:
    """Puts cells on a character grid and takes out the blanks that all rows share."""
    widths = [(cell.x1 - cell.x0) / len(cell.text) for row in rows for cell in row if len(cell.text) > 1]
    left = min(cell.x0 for row in rows for cell in row)
    extent = max(cell.x1 for row in rows for cell in row) - left
    unit = max(median(widths) if widths else 1.0, extent / MAX_INDENT, 1e-6)
    anchors = _anchors(rows)
    placed = [[(_column(cell, anchors, left, unit), cell.text) for cell in row] for row in rows]
    lines = []
    for row in placed:
        line = ""
        for start, text in row:
            line += " " * max(start - len(line), GUTTER if line else 0) + text
        lines.append(line)
    return _squeezed(lines)


def _anchors(rows: list[Row]) -> list[tuple[float, float]]:
    """Column extents: cells of different rows that overlap sideways, as (left, right)."""
    spans = sorted((cell.x0, cell.x1) for row in rows for cell in row)
    merged: list[tuple[float, float]] = []
    for start, end in spans:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _column(cell: Span, anchors: list[tuple[float, float]], left: float, unit: float) -> int:
    """The character column where a cell starts: flush with the nearer edge of its column."""
    for start, end in anchors:
        if start <= cell.x0 and cell.x1 <= end:
            if end - cell.x1 < cell.x0 - start:
                return max(0, round((end - left) / unit) - len(cell.text))
            return round((cell.x0 - left) / unit)
    return round((cell.x0 - left) / unit)


def _squeezed(lines: list[str]) -> list[str]:
    """Cuts runs of blanks that go through all lines to the width of a gutter."""
    width = max(map(len, lines))
    padded = [line.ljust(width) for line in lines]
    keep: list[int] = []
    run = 0
    for column in range(width):
        blank = all(line[column] == " " for line in padded)
        run = run + 1 if blank else 0
        if run <= GUTTER and not (blank and not keep):
            keep.append(column)
    return ["".join(line[column] for column in keep).rstrip() for line in padded]


def is_number(text: str) -> bool:
    """True for amounts, counts and percentages, with or without a currency.

    >>> [is_number(text) for text in ("$1,234.50", "-3 %", "12", "EUR 7,50", "3 March", "M8", "")]
    [True, True, True, True, False, False, False]
    """
    bare = re.sub(r"^(?:[A-Z]{3}|[$€£¥])|(?:[A-Z]{3}|[$€£¥%])$", "", text.strip()).strip()
    return re.fullmatch(r"[-+(]?\s?[$€£¥]?\s?\d[\d.,' ]*\)?", bare) is not None
