"""The first look at a document: pages, form fields, and as much text in layout as the budget allows."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orion.tools import Look, ToolFailed
from orion.toolsets import pdf, sums
from orion.toolsets.forms import read_fields
from orion.toolsets.layout import Span, lay_out
from orion.toolsets.pages import MIN_TEXT, text_of, words_of

LOOK_OCR_PAGES = 3  # pages read by OCR in a first look
MIN_ROOM = 80  # characters of its first page a look shows whatever its budget
MAX_OUTLINE = 12  # pages not shown whose first line is
OUTLINE_CHARS = 60
LABELLED_PAGES = 20  # pages whose form fields get labels in a first look
PAPERS = {"A4": (595, 842), "Letter": (612, 792), "A3": (842, 1191), "A5": (420, 595), "Legal": (612, 1008)}  # points
SIZED_PAGES = 200  # pages whose size is looked at


def look(path: Path, meta: dict[str, Any], budget_chars: int, text_only: bool) -> Look:
    """The first observation of a document: pages, form fields, text in layout and sums of number columns."""
    other = pdf.other_kind(path)
    if other:
        raise ToolFailed(f"{other}, which this version of Orion cannot read; a copy saved as PDF can be read")
    covers = ["open_document", "describe_artifact", "read_more"]
    with pdf.opened(path) as opened:
        pages, *others = facts(opened, short=True)
        parts = ["; ".join([f"{pages}, {path.stat().st_size} bytes", *others])]
        if opened.get_formtype():
            part, whole = _form_part(path, opened, budget_chars // 2)
            parts.append(part)
        else:
            whole = True
        if whole:
            covers.append("form_fields")
        texts, whole = _page_parts(opened, budget_chars - sum(map(len, parts)))
        if whole:
            covers += ["read_text", "extract_tables"]  # rows and columns stand in the text, sums under it
        return Look("\n".join([*parts, *texts]), tuple(covers), whole={"form_fields", "read_text"} <= set(covers))


def facts(opened: Any, *, short: bool = False) -> list[str]:
    """Pages, page size, title, and what a PDF has or lacks. `short` names usual paper sizes instead of points."""
    count = len(opened)
    found = [f"PDF, {count} page{'s' if count != 1 else ''}"]
    sizes = [pdf.size(opened[index]) for index in range(min(count, SIZED_PAGES))]
    points = {(round(width), round(height)) for width, height in sizes}
    named = _paper(*sizes[0]) if short else ""
    found.append((named or "{:.0f}x{:.0f} pt".format(*sizes[0])) + ("" if len(points) == 1 else " (sizes differ)"))
    title = str(opened.get_metadata_dict().get("Title") or "").strip()
    if title and title.lower() not in ("untitled", "(anonymous)"):
        found.append(f"title: {title[:100]}")
    texts = [opened[index].get_textpage().count_chars() >= MIN_TEXT for index in range(len(sizes))]
    if not all(texts) and not short:  # the look says it of each page
        found.append("no text layer (scanned)" if not any(texts) else f"{texts.count(False)} pages without text layer")
    if opened.get_formtype() and not short:
        found.append("has form fields")
    return found


def _paper(width: float, height: float) -> str:
    """The name of a usual paper size.

    >>> _paper(595.3, 841.9), _paper(842, 595), _paper(612, 792), _paper(500, 500)
    ('A4', 'A4 landscape', 'Letter', '')
    """
    short, long = sorted((width, height))
    for name, (x, y) in PAPERS.items():
        if abs(short - x) <= 1 and abs(long - y) <= 1:
            return f"{name} landscape" if width > height else name
    return ""


@dataclass(slots=True)
class _Shown:
    """Pages as far as they are shown; sums are told of pages that are shown whole."""

    parts: list[str] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)
    """Numbers of the whole pages, one for each of the first parts."""
    sheets: list[sums.Sheet] = field(default_factory=list)
    words: list[Span] = field(default_factory=list)

    def with_sums(self, room: int, *, goes_on: bool) -> list[str]:
        """The parts, each followed by the sums of its tables as far as there is room."""
        lines = sums.lines_for(self.sheets, self.words, goes_on=goes_on)
        out = []
        for at, part in enumerate(self.parts):
            out.append(part)
            line = lines.get(self.pages[at], "") if at < len(self.pages) else ""
            if line and len(line) < room:
                out.append(line)
                room -= len(line) + 1
        return out


def _page_parts(opened: Any, room: int) -> tuple[list[str], bool]:
    """The text of the first pages within `room` characters, and whether that is everything."""
    shown = _Shown()
    count, ocr_left = len(opened), LOOK_OCR_PAGES
    for index in range(count):
        if index and room < MIN_ROOM:
            return [*shown.with_sums(room, goes_on=True), *_left_out(opened, index)], False
        spans, scanned = words_of(opened, index, allow_ocr=ocr_left > 0)
        ocr_left -= scanned
        text, read = text_of(spans, scanned, index + 1)
        part, whole = _cut(text, max(room, MIN_ROOM))
        name = f"page {index + 1}" if count > 1 else "text"
        head = f"{name}{' (scanned, read by OCR)' if scanned else ''}:\n"
        shown.parts.append(f"{head}{part}")
        room -= len(shown.parts[-1])
        if not whole:
            shown.parts.append(f"[page {index + 1} is cut; read_text(document, pages='{index + 1}') reads all of it]")
        if not (whole and read):
            return [*shown.with_sums(room, goes_on=True), *_left_out(opened, index + 1)], False
        shown.pages.append(index + 1)
        shown.sheets += sums.sheets_of(spans, index + 1)
        shown.words += spans
    return shown.with_sums(room, goes_on=False), True


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
