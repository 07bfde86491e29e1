"""The demo: an invoice drawn by code, read back by the agent, and compared with what was drawn."""

from __future__ import annotations

import datetime
from decimal import Decimal

from pydantic import BaseModel

PROMPT = "Read this invoice and return its details."
FILE_NAME = "invoice.pdf"

# Advance widths of Helvetica for the characters from space to tilde, in 1/1000 of the font size (Adobe's AFM file).
_WIDTHS = (
    *(278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278),
    *(556,) * 10,
    *(278, 278, 584, 584, 584, 556, 1015),
    *(667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833),
    *(722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611),
    *(278, 278, 278, 469, 556, 333),
    *(556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833),
    *(556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500),
    *(334, 260, 334, 584),
)

_INK = "0.13 0.16 0.22"
_SOFT = "0.42 0.46 0.53"
_ACCENT = "0.10 0.32 0.46"
_TINT = "0.93 0.95 0.97"
_WHITE = "1 1 1"


class Item(BaseModel):
    """One line of the invoice."""

    description: str
    quantity: int
    unit_price: float
    amount: float


class Invoice(BaseModel):
    """What the demo asks for."""

    number: str
    date: datetime.date
    seller: str
    buyer: str
    items: list[Item]
    subtotal: float
    vat: float
    total: float
    currency: str


def truth() -> Invoice:
    """The invoice that `draw_invoice` draws.

    >>> truth().total
    1362.55
    """
    lines = [
        ("Reading lamp, brushed steel", 4, Decimal("89.50")),
        ("Replacement bulb, warm white", 24, Decimal("6.25")),
        ("Desk magnifier with stand", 3, Decimal("149.00")),
        ("Installation on site", 1, Decimal("190.00")),
    ]
    subtotal = sum((price * count for _text, count, price in lines), Decimal(0))
    vat = (subtotal * Decimal("0.19")).quantize(Decimal("0.01"))
    return Invoice(
        number="LO-2026-0417",
        date=datetime.date(2026, 3, 14),
        seller="Lumen Optics GmbH",
        buyer="Harbour Street Library",
        items=[
            Item(description=text, quantity=count, unit_price=float(price), amount=float(price * count))
            for text, count, price in lines
        ],
        subtotal=float(subtotal),
        vat=float(vat),
        total=float(subtotal + vat),
        currency="EUR",
    )


def draw_invoice(invoice: Invoice) -> bytes:
    """The invoice as a one-page A4 PDF with a text layer. The same invoice always gives the same bytes.

    >>> draw_invoice(truth())[:8]
    b'%PDF-1.4'
    """
    page = _Page()
    page.box(0, 752, 595, 90, _ACCENT)
    page.text(48, 790, invoice.seller, 22, bold=True, colour=_WHITE)
    page.text(48, 770, "Lamps and lenses for people who read", 10, colour=_WHITE)
    page.text(547, 788, "INVOICE", 20, colour=_WHITE, right=True)

    page.text(48, 712, "BILL TO", 8, bold=True, colour=_SOFT)
    page.text(48, 696, invoice.buyer, 12, bold=True)
    page.text(48, 681, "12 Harbour Street", 10)
    page.text(48, 668, "24937 Flensburg", 10)
    facts = [
        ("Invoice number", invoice.number),
        ("Invoice date", f"{invoice.date.day} {invoice.date:%B %Y}"),
        ("Payment", "within 30 days"),
    ]
    for row, (label, value) in enumerate(facts):
        page.text(360, 700 - 16 * row, label, 10, colour=_SOFT)
        page.text(547, 700 - 16 * row, value, 10, right=True)

    _draw_items(page, invoice)
    page.box(48, 78, 499, 0.6, _SOFT)
    page.text(48, 62, "Please give the invoice number with your payment. Thank you for your order.", 9, colour=_SOFT)
    return page.pdf()


def _draw_items(page: _Page, invoice: Invoice) -> None:
    page.box(48, 606, 499, 24, _TINT)
    page.text(58, 614, "Description", 10, colour=_SOFT)
    for x, label in ((355, "Quantity"), (450, "Unit price"), (537, "Amount")):
        page.text(x, 614, label, 10, colour=_SOFT, right=True)
    y = 606.0
    for item in invoice.items:
        page.text(58, y - 19, item.description, 10.5)
        page.text(355, y - 19, str(item.quantity), 10.5, right=True)
        page.text(450, y - 19, f"{item.unit_price:,.2f}", 10.5, right=True)
        page.text(537, y - 19, f"{item.amount:,.2f}", 10.5, right=True)
        y -= 30
        page.box(48, y, 499, 0.5, "0.85 0.87 0.90")
    rate = round(100 * invoice.vat / invoice.subtotal)
    for label, value in (("Subtotal", invoice.subtotal), (f"VAT {rate}%", invoice.vat)):
        y -= 24
        page.text(360, y, label, 10.5, colour=_SOFT)
        page.text(537, y, f"{value:,.2f}", 10.5, right=True)
    page.box(345, y - 38, 202, 28, _ACCENT)
    page.text(360, y - 29, f"Total {invoice.currency}", 12, bold=True, colour=_WHITE)
    page.text(537, y - 29, f"{invoice.total:,.2f}", 12, bold=True, colour=_WHITE, right=True)


class _Page:
    """One A4 page as PDF drawing commands: filled boxes and lines of Helvetica, points from the bottom left."""

    def __init__(self) -> None:
        self._commands: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        self._commands.append(f"{colour} rg {x:g} {y:g} {width:g} {height:g} re f")

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        *,
        bold: bool = False,
        colour: str = _INK,
        right: bool = False,
    ) -> None:
        if right:
            x -= sum(_WIDTHS[ord(char) - 32] for char in text) * size / 1000
        escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
        font = "F2" if bold else "F1"
        self._commands.append(f"BT {colour} rg /{font} {size:g} Tf {x:.2f} {y:g} Td ({escaped}) Tj ET")

    def pdf(self) -> bytes:
        content = "\n".join(self._commands).encode("ascii")
        fonts = "/F1 5 0 R /F2 6 0 R"
        objects = [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R"
            b" /Resources << /Font << " + fonts.encode() + b" >> >> >>",
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>",
        ]
        out = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
        offsets = []
        for number, body in enumerate(objects, 1):
            offsets.append(len(out))
            out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
        start = len(out)
        out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
        out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
        out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
        return bytes(out)
