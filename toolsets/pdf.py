"""PDF pages through PDFium: sizes, characters with boxes, pictures. All boxes are points from the upper left corner."""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_double, c_int
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orion.errors import ToolFailed, ToolRetry
from orion.media import office_type
from orion.toolsets.layout import Span, union

if TYPE_CHECKING:
    from PIL import Image

MAX_PIXELS = 25_000_000  # of one rendered page
MAX_CHARS = 200_000  # characters of one page that are looked at
WORD_BREAK = 0.25  # a gap wider than this many letter heights ends a word
_DEVICE = 100_000  # units of the square that PDFium maps a page to, for exact transforms
_LINE_BREAKS = "\r\n"

OFFICE_FILES = {"document": "Word file (docx)", "sheet": "Excel file (xlsx)", "presentation": "PowerPoint file (pptx)"}

_LOCK = threading.RLock()  # PDFium is not thread-safe


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """An open `pypdfium2.PdfDocument` that nobody else uses.

    Raises:
        ToolFailed: encrypted or damaged.
    """
    import pypdfium2 as pdfium

    with _LOCK:
        try:
            document = pdfium.PdfDocument(path)
        except pdfium.PdfiumError as error:
            if "password" in str(error).lower():
                raise ToolFailed("this PDF needs a password", fix="Attach a copy without a password.") from error
            if other := other_kind(path):
                fix = "Attach a copy saved as PDF."
                raise ToolFailed(f"this is a {other}, which this version of Orion cannot read", fix=fix) from error
            raise ToolFailed(f"this file cannot be read as PDF: {error}", fix="Attach an undamaged PDF.") from error
        try:
            yield document
        finally:
            document.close()


def other_kind(path: Path) -> str:
    """`Word file (docx)` and the like for an office file, "" for anything else."""
    if not zipfile.is_zipfile(path):
        return ""
    try:
        with zipfile.ZipFile(path) as archive:
            return OFFICE_FILES.get(office_type(archive.namelist()).rpartition(".")[2], "")
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise ToolFailed(f"this file is damaged: {error}", fix="Attach an undamaged copy.") from error


def checked_page(document: Any, page: int) -> int:
    """The index of a page counted from 1; `ToolRetry` when there is none."""
    if not 1 <= page <= len(document):
        raise ToolRetry(f"there is no page {page}: the document has pages 1 to {len(document)}")
    return page - 1


def parse_pages(text: str | None, count: int) -> list[int]:
    """Page numbers from 1 out of `"1-3"`, `"2"`, `"1,4-5"` or nothing (all).

    >>> parse_pages("1-3, 5", 9), parse_pages(None, 2), parse_pages("8-", 9)
    ([1, 2, 3, 5], [1, 2], [8, 9])
    """
    if text is None or text.strip().lower() in ("", "all"):
        return list(range(1, count + 1))
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if not (first.isdigit() and (not dash or last.isdigit() or last == "")):
            raise ToolRetry(f"pages {text!r} is not understood; write '2', '1-3' or '1,4'")
        start = int(first)
        end = int(last) if last else (count if dash else start)
        if not 1 <= start <= end <= count:
            raise ToolRetry(f"pages {text!r} do not exist: the document has pages 1 to {count}")
        found += [page for page in range(start, end + 1) if page not in found]
    return found


def characters(page: Any) -> list[Span]:
    """Every character in PDFium's reading order; blanks and line ends are spans of zero width."""
    import pypdfium2.raw as raw

    a, b, c, d, e, f = _to_upright(page)
    text = page.get_textpage()
    try:
        left, right, bottom, top = c_double(), c_double(), c_double(), c_double()
        box = raw.FS_RECTF()
        found: list[Span] = []
        for at in range(min(text.count_chars(), MAX_CHARS)):
            letter = chr(raw.FPDFText_GetUnicode(text, at) or 0xFFFD)
            if letter.isspace() or letter == "\x00":
                found.append(Span("\n" if letter in _LINE_BREAKS else " ", 0, 0, 0, 0))
                continue
            if raw.FPDFText_GetLooseCharBox(text, at, byref(box)):
                edges = box.left, box.bottom, box.right, box.top
            else:
                raw.FPDFText_GetCharBox(text, at, byref(left), byref(right), byref(bottom), byref(top))
                edges = left.value, bottom.value, right.value, top.value
            x0, y0 = a * edges[0] + b * edges[1] + c, d * edges[0] + e * edges[1] + f
            x1, y1 = a * edges[2] + b * edges[3] + c, d * edges[2] + e * edges[3] + f
            # PDFium marks a hyphen at a line's end with U+0002.
            letter = "-" if letter == "\x02" else letter
            found.append(Span(letter, min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)))
        return found
    finally:
        text.close()


def words(letters: Sequence[Span]) -> list[Span]:
    """Characters → words, in the same order."""
    found: list[Span] = []
    run: list[Span] = []
    for letter in [*letters, Span(" ", 0, 0, 0, 0)]:
        blank = letter.text.isspace()
        if run and (blank or not _follows(run[-1], letter)):
            found.append(union(run, "".join(one.text for one in run)))
            run = []
        # Bold is sometimes faked by printing a letter twice.
        twice = run and run[-1].text == letter.text and letter.x0 - run[-1].x0 < 0.1 * letter.height
        if not blank and not twice:
            run.append(letter)
    return found


def _follows(last: Span, letter: Span) -> bool:
    height = max(min(last.height, letter.height), 1e-6)
    level = min(last.y1, letter.y1) - max(last.y0, letter.y0) > 0.4 * height
    return level and -height < letter.x0 - last.x1 < WORD_BREAK * height


def size(page: Any) -> tuple[float, float]:
    """Width and height in points as shown."""
    width, height = page.get_size()
    return float(width), float(height)


def max_dpi(page: Any) -> int:
    """The finest resolution at which the page stays within MAX_PIXELS."""
    width, height = size(page)
    return max(1, int(72 * (MAX_PIXELS / max(width * height, 1e-6)) ** 0.5))


def render(page: Any, dpi: float) -> Image.Image:
    """The page, with its form fields, as an RGB picture."""
    picture: Image.Image = page.render(scale=dpi / 72, may_draw_forms=True).to_pil().convert("RGB")
    return picture


def _to_upright(page: Any) -> tuple[float, float, float, float, float, float]:
    """User space (origin below, unturned) → points from the upper left of the page as shown."""
    import pypdfium2.raw as raw

    width, height = size(page)
    x, y = c_int(), c_int()
    corners = []
    for at in ((0.0, 0.0), (1000.0, 0.0), (0.0, 1000.0)):
        raw.FPDF_PageToDevice(page, 0, 0, _DEVICE, _DEVICE, 0, *at, byref(x), byref(y))
        corners.append((x.value * width / _DEVICE, y.value * height / _DEVICE))
    (c, f), (x1, y1), (x2, y2) = corners
    return (x1 - c) / 1000, (x2 - c) / 1000, c, (y1 - f) / 1000, (y2 - f) / 1000, f
