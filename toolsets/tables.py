"""Tables out of ruling lines, or out of how words stand under each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from orion.toolsets.layout import Row, Span, cells_of, is_number, rows_of

ROW_GAP = 2.2  # rows farther apart than this many row heights do not belong to one table
PROSE = 34  # mean characters of a cell beyond which aligned text is taken for columns of prose
WRAP_GAP = 1.0  # a lone cell this many heights under a row may still belong to it
ONE_LINE = 1.4  # a row starting within this many heights of the last one may continue it


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells as text and the extent of the table (in the unit of the words)."""

    rows: list[list[str]]
    x0: float
    y0: float
    x1: float
    y1: float
    ruled: bool

    @property
    def filled(self) -> int:
        """Cells that hold text."""
        return sum(bool(cell) for row in self.rows for cell in row)


def ruled_tables(path: Path, page: int) -> list[Grid]:
    """Tables with drawn lines on a page (index from 0); boxes in points from the upper left.

    Tables without text, and frames around a single cell, are left out.
    """
    import pdfplumber

    grids: list[Grid] = []
    with pdfplumber.open(path, pages=[page + 1]) as document:
        opened = document.pages[0]
        for table in opened.find_tables():
            rows = [[" ".join((cell or "").split()) for cell in row] for row in table.extract()]
            x0, y0, x1, y1 = (float(edge) for edge in table.bbox)
            grid = Grid(_trimmed(rows), x0, y0, x1, y1, ruled=True)
            if len(grid.rows) >= 2 and len(grid.rows[0]) >= 2 and _has_body(grid.rows):
                grids.append(grid)
    return grids


def aligned_tables(spans: Sequence[Span]) -> list[Grid]:
    """Tables whose columns are only shown by blanks.

    >>> table = (("Item", "Qty"), ("Bolt", "3"), ("Nut", "4"))
    >>> rows = zip((0, 15, 30), table)
    >>> words = [Span(text, x, y, x + 30, y + 10) for y, row in rows for x, text in zip((0, 99), row)]
    >>> aligned_tables(words)[0].rows
    [['Item', 'Qty'], ['Bolt', '3'], ['Nut', '4']]
    """
    rows = [cells_of(row) for row in rows_of([span for span in spans if span.text.strip()])]
    grids = []
    for run in _runs(rows):
        grid = _grid(run)
        if grid is not None:
            grids.append(grid)
    return grids


def without(spans: Sequence[Span], grids: Sequence[Grid]) -> list[Span]:
    """The words outside given tables."""
    return [
        span
        for span in spans
        if not any(g.x0 <= (span.x0 + span.x1) / 2 <= g.x1 and g.y0 <= span.middle <= g.y1 for g in grids)
    ]


def _runs(rows: list[Row]) -> list[list[Row]]:
    """Consecutive rows that may be one table: all but wrapped lines have two cells or more."""
    runs: list[list[Row]] = []
    run: list[Row] = []
    for row in rows:
        height = median(cell.height for cell in row)
        near = bool(run) and min(cell.y0 for cell in row) - max(cell.y1 for cell in run[-1]) <= ROW_GAP * height
        if near and (len(row) >= 2 or _wrapped(run, row[0])):
            run.append(row)
            continue
        if len(run) >= 2:
            runs.append(run)
        run = [row] if len(row) >= 2 else []
    if len(run) >= 2:
        runs.append(run)
    return runs


def _wrapped(run: list[Row], cell: Span) -> bool:
    """A lone cell right under the last row and inside one of its columns, with other rows to compare with."""
    last = run[-1]
    if cell.y0 - max(one.y1 for one in last) > WRAP_GAP * cell.height:
        return False
    columns = _columns(run)
    starts = [left for left, _right in columns]
    ends = [*starts[1:], columns[-1][1] + cell.height] if columns else []
    inside = [left - cell.height <= cell.x0 and cell.x1 < end for left, end in zip(starts, ends, strict=True)]
    return len(columns) >= 2 and any(inside)


def _columns(rows: list[Row]) -> list[tuple[float, float]]:
    """Extents of the columns: what no blank strip through (nearly) all rows cuts apart."""
    edges = sorted({edge for row in rows for cell in row for edge in (cell.x0, cell.x1)})
    allowed = len(rows) // 8  # rows that may bridge a gutter, e.g. a spanning heading
    columns: list[tuple[float, float]] = []
    for left, right in pairwise(edges):
        middle = (left + right) / 2
        covered = sum(any(cell.x0 < middle < cell.x1 for cell in row) for row in rows)
        if covered <= allowed:
            continue
        if columns and columns[-1][1] == left:
            columns[-1] = (columns[-1][0], right)
        else:
            columns.append((left, right))
    return columns


def _grid(run: list[Row]) -> Grid | None:
    columns = _columns(run)
    if len(columns) < 2:
        return None
    if len(columns) > 2 and all(len(row) == 2 and is_number(row[1].text) and not is_number(row[0].text) for row in run):
        # A list of names with numbers that do not stand under each other.
        return _bounded([[cell.text for cell in row] for row in run], run)
    rows: list[list[str]] = []
    previous_bottom = 0.0
    for row in run:
        cells = [""] * len(columns)
        for cell in row:
            at = max(range(len(columns)), key=lambda i: min(cell.x1, columns[i][1]) - max(cell.x0, columns[i][0]))
            cells[at] = f"{cells[at]} {cell.text}".strip()
        if (
            len(row) == 1
            and rows
            and row[0].y0 - previous_bottom < ONE_LINE * row[0].height
            and not is_number(row[0].text)
        ):
            rows[-1] = [f"{above} {text}".strip() for above, text in zip(rows[-1], cells, strict=True)]
        else:
            rows.append(cells)
        previous_bottom = max(cell.y1 for cell in row)
    return _bounded(rows, run)


def _bounded(rows: list[list[str]], run: list[Row]) -> Grid | None:
    """The grid of these cells and the extent of the words they came from, None when it is no table."""
    if not _is_table(rows):
        return None
    every = [cell for row in run for cell in row]
    return Grid(
        rows,
        min(cell.x0 for cell in every),
        min(cell.y0 for cell in every),
        max(cell.x1 for cell in every),
        max(cell.y1 for cell in every),
        ruled=False,
    )


def _is_table(rows: list[list[str]]) -> bool:
    """Enough rows and columns, mostly filled, and not prose set in columns."""
    cells = [cell for row in rows for cell in row if cell]
    if len(rows) < 2 or len(cells) < 0.55 * len(rows) * len(rows[0]):
        return False
    if sum(map(len, cells)) / len(cells) > PROSE:
        return False
    numbers = sum(any(is_number(cell) for cell in row) for row in rows)
    return len(rows) >= 3 or (len(rows[0]) >= 3 and numbers >= 1)


def _has_body(rows: list[list[str]]) -> bool:
    """More than a heading: a second row with text, or a row with two filled cells."""
    return sum(any(row) for row in rows) >= 2 and any(any(row) for row in rows[1:])


def _trimmed(rows: list[list[str]]) -> list[list[str]]:
    """Without rows and columns that are empty throughout."""
    rows = [row for row in rows if any(row)]
    if not rows:
        return []
    keep = [at for at in range(len(rows[0])) if any(row[at] for row in rows)]
    return [[row[at] for at in keep] for row in rows]
