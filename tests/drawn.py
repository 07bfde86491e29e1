"""Documents drawn by code: the same arguments always give the same bytes, and the truth is what was asked for.

This module draws PDFs, `tests.pictures` draws pictures. PDFs use reportlab's standard fonts only.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from PIL import Image
from reportlab.lib.pagesizes import A4
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

WIDTH, HEIGHT = A4  # points
MARGIN = 56  # points
GREY = 0.85  # fill of bands and table heads

Row = Sequence[str]


@dataclass(frozen=True)
class Invoice:
    """The words on an invoice, exactly as they are printed."""

    title: str
    seller: Sequence[str]
    buyer: Sequence[str]
    facts: Sequence[tuple[str, str]]
    """Label and value: number, dates, references."""
    columns: Row
    rows: Sequence[Row]
    totals: Sequence[tuple[str, str]]
    notes: Sequence[str] = ()
    buyer_label: str = "Bill to"


def _pdf() -> tuple[io.BytesIO, Canvas]:
    out = io.BytesIO()
    return out, Canvas(out, pagesize=A4, invariant=1)


def _lines(canvas: Canvas, x: float, y: float, lines: Iterable[str], size: float = 10, lead: float = 14) -> float:
    """Draws lines downwards from `y` and returns the next free y."""
    canvas.setFont("Helvetica", size)
    for line in lines:
        canvas.drawString(x, y, line)
        y -= lead
    return y


def _table(
    canvas: Canvas, y: float, columns: Row, rows: Sequence[Row], ruled: bool, stops: Sequence[float] | None = None
) -> float:
    """A table over the page's width. The first column is wide and flush left, the others flush right."""
    right = WIDTH - MARGIN
    step = min(90, (right - MARGIN - 130) / max(1, len(columns) - 1))
    ends = list(stops) if stops else [right - step * i for i in range(len(columns) - 2, -1, -1)]
    height = 18
    for index, row in enumerate([columns, *rows]):
        if index == 0:
            canvas.setFont("Helvetica-Bold", 9)
            if ruled:
                canvas.setFillGray(GREY)
                canvas.rect(MARGIN, y - 5, right - MARGIN, height, stroke=0, fill=1)
                canvas.setFillGray(0)
        else:
            canvas.setFont("Helvetica", 9)
        canvas.drawString(MARGIN + 4, y, row[0])
        for end, cell in zip(ends, row[1:], strict=True):
            canvas.drawRightString(end - 4, y, cell)
        if ruled:
            canvas.rect(MARGIN, y - 5, right - MARGIN, height, stroke=1, fill=0)
            for end in [ends[0] - step, *ends[:-1]]:
                canvas.line(end, y - 5, end, y - 5 + height)
        y -= height
    return y


def invoice_pdf(
    invoice: Invoice, layout: Literal["right", "left", "band"] = "right", ruled: bool = True, rows_per_page: int = 20
) -> bytes:
    """An invoice with a text layer.

    `layout` is where number and dates stand: a block on the right, stacked labels on the left, or a grey band across
    the page with labels above values. Rows beyond `rows_per_page` go to further pages, totals stand on the last.
    """
    out, canvas = _pdf()
    canvas.setFont("Helvetica-Bold", 20)
    canvas.drawString(MARGIN, HEIGHT - 70, invoice.title)
    canvas.setFont("Helvetica", 9)
    for index, line in enumerate(invoice.seller):
        canvas.drawRightString(WIDTH - MARGIN, HEIGHT - 62 - 12 * index, line)
    top = HEIGHT - 150
    left = 330 if layout == "left" else MARGIN
    canvas.setFont("Helvetica-Bold", 9)
    canvas.drawString(left, top, invoice.buyer_label)
    y = _lines(canvas, left, top - 14, invoice.buyer)
    y = min(y, _facts(canvas, invoice.facts, layout, top)) - 26
    rows = list(invoice.rows)
    while True:
        page, rows = rows[:rows_per_page], rows[rows_per_page:]
        y = _table(canvas, y, invoice.columns, page, ruled)
        if not rows:
            break
        canvas.showPage()
        y = HEIGHT - 80
    y -= 14
    for index, (label, value) in enumerate(invoice.totals):
        canvas.setFont("Helvetica-Bold" if index == len(invoice.totals) - 1 else "Helvetica", 10)
        canvas.drawString(WIDTH - MARGIN - 210, y, label)
        canvas.drawRightString(WIDTH - MARGIN - 4, y, value)
        y -= 16
    _lines(canvas, MARGIN, y - 24, invoice.notes, 9, 12)
    canvas.save()
    return out.getvalue()


def _facts(canvas: Canvas, facts: Sequence[tuple[str, str]], layout: str, top: float) -> float:
    if layout == "band":
        y = top - 90
        canvas.setFillGray(GREY)
        canvas.rect(MARGIN, y - 8, WIDTH - 2 * MARGIN, 36, stroke=0, fill=1)
        canvas.setFillGray(0)
        step = (WIDTH - 2 * MARGIN) / len(facts)
        for index, (label, value) in enumerate(facts):
            canvas.setFont("Helvetica-Bold", 8)
            canvas.drawString(MARGIN + 6 + step * index, y + 14, label)
            canvas.setFont("Helvetica", 10)
            canvas.drawString(MARGIN + 6 + step * index, y, value)
        return y - 20
    label_x, value_x = (MARGIN, MARGIN + 110) if layout == "left" else (350.0, 450.0)
    y = top
    for label, value in facts:
        canvas.setFont("Helvetica-Bold", 9)
        canvas.drawString(label_x, y, label)
        canvas.setFont("Helvetica", 10)
        canvas.drawString(value_x, y, value)
        y -= 15
    return y


@dataclass(frozen=True)
class Table:
    """A table of a report page; `title` stands above it."""

    title: str
    columns: Row
    rows: Sequence[Row]
    ruled: bool = True


@dataclass(frozen=True)
class Page:
    """One page: a heading, then lines of text (str) and tables in the order given."""

    heading: str
    blocks: Sequence[str | Table] = field(default_factory=list)


def report_pdf(pages: Sequence[Page]) -> bytes:
    """A PDF with a text layer: letters, reports and tables. An empty line is an empty string."""
    out, canvas = _pdf()
    for number, page in enumerate(pages, 1):
        canvas.setFont("Helvetica-Bold", 15)
        canvas.drawString(MARGIN, HEIGHT - 80, page.heading)
        y = HEIGHT - 110
        for block in page.blocks:
            if isinstance(block, str):
                y = _lines(canvas, MARGIN, y, [block])
            else:
                canvas.setFont("Helvetica-Bold", 11)
                canvas.drawString(MARGIN, y, block.title)
                y = _table(canvas, y - 20, block.columns, block.rows, block.ruled) - 14
        if len(pages) > 1:
            canvas.setFont("Helvetica", 8)
            canvas.drawCentredString(WIDTH / 2, 40, f"{number} / {len(pages)}")
        canvas.showPage()
    canvas.save()
    return out.getvalue()


@dataclass(frozen=True)
class Field:
    """One AcroForm field. `value` is text, a choice out of `options`, or whether a box is ticked."""

    name: str
    label: str
    value: str | bool
    kind: Literal["text", "check", "choice", "radio"] = "text"
    options: Sequence[str] = ()


def form_pdf(title: str, fields: Sequence[Field]) -> bytes:
    """A PDF form that can be filled; its values live in fields only, not in the text layer."""
    out, canvas = _pdf()
    canvas.setFont("Helvetica-Bold", 16)
    canvas.drawString(MARGIN, HEIGHT - 80, title)
    form, y = canvas.acroForm, HEIGHT - 130
    for item in fields:
        canvas.setFont("Helvetica", 10)
        if item.kind == "check":
            form.checkbox(name=item.name, tooltip=item.label, x=MARGIN, y=y - 4, size=14, checked=bool(item.value))
            canvas.drawString(MARGIN + 24, y, item.label)
        elif item.kind == "radio":
            canvas.drawString(MARGIN, y, item.label)
            for index, option in enumerate(item.options):
                x, chosen = 200 + 110 * index, option == item.value
                form.radio(name=item.name, value=option, selected=chosen, x=x, y=y - 4, size=14, tooltip=item.label)
                canvas.drawString(x + 20, y, option)
        else:
            canvas.drawString(MARGIN, y, item.label)
            place = {"name": item.name, "tooltip": item.label, "x": 200, "y": y - 6, "width": 260, "height": 18}
            if item.kind == "choice":
                form.choice(value=item.value, options=list(item.options), fontSize=10, **place)
            else:
                form.textfield(value=item.value, fontSize=10, **place)
        y -= 34
    canvas.save()
    return out.getvalue()


def picture_pdf(pictures: Sequence[Image.Image]) -> bytes:
    """A scanned PDF: one picture a page, no text layer."""
    out, canvas = _pdf()
    for picture in pictures:
        scale = min(WIDTH / picture.width, HEIGHT / picture.height)
        width, height = picture.width * scale, picture.height * scale
        canvas.drawImage(ImageReader(picture.convert("RGB")), 0, HEIGHT - height, width, height)
        canvas.showPage()
    canvas.save()
    return out.getvalue()
