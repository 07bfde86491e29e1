"""A page's words, characters and text, from its text layer or, where it has none, by OCR."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

from orion.toolsets import ocr, pdf
from orion.toolsets.layout import Span, lay_out

MIN_TEXT = 10  # characters; a page with fewer has no text layer worth reading
OCR_DPI = 200


def _ocr_missing() -> bool:
    return any(importlib.util.find_spec(module) is None for module in ocr.NEEDS)


def words_of(opened: Any, index: int, allow_ocr: bool = True) -> tuple[list[Span], bool]:
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


def text_of(spans: Sequence[Span], scanned: bool, number: int) -> tuple[str, bool]:
    """A page's text, or why there is none, and whether the page was really read."""
    text = lay_out(spans)
    if scanned:
        return text or "(no text)", True
    if sum(len(span.text) for span in spans) >= MIN_TEXT:
        return text, True
    if _ocr_missing():
        return f"{text}\n(no text layer; reading the scan needs: {ocr.INSTALL})".lstrip(), False
    return f"(scanned, not read yet: read_text(document, pages='{number}'))", False


def letters_of(opened: Any, index: int) -> list[Span]:
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
