"""The drawn documents hold what was asked for, and the same call gives the same bytes."""

from __future__ import annotations

import io

import jsonschema
import pypdf
import pypdfium2
import pytest
import zxingcpp
from PIL import Image, ImageOps

from benchmarks.tasks import drawn
from tests.drawn import Field, Invoice, Page, Table, form_pdf, invoice_pdf, picture_pdf, report_pdf
from tests.pictures import bar_chart, code, encoded, label, lying_chart, paper, photographed, scanned, tiff

BILL = Invoice(
    title="Rechnung",
    seller=["Bäckerei Süd"],
    buyer=["Hofladen"],
    facts=[("Nr.", "R-17"), ("Datum", "14.03.2026")],
    columns=["Ware", "Menge", "Betrag"],
    rows=[[f"Brötchen {index}", str(index), f"{index},50 €"] for index in range(1, 6)],
    totals=[("Summe", "17,50 €")],
)


def pages_of(pdf: bytes) -> list[str]:
    """The text layer of each page."""
    document = pypdfium2.PdfDocument(pdf)
    try:
        return [page.get_textpage().get_text_range() for page in document]
    finally:
        document.close()


@pytest.mark.parametrize("layout", ["right", "left", "band"])
def test_an_invoice_shows_every_word_in_each_layout(layout):
    (text,) = pages_of(invoice_pdf(BILL, layout))
    for word in ["Rechnung", "Bäckerei Süd", "R-17", "14.03.2026", "Brötchen 5", "5,50 €", "17,50 €"]:
        assert word in text


def test_rows_beyond_a_page_go_to_the_next_and_totals_stand_on_the_last():
    first, second = pages_of(invoice_pdf(BILL, rows_per_page=3))
    assert "Brötchen 3" in first
    assert "Brötchen 4" not in first
    assert "Brötchen 4" in second
    assert "17,50 €" in second


def test_a_report_has_its_tables_and_page_numbers():
    pages = [Page("One", ["a line"]), Page("Two", [Table("Ports", ["Port", "Boxes"], [["Cork", "12"]], ruled=False)])]
    first, second = pages_of(report_pdf(pages))
    assert "a line" in first
    assert "1 / 2" in first
    assert "Cork 12" in second


def test_form_values_live_in_fields_and_not_in_the_text():
    fields = [
        Field("city", "City", "Graz"),
        Field("sport", "Sport", "Judo", "choice", ["Judo", "Tennis"]),
        Field("plan", "Plan", "yearly", "radio", ["monthly", "yearly"]),
        Field("news", "Newsletter", False, "check"),
        Field("rules", "Rules", True, "check"),
    ]
    pdf = form_pdf("Club", fields)
    values = {name: str(field.get("/V")) for name, field in pypdf.PdfReader(io.BytesIO(pdf)).get_fields().items()}
    assert values == {"city": "Graz", "sport": "Judo", "plan": "/yearly", "news": "/Off", "rules": "/Yes"}
    assert "Graz" not in pages_of(pdf)[0]


def test_a_scanned_pdf_has_no_text_layer():
    assert [text.strip() for text in pages_of(picture_pdf([paper(["words"]), paper(["more"])]))] == ["", ""]


@pytest.mark.parametrize("symbology", ["QRCode", "EAN13", "Code128", "DataMatrix"])
def test_a_photographed_code_can_be_read(symbology):
    text = "4006381333931" if symbology == "EAN13" else "Pump 7 / REV C"
    photo = photographed(label(["on a sticker"], [code(text, symbology)]), seed=3, angle=9, tilt=0.05)
    assert [found.text for found in zxingcpp.read_barcodes(photo)] == [text]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_viewer_shows_the_picture_whatever_the_orientation(orientation):
    picture = Image.new("RGB", (48, 32), "white")
    picture.paste("black", (0, 0, 16, 8))  # marks the upper left corner
    shown = ImageOps.exif_transpose(Image.open(io.BytesIO(encoded(picture, "PNG", orientation))))
    assert shown.size == (48, 32)
    assert shown.convert("RGB").tobytes() == picture.tobytes()


def test_a_tiff_is_one_bit_and_has_all_pages():
    picture = Image.open(io.BytesIO(tiff([paper(["one"]), paper(["two"]), paper(["three"])])))
    assert (picture.mode, picture.n_frames) == ("1", 3)


def test_charts_make_the_largest_bar_the_largest():
    chart = lying_chart("t", [("a", 10), ("b", 20)]).convert("RGB")
    colours = {colour: count for count, colour in chart.getcolors(1 << 20)}
    assert colours[(245, 133, 24)] == pytest.approx(2 * colours[(76, 120, 168)], rel=0.02)
    assert bar_chart("t", ["x"], {"one": [1.0], "two": [2.0]}).width > bar_chart("t", ["x"], {"one": [1.0]}).width


def test_a_skewed_scan_keeps_its_grain_for_a_seed():
    page = paper(["text"])
    assert scanned(page, 1, skew=2).tobytes() == scanned(page, 1, skew=2).tobytes()
    assert scanned(page, 1, skew=2).tobytes() != scanned(page, 2, skew=2).tobytes()


def test_tasks_are_deterministic_and_split_in_halves():
    tasks, again = drawn(), drawn()
    assert [(task.id, task.data) for task in tasks] == [(task.id, task.data) for task in again]
    assert len({task.id for task in tasks}) == len(tasks) >= 24
    halves = [sum(task.tier == tier for task in tasks) for tier in ("dev", "held")]
    assert abs(halves[0] - halves[1]) <= 1


def test_every_check_names_a_property_of_the_schema():
    for task in drawn():
        jsonschema.Draft202012Validator.check_schema(task.schema)
        assert {check["field"] for check in task.checks} == set(task.schema["properties"])
