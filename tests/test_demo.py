"""The demo's invoice: its text layer says what its truth says, and it is always the same file."""

from __future__ import annotations

import datetime
import io

import pytest

from orion.demo import Invoice, Item, draw_invoice, truth


def text_of(pdf: bytes) -> str:
    pypdf = pytest.importorskip("pypdf")
    reader = pypdf.PdfReader(io.BytesIO(pdf), strict=True)
    assert len(reader.pages) == 1
    return str(reader.pages[0].extract_text())


def test_the_text_layer_holds_the_truth() -> None:
    invoice = truth()
    text = text_of(draw_invoice(invoice))
    for word in (invoice.number, invoice.seller, invoice.buyer, invoice.currency, "14 March 2026"):
        assert word in text
    for item in invoice.items:
        assert item.description in text
        assert f"{item.unit_price:,.2f}" in text
        assert f"{item.amount:,.2f}" in text
    for amount in (invoice.subtotal, invoice.vat, invoice.total):
        assert f"{amount:,.2f}" in text


def test_the_sums_are_right() -> None:
    invoice = truth()
    assert invoice.subtotal == pytest.approx(sum(item.amount for item in invoice.items))
    assert invoice.total == pytest.approx(invoice.subtotal + invoice.vat)
    assert all(item.amount == pytest.approx(item.quantity * item.unit_price) for item in invoice.items)


def test_the_same_invoice_gives_the_same_bytes() -> None:
    assert draw_invoice(truth()) == draw_invoice(truth())


def test_another_invoice_is_drawn_as_asked() -> None:
    other = Invoice(
        number="A(1)\\2",
        date=datetime.date(2025, 12, 1),
        seller="Paper & Ink",
        buyer="Night School",
        items=[Item(description="Pencil (soft)", quantity=2, unit_price=0.75, amount=1.5)],
        subtotal=1.5,
        vat=0.11,
        total=1.61,
        currency="CHF",
    )
    text = text_of(draw_invoice(other))
    for word in ("A(1)\\2", "Pencil (soft)", "1 December 2025", "Paper & Ink", "CHF", "VAT 7%", "1.61"):
        assert word in text


def test_it_renders_with_ink_on_the_page() -> None:
    pdfium = pytest.importorskip("pypdfium2")
    document = pdfium.PdfDocument(draw_invoice(truth()))
    try:
        image = document[0].render(scale=0.5).to_pil().convert("L")
    finally:
        document.close()
    dark = sum(image.histogram()[:128]) / (image.width * image.height)
    assert 0.08 < dark < 0.3
