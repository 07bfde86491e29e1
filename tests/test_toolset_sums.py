"""Sums of number columns: what is added, exactly, and what is left alone."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion.toolsets import document, image, ocr, sums
from orion.toolsets.amounts import decimal_mark, parse, value_of
from tests import drawn, pictures

SHARED = Path(__file__).resolve().parents[2] / "shared" / "samples"
needs_samples = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared samples are not here")


def words_of(*rows: str) -> str:
    """The sums of a table whose cells are split by `|`."""
    return sums.words_for(sums.column_sums([[cell.strip() for cell in row.split("|")] for row in rows]))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # What is added, and how it is written.
        (["Region | Orders | Returns", "North | 430 | 39", "East | 306 | 27"], "Orders 736; Returns 66"),
        (["Day | Spent", "Mon | $1,204.50", "Tue | -$4.25", "Wed | ($100.25)"], "Spent 1100.00"),
        (["Ware | Betrag", "A | 1.036,80 €", "B | 186,60 €"], "Betrag 1223.40"),
        (["Article | Montant", "A | 1 911,99 €", "B | 654,60 €", "C | -88,00 €"], "Montant 2478.59"),
        (["Quarter | 2024 | 2025", "Q1 | 1,204 | 1,377", "Q2 | 1,198 | 1,402"], "2024 = 2402; 2025 = 2779"),
        (["A | 0.1", "B | 0.2", "C | 0.4"], "0.7"),
        (["Item | Count", "Bolt | 120", "Nut | -", "Pin | 7,500"], "Count 7620"),
        (["Date | Cost", "03.05.2026 | 12.50", "04.05.2026 | 3.25"], "Cost 15.75"),
        # A quantity is added, the unit price is not, on whichever side it stands.
        (["Item | Qty | Price | Amount", "A | 12 | 3.75 | 45.00", "B | 4 | 11.20 | 44.80"], "Qty 16; Amount 89.80"),
        (["Item | Price | Hours | Due by", "A | 20 | 2 | 40", "B | 15 | 3 | 45"], "Price 35; Due by 85"),
        (["Item | Pcs | Unit price", "A | 12 | 3.75", "B | 4 | 11.20"], "Pcs 16"),
        # Codes, dates, years, line numbers, percentages.
        (["Article | Pieces", "00431386 | 182", "00429949 | 247"], "Pieces 429"),
        (["UPC | Pieces", "85648100305 | 18", "85648100380 | 24"], "Pieces 42"),
        (["Account | Pieces", "431386 | 18", "429949 | 24"], "Pieces 42"),
        (["Part | Plan", "431386 | 18", "429949 | 24"], "Plan 42"),
        (["Name | Year", "A | 2024", "B | 2025"], ""),
        (["Name | Born", "A | 1984", "B | 1965"], ""),
        (["# | Name | Share", "1 | A | 20 %", "2 | B | 80 %"], ""),
        (["Pos | Name", "10 | A", "20 | B", "30 | C"], ""),
        (["Hour | Visits", "8 | 14", "9 | 15", "10 | 11"], "Visits 40"),
        (["Train | Platform", "IC 12 | 3", "IC 14 | 4"], ""),
        (["Qty | Item", "4 | A", "9 | B", "2 | C"], "Qty 15"),
        (["Name | Phone", "A | 555 0120", "B | 555 0177"], ""),
        (["Name | PO number", "A | 120", "B | 177"], ""),
        (["Date | Time", "03.05.2026 | 18:30", "04.05.2026 | 19:00"], ""),
        # A total is there already.
        (["Shop | Sales", "A | 120", "B | 80", "Total | 200"], ""),
        (["Bread | 5.98", "Oil | 13.62", "ZUSAMMEN | 19.60", "Bar | 20.00"], ""),
        (["Bread | 5.98", "Oil | 13.62", "TOTAL | 19.61"], ""),
        (["Subtotal | 127.70", "VAT 20% | 25.54", "Total due | 153.24"], ""),
        # Nothing to add, or nothing that is certain.
        (["Shop | Fee", "A | 0.00", "B | 0.00"], ""),
        (["Shop | Fee", "A | 5.00", "B | none"], ""),
        (["Shop | Fee", "A | $5.00", "B | 6.00 €"], ""),
        (["Shop | Mass", "A | 1.204", "B | 2.500"], ""),
        (["Shop | Fee", "A | 1.5", "B | 1,5"], ""),
        (["Shop | Fee", "A | 5.00"], ""),
        (["Length | 20", "Width | 30"], ""),
    ],
)
def test_columns(rows: list[str], expected: str) -> None:
    assert words_of(*rows) == expected


@given(st.lists(st.decimals(-(10**6), 10**6, places=2), min_size=2, max_size=9))
def test_sums_are_exact_in_either_notation(values: list[Decimal]) -> None:
    english = [f"{value:,.2f}" for value in values]
    german = [text.translate(str.maketrans(",.", ".,")) for text in english]
    for cells, mark in ((english, "."), (german, ",")):
        assert decimal_mark(cells) == mark
        read = [value_of(number, mark) for cell in cells if (number := parse(cell))]
        assert read == values


@given(st.text(alphabet="0123456789.,'- €$()%\u00a0A", max_size=14))
def test_any_text_is_a_number_or_not(text: str) -> None:
    number = parse(text)
    for mark in ".,":
        value = value_of(number, mark) if number else None
        assert value is None or value.is_finite()


def report(folder: Path, *pages: drawn.Page) -> str:
    path = folder / "report.pdf"
    path.write_bytes(drawn.report_pdf(pages))
    return document.look(path, {}, 6000, True).text


def test_several_tables_are_told_by_their_titles(tmp_path: Path) -> None:
    tables = [
        drawn.Table(title, ["Depot", "Pallets"], [["North", north], ["South", south]])
        for title, north, south in (("May", "12", "30"), ("June", "7", "1,100"))
    ]
    assert "column sums: May: Pallets 42; June: Pallets 1107" in report(tmp_path, drawn.Page("Pallets", tables))


def test_a_table_over_two_pages_is_added_as_one(tmp_path: Path) -> None:
    rows = [[f"Lot {at}", f"{at * 17 % 90 + 1}"] for at in range(30)]
    both = drawn.Invoice("LIST", ["A"], ["B"], [("Ref", "X-1")], ["Lot", "Weight"], rows, [])
    path = tmp_path / "list.pdf"
    path.write_bytes(drawn.invoice_pdf(both, rows_per_page=16))
    text = document.look(path, {}, 6000, True).text
    assert text.count("column sums") == 1
    assert text.endswith(f"column sums: Weight {sum(int(weight) for _lot, weight in rows)}")
    # Where the second page is not shown, the first has no sum either: it would be half of one.
    assert "column sums" not in document.look(path, {}, 350, True).text


@pytest.mark.parametrize("layout", ["right", "left", "band"])
@pytest.mark.parametrize("ruled", [True, False])
@pytest.mark.parametrize("rows_per_page", [20, 2])
def test_an_invoice_prints_its_own_totals(tmp_path: Path, layout: str, ruled: bool, rows_per_page: int) -> None:
    rows = [["Bracket", "12", "3.75", "45.00"], ["Pipe", "4", "11.20", "44.80"], ["Valve", "2", "18.95", "37.90"]]
    totals = [("Subtotal", "127.70"), ("VAT 20%", "25.54"), ("Total due", "GBP 153.24")]
    facts = [("Invoice no", "2041"), ("Date", "3 May 2026"), ("Customer", "7712")]
    bill = drawn.Invoice(
        "INVOICE", ["Halden Ltd"], ["Ortega"], facts, ["Item", "Qty", "Unit price", "Amount"], rows, totals
    )
    path = tmp_path / "invoice.pdf"
    path.write_bytes(drawn.invoice_pdf(bill, layout, ruled, rows_per_page))  # type: ignore[arg-type]
    assert "sums" not in document.look(path, {}, 6000, True).text


def test_a_letter_has_no_sums(tmp_path: Path) -> None:
    lines = ["The rent is 836.00 a month.", "The deposit is 2,887.00.", "Call 555 0120 before 8 May 2026."]
    assert "sums" not in report(tmp_path, drawn.Page("Your new lease", lines))


def test_extracted_tables_have_their_sums(tmp_path: Path) -> None:
    table = drawn.Table("Depot", ["Part", "Bin", "Count"], [["Bolt", "A1", "120"], ["Nut", "A2", "80"]])
    path = tmp_path / "stock.pdf"
    path.write_bytes(drawn.report_pdf([drawn.Page("Stock", [table])]))
    (found,) = document.extract_tables(path)
    assert found.for_model().startswith("table on page 1, 3 rows x 3 columns (column sums: Count 200):")


def test_scans_and_pictures(tmp_path: Path) -> None:
    page = pictures.paper(["#Stock", ("Bolt", "120"), ("Nut", "45"), ("Washer", "7500")])
    scan = pictures.scanned(page, seed=1, skew=2)
    path = tmp_path / "scan.pdf"
    path.write_bytes(drawn.picture_pdf([scan]))
    assert document.look(path, {}, 6000, True).text.endswith("column sums: 7665")
    read = ocr.read(scan)
    assert read.sums == "column sums: 7665"
    assert read.for_model().endswith("Washer   7500\ncolumn sums: 7665")
    scan.save(tmp_path / "scan.png")
    assert image.look(tmp_path / "scan.png", {}, 6000, True).text.endswith("column sums: 7665")


def test_a_chart_of_one_series() -> None:
    one = pictures.bar_chart("Visits", ["Jan", "Feb", "Mar"], {"": [541, 359, 362]}, axis="month")
    assert ocr.read(one).sums == "sum of the values: 1262"
    two = pictures.bar_chart("Visits", ["Jan", "Feb", "Mar"], {"A": [54, 35, 36], "B": [12, 44, 31]}, axis="month")
    assert ocr.read(two).sums == ""


@needs_samples
def test_public_tables() -> None:
    accrued = document.look(SHARED / "public" / "pdf" / "plumber_issue-140-example.pdf", {}, 6000, True).text
    assert accrued.endswith("column sums: Item Quantity 2300; Accrued Amount 1403.00")
    assert "2024 = 3653, 2025 = 4245" in document.look(SHARED / "report_table.pdf", {}, 6000, True).text
    invoice = SHARED / "public" / "invoices" / "SammyMaystoneLinesTest.pdf"
    assert "sums" not in document.look(invoice, {}, 6000, True).text
