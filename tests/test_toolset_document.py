"""The document toolset on drawn PDFs with known truth, and on hostile files."""

from __future__ import annotations

from pathlib import Path

import pytest

from orion.errors import ToolFailed, ToolRetry
from orion.toolsets import document
from tests import drawn, pictures

SHARED = Path(__file__).resolve().parents[2] / "shared" / "samples"
needs_samples = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared samples are not here")

INVOICE = drawn.Invoice(
    "INVOICE",
    ["Halden Fittings Ltd", "4 Mill Lane"],
    ["Ortega Tools", "77 Dock Road"],
    [("Invoice no", "HF-2041"), ("Date", "3 May 2026"), ("Due", "2 June 2026"), ("PO number", "PO-77-12")],
    ["Description", "Qty", "Unit price", "Amount"],
    [
        ["Steel bracket M8", "12", "3.75", "45.00"],
        ["Copper pipe 15 mm", "4", "11.20", "44.80"],
        ["Valve", "2", "18.95", "37.90"],
    ],
    [("Subtotal", "127.70"), ("VAT 20%", "25.54"), ("Total due", "GBP 153.24")],
)
STOCK_A = drawn.Table(
    "Depot A", ["Part", "Bin", "Count"], [["Bolt", "A1", "120"], ["Nut", "A2", ""], ["Pin", "A3", "7,500"]]
)
STOCK_B = drawn.Table("Depot B", ["Part", "Bin", "Count"], [["Cap", "B1", "20"], ["Rod", "B2", "3"]], ruled=False)
FIELDS = [
    drawn.Field("full_name", "Full name", "Mara Linde"),
    drawn.Field("Text2", "Town", ""),
    drawn.Field("cb1", "I accept the terms", True, "check"),
    drawn.Field("cb2", "Newsletter", False, "check"),
    drawn.Field("size", "Size", "M", "choice", ["S", "M", "L"]),
    drawn.Field("grp", "Delivery", "Courier", "radio", ["Pickup", "Courier"]),
]


def saved(folder: Path, data: bytes) -> Path:
    path = folder / "document.pdf"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("layout", ["right", "left", "band"])
@pytest.mark.parametrize("ruled", [True, False])
def test_look_has_all_of_an_invoice_row_by_row(tmp_path: Path, layout: str, ruled: bool) -> None:
    seen = document.look(saved(tmp_path, drawn.invoice_pdf(INVOICE, layout, ruled)), {}, 4000, True)  # type: ignore[arg-type]
    rows = [row.split() for row in seen.text.splitlines()]
    for item in INVOICE.rows:
        assert " ".join(item).split() in rows
    for label, value in INVOICE.totals:
        assert f"{label} {value}".split() in rows
    if layout != "band":
        for label, value in INVOICE.facts:
            assert any(f"{label} {value}" in " ".join(row) for row in rows)
    assert {"open_document", "read_text", "form_fields"} <= set(seen.covers)


def test_look_keeps_to_its_budget_and_says_what_is_left(tmp_path: Path) -> None:
    pages = [drawn.Page(f"Chapter {at}", [f"Sentence {n} of chapter {at}." for n in range(30)]) for at in range(1, 7)]
    seen = document.look(saved(tmp_path, drawn.report_pdf(pages)), {}, 1500, True)
    assert len(seen.text) < 2000
    assert "Chapter 1" in seen.text
    assert "page 6 begins: Chapter 6" in seen.text
    assert "reads the rest" in seen.text
    assert "read_text" not in seen.covers


def test_read_text_of_some_pages(tmp_path: Path) -> None:
    path = saved(tmp_path, drawn.report_pdf([drawn.Page(f"Chapter {at}") for at in range(1, 6)]))
    text = document.read_text(path, "2, 4-5")
    assert [at for at in range(1, 6) if f"Chapter {at}" in text] == [2, 4, 5]
    for wrong in ("9", "0", "4-2", "two"):
        with pytest.raises(ToolRetry):
            document.read_text(path, wrong)


def test_tables_ruled_and_not(tmp_path: Path) -> None:
    path = saved(
        tmp_path, drawn.report_pdf([drawn.Page("Stock", ["A line of text.", STOCK_A, STOCK_B]), drawn.Page("End")])
    )
    tables = document.extract_tables(path)
    assert [table.rows for table in tables] == [[list(t.columns), *map(list, t.rows)] for t in (STOCK_A, STOCK_B)]
    assert [table.ruled for table in tables] == [True, False]
    assert [table.page for table in tables] == [1, 1]
    assert tables[0].box.y + tables[0].box.h <= tables[1].box.y
    assert "Bolt | A1 | 120" in tables[0].for_model()
    assert document.extract_tables(path, 2) == []
    with pytest.raises(ToolRetry, match="no page 3"):
        document.extract_tables(path, 3)


def test_tables_of_a_scan(tmp_path: Path) -> None:
    page = pictures.paper(["#Stock", ("Bolt", "120"), ("Nut", "45"), ("Washer", "7500")])
    path = saved(tmp_path, drawn.picture_pdf([pictures.scanned(page, seed=1, skew=2)]))
    assert [["Bolt", "120"], ["Nut", "45"], ["Washer", "7500"]] in [
        table.rows for table in document.extract_tables(path)
    ]


def test_tables_without_entries_are_marked(tmp_path: Path) -> None:
    claims = drawn.Table("Claims", ["Claim", "Date", "Amount"], [["No results", "", ""]])
    first, second = document.extract_tables(saved(tmp_path, drawn.report_pdf([drawn.Page("P", [STOCK_A, claims])])))
    assert (first.empty, second.empty) == (False, True)
    assert second.for_model() == "table on page 1 without entries, headings: Claim | Date | Amount"


def test_prose_is_no_table(tmp_path: Path) -> None:
    lines = [
        "The pumps were run for six hours each, and the readings",
        "were taken every ten minutes and then averaged.",
    ] * 6
    assert document.extract_tables(saved(tmp_path, drawn.report_pdf([drawn.Page("Method", lines)]))) == []


def test_scanned_pages_are_read(tmp_path: Path) -> None:
    page = pictures.paper(["#Order 7741", ("Bolt", "120 pcs")])
    path = saved(tmp_path, drawn.picture_pdf([pictures.scanned(page, seed=1, skew=2), page.rotate(180)]))
    assert "no text layer (scanned)" in document.open_document(path)
    text = document.read_text(path)
    assert text.count("Order 7741") == 2
    assert text.count("120 pcs") == 2
    found = document.find_text(path, "order 7741")
    assert [hit.page for hit in found] == [1, 2]
    assert found[0].boxes[0].y < 0.2


def test_form_fields(tmp_path: Path) -> None:
    path = saved(tmp_path, drawn.form_pdf("Registration", FIELDS))
    fields = {field.name: field for field in document.form_fields(path)}
    assert fields["full_name"].value == "Mara Linde"
    assert (fields["Text2"].value, fields["Text2"].label) == ("", "Town")
    assert (fields["cb1"].checked, fields["cb1"].label) == (True, "I accept the terms")
    assert fields["cb2"].checked is False
    assert (fields["size"].value, fields["size"].options) == ("M", ["S", "M", "L"])
    assert (fields["grp"].value, fields["grp"].options) == ("Courier", ["Pickup", "Courier"])
    text = document.look(path, {}, 4000, True).text
    assert "I accept the terms [cb1]: checked" in text
    assert "Newsletter [cb2]: not checked" in text
    assert "Pickup [grp]: not checked" in text
    assert "Courier [grp]: checked" in text


def test_no_form(tmp_path: Path) -> None:
    assert document.form_fields(saved(tmp_path, drawn.report_pdf([drawn.Page("Plain")]))) == []


@pytest.mark.parametrize(
    ("query", "words"), [("copper PIPE", "Copper pipe"), ("hf-2041", "HF-2041"), ("gbp  153.24", "GBP 153.24")]
)
def test_found_text_lies_on_the_ink(tmp_path: Path, query: str, words: str) -> None:
    path = saved(tmp_path, drawn.invoice_pdf(INVOICE, ruled=False))
    (hit,) = document.find_text(path, query)
    assert hit.exact
    assert words in hit.line
    page = document.render_page(path, 1, 144).convert("L")
    left, top, right, bottom = (round(edge) for edge in hit.boxes[0].to_xyxy_px(*page.size))
    assert min(page.crop((left, top, right, bottom)).tobytes()) < 60
    # A little around the box on both sides there is nothing: it is no larger than the words.
    assert min(page.crop((left - 6, top, left - 2, bottom)).tobytes()) > 200
    assert min(page.crop((right + 3, top, right + 5, bottom)).tobytes()) > 200


def test_found_text_over_a_line_end_and_similar(tmp_path: Path) -> None:
    path = saved(
        tmp_path, drawn.report_pdf([drawn.Page("Method", ["The readings were averaged", "over ten minutes."])])
    )
    (hit,) = document.find_text(path, "averaged over ten")
    assert len(hit.boxes) == 2
    (close,) = document.find_text(path, "raedings were averagd")
    assert not close.exact
    assert document.find_text(path, "zebra") == []
    with pytest.raises(ToolRetry):
        document.find_text(path, "  ")


def test_turned_page_has_upright_boxes(tmp_path: Path) -> None:
    import pypdf

    path = saved(tmp_path, drawn.report_pdf([drawn.Page("Heading at the top")]))
    writer = pypdf.PdfWriter(clone_from=path)
    writer.pages[0].rotate(90)
    writer.write(path)
    (hit,) = document.find_text(path, "Heading at")
    page = document.render_page(path, 1, 72).convert("L")
    assert page.width > page.height
    left, top, right, bottom = (round(edge) for edge in hit.boxes[0].to_xyxy_px(*page.size))
    assert min(page.crop((left, top, right, bottom)).tobytes()) < 100


def test_render_page(tmp_path: Path) -> None:
    path = saved(tmp_path, drawn.report_pdf([drawn.Page("One"), drawn.Page("Two")]))
    assert document.render_page(path, 2, 72).size == (596, 842)
    with pytest.raises(ToolRetry, match="pages 1 to 2"):
        document.render_page(path, 3)


@needs_samples
def test_giant_page_is_refused_before_it_is_rendered() -> None:
    with pytest.raises(ToolRetry, match="use dpi=25 or less"):
        document.render_page(SHARED / "giant_page.pdf", 1, 144)
    assert "14400x14400 pt" in document.open_document(SHARED / "giant_page.pdf")


@needs_samples
@pytest.mark.parametrize(
    ("name", "message"),
    [("encrypted.pdf", "password"), ("corrupt_trunc.pdf", "cannot be read"), ("corrupt_noxref.pdf", "cannot be read")],
)
def test_unreadable_files_fail_with_the_reason(name: str, message: str) -> None:
    for call in (document.open_document, document.read_text, document.form_fields, document.extract_tables):
        with pytest.raises(ToolFailed, match=message):
            call(SHARED / name)


@needs_samples
def test_empty_tables_are_left_out() -> None:
    tables = document.extract_tables(SHARED / "report_table.pdf")
    assert [len(table.rows) for table in tables] == [5, 4]
    assert tables[1].rows[1] == ["Q1", "1,204", "1,377"]
