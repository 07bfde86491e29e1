"""The document toolset: a PDF's pages, text, tables, form fields, and where a text stands."""

from __future__ import annotations

from typing import Annotated

from PIL import Image
from pydantic import BaseModel, Field

from orion.errors import ToolRetry
from orion.geometry import Box
from orion.tools import Document, Toolset, tool
from orion.toolsets import pdf, search, tables
from orion.toolsets.document_look import facts, look
from orion.toolsets.forms import FormField, read_fields
from orion.toolsets.pages import letters_of, text_of, words_of
from orion.toolsets.sums import column_sums, words_for

NEEDS = ("pypdfium2",)
EXTRA = "document"
MAX_OCR_PAGES = 10  # pages read by OCR in one call
MAX_HITS = 50


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
        sums = words_for(column_sums(self.rows))
        added = f" (column sums: {sums})" if sums else ""
        head = f"table on page {self.page}, {len(self.rows)} rows x {columns} columns{added}:"
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
        return "; ".join(facts(opened))


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
            spans, scanned = words_of(opened, number - 1, allow_ocr=budget > 0)
            budget -= scanned
            parts.append(f"page {number}:\n{text_of(spans, scanned, number)[0]}")
        return "\n\n".join(parts)


@tool(needs=NEEDS, extra=EXTRA, empty="{query} was not found in the document.")
def find_text(document: Document, query: str) -> list[Found]:
    """Find where a text stands: page, box and line.

    Args:
        query: text to look for; case, blanks and accents do not matter.

    Returns:
        Places in page order, at most 50. When nothing matches exactly, similar lines are given.
    """
    if not query.strip():
        raise ToolRetry("find_text: query is empty")
    found: list[Found] = []
    with pdf.opened(document) as opened:
        pages = [letters_of(opened, index) for index in range(len(opened))]
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
    """Extract tables as rows of cells, also from scans.

    Args:
        page: page number from 1; all pages by default.

    Returns:
        Tables in reading order; empty ones are left out.
    """
    found: list[Table] = []
    with pdf.opened(document) as opened:
        indexes = range(len(opened)) if page is None else [pdf.checked_page(opened, page)]
        for index in indexes:
            words, scanned = words_of(opened, index)
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


TOOLSET = Toolset(
    name="document",
    summary="PDF pages, text, scans, tables, form fields, finding where a text stands",
    tools=(open_document, read_text, find_text, extract_tables, form_fields, render_page),
    media=("document",),
    look=look,
)
