"""Sums of a table's number columns, exact: small language models copy numbers well and add them badly.

Left out is what nobody adds up: codes, years, line numbers, percentages, unit prices, and columns with a printed total.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise, permutations

from orion.toolsets.amounts import Printed, decimal_mark, parse, value_of
from orion.toolsets.layout import Span, cells_of, rows_of
from orion.toolsets.tables import aligned_tables

MAX_TABLES = 4  # summed on one page
MAX_COLUMNS = 6  # summed in one table
MAX_TITLE = 40  # characters of a line above a table that may be its title
TITLE_GAP = 2.5  # line heights between a title and its table
NAME_CHARS = 30
HEAD_ROWS = 2  # rows of a heading
LIKE_CODES = 6  # whole numbers that all have the same number of digits, at least this many
CENT = Decimal("0.01")
CLEAR = 100  # a printed number below this may equal a sum by chance, unless it stands in a line of totals

Rows = Sequence[Sequence[str]]

_NOTHING = {"", "-", "–", "—", "−", "n/a", "/", "."}
# Rows that are not entries: totals, taxes and statistics, in the languages of common invoices.
_TOTALS = re.compile(
    r"total|\bsum(?:s|m[ae]|a|e)?\b|summe|\bsomme|gesamt|\bnett?o?\b|\bbrutto|\bgross\b|\bbalance|\bsaldo|\bsolde|\bdue\b"
    r"|\bà payer|\bzu zahlen|\bvat\b|\btax\b|\bmwst|\bust\b|\btva\b|\biva\b|\bbtw\b|\bmoms\b|\bttc\b|\bimponibile"
    r"|\brazem|\btotaal|\bi alt\b|\baverage|\bavg\b|\bmean\b|\bmedian|\bdurchschnitt|\bmittelwert|\bmoyenne|\bmedia\b"
    r"|\bmin(?:imum)?\b|\bmax(?:imum)?\b|payable|carried|übertrag|\bchange\b",
    re.IGNORECASE,
)
_RATES = re.compile(
    r"\bunit|\brate\b|\beach\b|\bper\b|einzel|stückpreis|\bp\.? ?u\.?\b|\bunit(?:ario|aire|ário)|%|°|percent|prozent"
    r"|/ ?(?:min|h|s|kg|l|m²?|km|day|month|year|hour|pcs?|unit|stk|st)\b"
    r"|\bbalance|\bsaldo|\bsolde|\bavg|\baverage|\bmean|\bage\b|\brank|\bscore|\bindex|\btemp|\bratio",
    re.IGNORECASE,
)
_CODES = re.compile(
    r"(?:\b(?:no|nr|num|number|nummer|numéro|número|id|code|sku|upc|ean|isbn|zip|plz|phone|tel|telefon|fax|date|datum|year"
    r"|jahr|année|año|anno|page|seite|room|line|pos|position|platform|gate|track|gleis|seat|floor"
    r"|postcode|account|konto)\.?|[#№]|n[°º])$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ColumnSum:
    """The heading of a column ("" when it has none) and what its numbers add up to."""

    name: str
    value: Decimal

    def __str__(self) -> str:
        equals = " = " if self.name[-1:].isdigit() else " "
        return f"{self.name}{equals}{self.value:f}".strip()


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table as it stands on a page; `first` tells that nothing stands above it."""

    page: int
    title: str
    rows: Rows
    first: bool = False


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of numbers, row by row; `total` is None when it is printed in the table already."""

    name: str
    values: list[Decimal | None]
    total: Decimal | None
    money: bool

    @property
    def precision(self) -> tuple[bool, int]:
        """What tells a unit price from a quantity: a currency, then more decimals."""
        return self.money, max(-int(value.as_tuple().exponent) for value in self.values if value is not None)


def column_sums(rows: Rows) -> list[ColumnSum]:
    """Sums of the columns worth adding up; the first rows may be headings.

    >>> head = ["Item", "Qty", "Price", "Amount"]
    >>> rows = [head, ["Bolt", "12", "$0.50", "$6.00"], ["Nut", "1,000", "$0.20", "$200.00"]]
    >>> "; ".join(map(str, column_sums(rows)))
    'Qty 1012; Amount 206.00'
    >>> column_sums([*rows, ["Total", "", "", "$206.00"]]), column_sums([["0071", "2024"], ["0072", "2025"]])
    ([ColumnSum(name='Qty', value=Decimal('1012'))], [])
    """
    found: dict[int, _Column] = {}
    mark = decimal_mark([cell for row in rows for cell in row])
    if mark is None or len(rows) < 2:
        return []
    start = 1 if _years_as_heading(rows) else 0
    totals = [_is_total(row) for row in rows]
    for at in range(len(rows[0])):
        column = _column([row[at] for row in rows], totals, start, mark, leftmost=at == 0)
        if column is not None:
            found[at] = column
    rates = _rates(found)
    kept = [column for at, column in found.items() if at not in rates and not _RATES.search(column.name)]
    return [ColumnSum(column.name, column.total) for column in kept if column.total][:MAX_COLUMNS]


def words_for(sums: Sequence[ColumnSum]) -> str:
    """`Quantity 2300; Amount 1403.00`, or "" without sums."""
    return "; ".join(map(str, sums))


def sheets_of(spans: Sequence[Span], page: int) -> list[Sheet]:
    """The tables of a page by how its words stand under each other, each with the line above it."""
    spans = [span for span in spans if span.text.strip()]
    lines = [cells_of(row) for row in rows_of(spans)]
    sheets = []
    for grid in aligned_tables(spans):
        above = [line for line in lines if max(cell.y1 for cell in line) <= grid.y0 + 1e-6]
        title = above[-1][0] if above and len(above[-1]) == 1 else None
        near = title is not None and grid.y0 - title.y1 <= TITLE_GAP * title.height and len(title.text) <= MAX_TITLE
        sheets.append(Sheet(page, title.text if title and near else "", grid.rows, first=not above))
    return sheets


def lines_for(sheets: Sequence[Sheet], spans: Sequence[Span], *, goes_on: bool = False) -> dict[int, str]:
    """One line of sums for each page that has a table worth it, by page.

    `spans` are all words of these pages. With `goes_on` the last table may be continued on a page that is not known.
    """
    joined = _joined(sheets)
    last = joined[-1] if joined and goes_on else None
    printed = _printed(spans)
    by_page: dict[int, list[Sheet]] = {}
    for sheet in joined:
        by_page.setdefault(sheet.page, []).append(sheet)
    lines: dict[int, str] = {}
    for page, on_page in by_page.items():
        several = sum(len(sheet.rows) > 1 for sheet in on_page) > 1
        found = []
        for sheet in on_page:
            # Whoever prints one total has printed those that matter.
            done = sheet is last or any(_is_total(row) and any(map(parse, row)) for row in sheet.rows)
            sums = [] if done else column_sums(sheet.rows)
            if sums and not any(one.value in printed for one in sums):
                found.append((sheet.title, sums))
        if not found:
            continue
        parts = [
            f"{title}: {', '.join(map(str, sums))}" if title and several else words_for(sums) for title, sums in found
        ]
        lines[page] = f"column sums: {'; '.join(parts[:MAX_TABLES])}"
    return lines


def line_for(spans: Sequence[Span]) -> str:
    """The line of sums of a single page or picture, "" when there is none."""
    return lines_for(sheets_of(spans, 1), spans).get(1, "")


def _joined(sheets: Sequence[Sheet]) -> list[Sheet]:
    """Tables that go on, under a gap or on the next page, put together; each stands where it ends."""
    joined: list[Sheet] = []
    for sheet in sheets:
        before = joined[-1] if joined else None
        if before is None or len(before.rows[0]) != len(sheet.rows[0]):
            joined.append(sheet)
            continue
        next_page = sheet.first and sheet.page == before.page + 1
        repeated = next_page and list(sheet.rows[0]) == list(before.rows[0])
        bare = (next_page or sheet.page == before.page) and any(map(parse, sheet.rows[0])) and not sheet.title
        if repeated or bare:
            joined[-1] = replace(before, page=sheet.page, rows=[*before.rows, *sheet.rows[1 if repeated else 0 :]])
        else:
            joined.append(sheet)
    return joined


def _printed(spans: Sequence[Span]) -> set[Decimal]:
    """Numbers on the page that are totals: they stand in a line that says so, or are too large to agree by chance."""
    found: set[Decimal] = set()
    lines = [[cell.text for cell in cells_of(row)] for row in rows_of([span for span in spans if span.text.strip()])]
    mark = decimal_mark([cell for line in lines for cell in line]) or "."
    for line in lines:
        for cell in line:
            number = parse(cell) or parse(cell.rpartition(" ")[2])
            value = value_of(number, mark) if number else None
            if value is not None and (_is_total(line) or value != value.to_integral_value() or abs(value) >= CLEAR):
                found.add(value)
    return found


def _column(cells: list[str], totals: list[bool], start: int, mark: str, leftmost: bool) -> _Column | None:
    """The numbers under a heading and their sum; None when they are not numbers to be added."""
    numbers = [parse(cell) for cell in cells]
    first = next((at for at in range(start, len(cells)) if numbers[at] is not None), len(cells))
    heading = " ".join(cell for cell in cells[:first] if cell.strip())
    if first > start + HEAD_ROWS or _CODES.search(heading):
        return None
    body = range(first, len(cells))
    if any(numbers[at] is None and cells[at].strip().lower() not in _NOTHING for at in body if not totals[at]):
        return None
    filled = {at: number for at in body if (number := numbers[at]) is not None and not totals[at]}
    if len(filled) < (2 if heading else 3) or 2 * len(filled) < len(body) - sum(totals):
        return None
    values = {at: value_of(number, mark) for at, number in filled.items()}
    plain = [value for value in values.values() if value is not None]
    currencies = {number.currency for number in filled.values() if number.currency}
    codes = any(number.code for number in filled.values()) or _look_like_codes(list(filled.values()))
    if len(plain) < len(filled) or len(currencies) > 1 or codes or _counts_up(plain, leftmost):
        return None
    has_total = any(totals[at] and numbers[at] for at in body) or _has_total(plain)
    total = None if has_total else sum(plain, Decimal(0))
    return _Column(heading[:NAME_CHARS].strip(), [values.get(at) for at in range(len(cells))], total, bool(currencies))


def _look_like_codes(numbers: list[Printed]) -> bool:
    """Years, or whole numbers that are all as long as an article number."""
    bodies = [number.body for number in numbers]
    if not all(body.isdigit() for body in bodies) or any(number.currency for number in numbers):
        return False
    years = all(len(body) == 4 and 1900 <= int(body) <= 2100 for body in bodies)
    return years or (len(bodies[0]) >= LIKE_CODES and len({len(body) for body in bodies}) == 1)


def _counts_up(values: list[Decimal], leftmost: bool) -> bool:
    """Line numbers and hours: 1, 2, 3 anywhere, in the first column even steps of any size from any start."""
    steps = {right - left for left, right in pairwise(values)}
    if len(steps) != 1 or not min(steps) > 0:
        return False
    from_start = values[0] in (0, *steps)
    return (from_start and steps == {Decimal(1)} and len(values) > 2) or (leftmost and (from_start or len(values) > 2))


def _has_total(values: list[Decimal]) -> bool:
    """A value that is the sum of the two or more above it."""
    above = Decimal(0)
    for at, value in enumerate(values):
        if at >= 2 and value == above and value:
            return True
        above += value
    return False


def _rates(found: dict[int, _Column]) -> set[int]:
    """Columns that, times a quantity, give an amount in every row."""
    rates: set[int] = set()
    for one, other, product in permutations(found, 3):
        values = zip(*(found[at].values for at in (one, other, product)), strict=True)
        rows = [(a, b, c) for a, b, c in values if a and b and c]
        amounts = sum(bool(value) for value in found[product].values)
        enough = one < other and len(rows) >= max(2, amounts - 1)
        if enough and all(abs(a * b - c) <= CENT for a, b, c in rows):
            # Between equals the rate stands behind the quantity.
            rates.add(one if found[one].precision > found[other].precision else other)
    return rates


def _years_as_heading(rows: Rows) -> bool:
    numbers = [number for cell in rows[0] if (number := parse(cell))]
    below = [number for row in rows[1:] for cell in row[1:] if (number := parse(cell))]
    return bool(numbers) and _look_like_codes(numbers) and parse(rows[0][0]) is None and not _look_like_codes(below)


def _is_total(row: Sequence[str]) -> bool:
    return any(_TOTALS.search(cell) for cell in row if len(cell) <= MAX_TITLE and parse(cell) is None)
