"""The document toolset: a PDF's pages, text, tables, form fields, and where a text stands."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from PIL import Image
from pydantic import BaseModel, Field

from orion.errors import ToolRetry
from orion.geometry import Box
from orion.tools import Document, Look, Toolset, tool
from orion.toolsets import ocr, pdf, search, tables
from orion.toolsets.forms import FormField, read_fields
from orion.toolsets.layout import Span, lay_out

NEEDS = ("pypdfium2",)
EXTRA = "document"
MIN_TEXT = 10  # characters; a page with fewer has no text layer worth reading
OCR_DPI = 200
MAX_OCR_PAGES = 10  # pages read by OCR in one call
LOOK_OCR_PAGES = 3  # pages read by OCR in a first look
MAX_HITS = 50
MIN_ROOM = 80  # characters of its first page a look shows whatever its budget
MAX_OUTLINE = 12  # pages not shown whose first line is
OUTLINE_CHARS = 60
LABELLED_PAGES = 20  # pages whose form fields get labels in a first look


class Table(BaseModel):
    """One table; `box` is in 0–1 of the page. `ruled` tells whether its lines are drawn."""

    page: int
    rows: list[list[str]]
    box: Box
    ruled: bool

    @property
    def empty(self) -> bool:
        """True for headings over a single remark such as "no results"."""
        body = [sum(bool(cell) for cell in row) for row in self.rows[1:]]
        return len(self.rows[0]) >= 3 and body == [1]

    def for_model(self) -> str:
        """The cells, one row a line."""
        columns = len(self.rows[0])
        if self.empty:
            return f"table on page {self.page} without entries, headings: {' | '.join(self.rows[0])}"
        head = f"table on page {self.page}, {len(self.rows)} rows x {columns} columns:"
        return "\n".join([head, *(" | ".join(row) for row in self.rows)])


class Found(BaseModel):
    """A place where a text stands; `boxes` (0–1 of the page) are more than one when it breaks over lines."""

    page: int
    boxes: list[Box]
    line: str
    exact: bool = True

    def for_model(self) -> str:
        """Page, position and the line around it."""
        box = self.boxes[0]
        where = f"x={box.x:.3f} y={box.y:.3f} w={box.w:.3f} h={box.h:.3f}"
        return f"page {self.page}, {where}{'' if self.exact else ' (similar)'}: {self.line}"


@tool(needs=NEEDS, extra=EXTRA)
def open_document(document: Document) -> str:
    """Tell a PDF's pages, page sizes, title, and whether it has text and form fields.

    Returns:
        One short text; sizes are in points (1/72 inch).
    """
    with pdf.opened(document) as opened:
        return "; ".join(_facts(opened))


@tool(needs=NEEDS, extra=EXTRA)
def render_page(
    document: Document, page: Annotated[int, Field(ge=1)] = 1, dpi: Annotated[int, Field(ge=10, le=600)] = 144
) -> Image.Image:
    """Make an image of one page.

    Args:
        page: page number from 1.
        dpi: dots per inch; a page may have at most 25 million pixels.
    """
    with pdf.opened(document) as opened:
        sheet = opened[pdf.checked_page(opened, page)]
        finest = pdf.max_dpi(sheet)
        if dpi > finest:
            width, height = pdf.size(sheet)
            raise ToolRetry(f"page {page} is {width:.0f}x{height:.0f} pt; use dpi={max(finest, 10)} or less")
        picture = pdf.render(sheet, dpi)
        picture.info["dpi"] = (dpi, dpi)
        return picture


@tool(needs=NEEDS, extra=EXTRA)
def read_text(document: Document, pages: str | None = None) -> str:
    """Read the text of pages, columns and rows kept; scanned pages are read by OCR.

    Args:
        pages: such as "2", "1-3" or "1,4-5"; all pages by default.
    """
    with pdf.opened(document) as opened:
        numbers = pdf.parse_pages(pages, len(opened))
        parts = []
        budget = MAX_OCR_PAGES
        for number in numbers:
            spans, scanned = _page_words(opened, number - 1, allow_ocr=budget > 0)
            budget -= scanned
            parts.append(f"page {number}:\n{_page_text(spans, scanned, number)[0]}")
        return "\n\n".join(parts)


@tool(needs=NEEDS, extra=EXTRA, empty="{query} was not found in the document.")
def find_text(document: Document, query: str) -> list[Found]:
    """Find where a text stands: page, box and the line around it.

    Args:
        query: text to look for; case, blanks and accents do not matter.

    Returns:
        Places in page order, at most 50. When nothing matches exactly, similar lines are given.
    """
    if not query.strip():
        raise ToolRetry("find_text: query is empty")
    found: list[Found] = []
    with pdf.opened(document) as opened:
        pages = [_letters(opened, index) for index in range(len(opened))]
        for matcher in (search.exact, search.similar):
            for index, letters in enumerate(pages):
                width, height = pdf.size(opened[index])
                for hit in matcher(letters, query):
                    boxes = [Box.from_xyxy_px(s.x0, s.y0, s.x1, s.y1, width, height).clamp() for s in hit.boxes]
                    found.append(Found(page=index + 1, boxes=boxes, line=hit.line, exact=hit.exact))
            if found:
                break
    return found[:MAX_HITS]


@tool(needs=(*NEEDS, "pdfplumber"), extra=EXTRA, empty="No table with text was found.")
def extract_tables(document: Document, page: Annotated[int, Field(ge=1)] | None = None) -> list[Table]:
    """Extract tables as rows of cells, with or without drawn lines, also from scans.

    Args:
        page: page number from 1; all pages by default.

    Returns:
        Tables in reading order; empty ones are left out.
    """
    found: list[Table] = []
    with pdf.opened(document) as opened:
        indexes = range(len(opened)) if page is None else [pdf.checked_page(opened, page)]
        for index in indexes:
            words, scanned = _page_words(opened, index)
            ruled = [] if scanned else tables.ruled_tables(document, index)
            grids = [*ruled, *tables.aligned_tables(tables.without(words, ruled))]
            width, height = pdf.size(opened[index])
            for grid in sorted(grids, key=lambda one: (one.y0, one.x0)):
                box = Box.from_xyxy_px(grid.x0, grid.y0, grid.x1, grid.y1, width, height).clamp()
                found.append(Table(page=index + 1, rows=grid.rows, box=box, ruled=grid.ruled))
    return found


@tool(needs=(*NEEDS, "pypdf"), extra=EXTRA, empty="The document has no form fields.")
def form_fields(document: Document) -> list[FormField]:
    """List form fields with their values and whether boxes are checked."""
    with pdf.opened(document) as opened:
        words = {index: pdf.words(pdf.characters(opened[index])) for index in range(len(opened))}
    return read_fields(document, words)


def look(path: Path, meta: dict[str, Any], budget_chars: int, text_only: bool) -> Look:
    """The first observation of a PDF: pages, form fields, and as much text in layout as the budget allows."""
    covers = ["open_document"]
    with pdf.opened(path) as opened:
        parts = ["; ".join(_facts(opened))]
        if opened.get_formtype():
            part, whole = _form_part(path, opened, budget_chars // 2)
            parts.append(part)
        else:
            whole = True
        if whole:
            covers.append("form_fields")
        pages, whole = _page_parts(opened, budget_chars - sum(map(len, parts)))
        if whole:
            covers.append("read_text")
        return Look("\n".join([*parts, *pages]), tuple(covers))


def _page_parts(opened: Any, room: int) -> tuple[list[str], bool]:
    """The text of the first pages within `room` characters, and whether that is everything."""
    parts: list[str] = []
    count, ocr_left = len(opened), LOOK_OCR_PAGES
    for index in range(count):
        if index and room < MIN_ROOM:
            return [*parts, *_left_out(opened, index)], False
        spans, scanned = _page_words(opened, index, allow_ocr=ocr_left > 0)
        ocr_left -= scanned
        text, read = _page_text(spans, scanned, index + 1)
        part, whole = _cut(text, max(room, MIN_ROOM))
        parts.append(f"page {index + 1}{' (scanned, read by OCR)' if scanned else ''}:\n{part}")
        room -= len(parts[-1])
        if not whole:
            parts.append(f"[page {index + 1} is cut; read_text(document, pages='{index + 1}') reads all of it]")
            return [*parts, *_left_out(opened, index + 1)], False
        if not read:
            return [*parts, *_left_out(opened, index + 1)], False
    return parts, True


def _left_out(opened: Any, index: int) -> list[str]:
    """What the pages from `index` on begin with, and how to read them."""
    count = len(opened)
    if index >= count:
        return []
    lines = []
    for at in range(index, min(count, index + MAX_OUTLINE)):
        first = next((line for line in lay_out(pdf.words(pdf.characters(opened[at]))).splitlines() if line.strip()), "")
        lines.append(
            f"page {at + 1} begins: {' '.join(first.split())[:OUTLINE_CHARS]}" if first else f"page {at + 1}: scan"
        )
    rest = f"{index + 1}-{count}" if index + 1 < count else str(count)
    lines.append(f"[{count} pages; read_text(document, pages='{rest}') reads the rest]")
    return lines


def _form_part(path: Path, opened: Any, budget: int) -> tuple[str, bool]:
    """The form fields within a budget of characters, and whether these are all."""
    if importlib.util.find_spec("pypdf") is None:
        return 'form fields cannot be read: pip install "orion-visual-agent[document]"', False
    words = {index: pdf.words(pdf.characters(opened[index])) for index in range(min(len(opened), LABELLED_PAGES))}
    fields = read_fields(path, words)
    if not fields:
        return "no form fields", True
    text, whole = _cut("\n".join(field.for_model() for field in fields), budget)
    return f"form fields:\n{text}" + ("" if whole else f"\n[cut; form_fields(document) lists all {len(fields)}]"), whole


def _cut(text: str, room: int) -> tuple[str, bool]:
    """The text up to a line's end within `room` characters, and whether that is all."""
    if len(text) <= room:
        return text, True
    end = text.rfind("\n", 0, room)
    return text[: end if end > room // 2 else room].rstrip(), False


def _facts(opened: Any) -> list[str]:
    count = len(opened)
    facts = [f"PDF, {count} page{'s' if count != 1 else ''}"]
    sizes = [tuple(round(side) for side in pdf.size(opened[index])) for index in range(min(count, 200))]
    width, height = sizes[0]
    facts.append(f"{width}x{height} pt" + ("" if len(set(sizes)) == 1 else " (sizes differ)"))
    title = str(opened.get_metadata_dict().get("Title") or "").strip()
    if title and title.lower() not in ("untitled", "(anonymous)"):
        facts.append(f"title: {title[:100]}")
    texts = [opened[index].get_textpage().count_chars() >= MIN_TEXT for index in range(min(count, 200))]
    if not all(texts):
        facts.append("no text layer (scanned)" if not any(texts) else f"{texts.count(False)} pages without text layer")
    if opened.get_formtype():
        facts.append("has form fields")
    return facts


def _ocr_missing() -> bool:
    return any(importlib.util.find_spec(module) is None for module in ocr.NEEDS)


def _page_words(opened: Any, index: int, allow_ocr: bool = True) -> tuple[list[Span], bool]:
    """The words of a page in points, and whether they come from OCR."""
    page = opened[index]
    words = pdf.words(pdf.characters(page))
    if sum(len(word.text) for word in words) >= MIN_TEXT or not allow_ocr or _ocr_missing():
        return words, False
    spans, scale = _ocr_spans(page)
    return [Span(s.text, s.x0 / scale, s.y0 / scale, s.x1 / scale, s.y1 / scale) for s in spans], True


def _ocr_dpi(page: Any) -> float:
    """Fine enough to read, and no finer than what OCR would reduce again."""
    return min(float(OCR_DPI), 72 * ocr.LONG_SIDE / max(*pdf.size(page), 1.0))


def _ocr_spans(page: Any) -> tuple[list[Span], float]:
    """Levelled OCR lines in pixels, and pixels a point."""
    dpi = _ocr_dpi(page)
    picture = pdf.render(page, dpi)
    reading = ocr.find_lines(picture)
    spans, _skew = ocr.level(reading, picture)
    return spans, dpi / 72


def _page_text(spans: Sequence[Span], scanned: bool, number: int) -> tuple[str, bool]:
    """A page's text, or why there is none, and whether the page was really read."""
    text = lay_out(spans)
    if scanned:
        return text or "(no text)", True
    if sum(len(span.text) for span in spans) >= MIN_TEXT:
        return text, True
    if _ocr_missing():
        return f"{text}\n(no text layer; reading the scan needs: {ocr.INSTALL})".lstrip(), False
    return f"(scanned, not read yet: read_text(document, pages='{number}'))", False


def _letters(opened: Any, index: int) -> list[Span]:
    """The characters of a page with boxes in points; those of OCR lines are spread evenly over the line's box."""
    page = opened[index]
    letters = pdf.characters(page)
    if sum(not letter.text.isspace() for letter in letters) >= MIN_TEXT or _ocr_missing():
        return letters
    width, height = pdf.size(page)
    read = ocr.read(pdf.render(page, _ocr_dpi(page)))
    spread: list[Span] = []
    for line in read.lines:
        x0, y0, x1, y1 = line.box.to_xyxy_px(width, height)
        step = (x1 - x0) / max(len(line.text), 1)
        spread += [Span(c, x0 + at * step, y0, x0 + (at + 1) * step, y1) for at, c in enumerate(line.text)]
        spread.append(Span("\n", 0, 0, 0, 0))
    return spread


TOOLSET = Toolset(
    name="document",
    summary="PDF pages, text, scans, tables, form fields, finding where a text stands",
    tools=(open_document, read_text, find_text, extract_tables, form_fields, render_page),
    media=("document",),
    look=look,
)
