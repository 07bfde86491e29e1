"""The drawn tasks whose file is an invoice: PDFs with a text layer, in three layouts and languages."""

from __future__ import annotations

from datetime import date as day
from datetime import timedelta
from random import Random

from benchmarks.task import DATE, NUMBER, TEXT, Task, Tier, date, many, number, record, text
from benchmarks.task import rows as row_checks
from tests.drawn import Invoice, invoice_pdf

MONTHS = [day(2026, month, 1).strftime("%B") for month in range(1, 13)]  # English: no locale is set
MOIS = ["janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre"]

ITEM = record(item=TEXT, quantity=NUMBER, amount=NUMBER)


def english(value: float) -> str:
    """1234.5 → 1,234.50"""
    return f"{value:,.2f}"


def german(value: float) -> str:
    """1234.5 → 1.234,50"""
    return english(value).translate(str.maketrans(",.", ".,"))


def french(value: float) -> str:
    """1234.5 → 1 234,50"""
    return english(value).translate(str.maketrans(",.", " ,"))


def goods(rng: Random, names: list[str], low: float, high: float) -> list[tuple[str, int, float, float]]:
    """Name, quantity, unit price and amount of each of `names`; no two amounts are equal."""
    lines: list[tuple[str, int, float, float]] = []
    for name in names:
        while True:
            quantity, price = rng.randint(2, 24), round(rng.uniform(low, high), 2)
            amount = round(quantity * price, 2)
            if amount not in [line[3] for line in lines]:
                lines.append((name, quantity, price, amount))
                break
    return lines


def issued(rng: Random) -> tuple[day, day]:
    """A date of issue and a due date. The day is above 12, so that day and month cannot be mistaken."""
    start = day(2026, rng.randint(1, 9), rng.randint(13, 16))
    return start, start + timedelta(days=rng.choice([10, 12]))


def items(lines: list[tuple[str, int, float, float]]) -> dict[str, dict[str, float]]:
    """The truth of a list of quantity and amount, by name."""
    return {name: {"quantity": quantity, "amount": amount} for name, quantity, _price, amount in lines}


def invoice_tools(rng: Random) -> Task:
    lines = goods(rng, ["Torque wrench 20 Nm", "Socket set, metric", "Work gloves, pair", "Safety goggles"], 4, 60)
    start, due = issued(rng)
    total, shipping = sum(line[3] for line in lines), 18.5
    number_, order = f"INV-{rng.randint(20000, 89999)}", f"PO-{rng.randint(1000, 9999)}-B"
    invoice = Invoice(
        title="INVOICE",
        seller=["Ridgeway Tool Supply Inc.", "88 Foundry Lane", "Dayton, OH 45402"],
        buyer=["Lakeside Boat Works", "5 Quay Street", "Erie, PA 16501"],
        facts=[
            ("Invoice #", number_),
            ("Invoice date", f"{MONTHS[start.month - 1]} {start.day}, {start.year}"),
            ("Due date", f"{MONTHS[due.month - 1]} {due.day}, {due.year}"),
            ("P.O. number", order),
            ("Customer ID", f"C{rng.randint(100, 999)}"),
        ],
        columns=["Description", "Qty", "Unit price", "Amount"],
        rows=[[name, str(q), f"${english(p)}", f"${english(a)}"] for name, q, p, a in lines],
        totals=[
            ("Subtotal", f"${english(total)}"),
            ("Shipping", f"${english(shipping)}"),
            ("Balance due", f"${english(total + shipping)}"),
        ],
        notes=["Please quote the invoice number with your payment.", "Returns within 30 days."],
    )
    return Task(
        "inv-tools",
        "invoice",
        "dev",
        "Extract the invoice number, invoice date and due date (YYYY-MM-DD), the PO number, the balance due and every "
        "line item with quantity and amount.",
        "invoice.pdf",
        invoice_pdf(invoice, "right"),
        record(invoice_number=TEXT, date=DATE, due_date=DATE, po_number=TEXT, balance_due=NUMBER, items=many(ITEM)),
        [
            text("invoice_number", number_),
            date("date", start.isoformat()),
            date("due_date", due.isoformat()),
            text("po_number", order),
            number("balance_due", total + shipping),
            *row_checks("items", "item", items(lines)),
        ],
    )


def invoice_coffee(rng: Random) -> Task:
    lines = goods(rng, ["House blend 1 kg", "Decaf 1 kg", "Paper filters, box"], 6, 24)
    start, due = issued(rng)
    net = sum(line[3] for line in lines)
    vat = round(net * 0.2, 2)
    number_ = f"{rng.randint(100, 999)}/{rng.randint(1000, 9999)}"
    invoice = Invoice(
        title="Tax Invoice",
        seller=["Northgate Coffee Roasters Ltd", "VAT reg. GB 987 6543 21", "Leeds LS1 4AP"],
        buyer=["Canal Street Library", "Accounts payable", "Manchester M1 3HU"],
        facts=[
            ("Our reference", f"SO{rng.randint(10000, 99999)}"),
            ("Invoice no.", number_),
            ("Tax point", f"{start.day} {MONTHS[start.month - 1]} {start.year}"),
            ("Payment due", f"{due.day} {MONTHS[due.month - 1]} {due.year}"),
        ],
        columns=["Item", "Quantity", "Each", "Line total"],
        rows=[[name, str(q), english(p), english(a)] for name, q, p, a in lines],
        totals=[("Net", f"£{english(net)}"), ("VAT 20%", f"£{english(vat)}"), ("Total", f"£{english(net + vat)}")],
        notes=["A late payment charge of £40.00 applies after the due date."],
        buyer_label="Invoice to",
    )
    return Task(
        "inv-coffee",
        "invoice",
        "held",
        "Who sent this bill, what is its invoice number, how much are net, VAT and total, and by which day must it be "
        "paid (YYYY-MM-DD)?",
        "bill.pdf",
        invoice_pdf(invoice, "left", ruled=False),
        record(supplier=TEXT, invoice_number=TEXT, net=NUMBER, vat=NUMBER, total=NUMBER, due_date=DATE),
        [
            text("supplier", "Northgate Coffee Roasters Ltd", "Northgate Coffee Roasters"),
            text("invoice_number", number_),
            number("net", net),
            number("vat", vat),
            number("total", net + vat),
            date("due_date", due.isoformat()),
        ],
    )


def german_invoice(
    rng: Random, id: str, tier: Tier, layout: str, seller: list[str], names: list[str], prompt: str
) -> Task:
    lines = goods(rng, names, 15, 90)
    start, due = issued(rng)
    net = sum(line[3] for line in lines)
    vat = round(net * 0.19, 2)
    number_ = f"RE-2026-{rng.randint(1000, 9999)}"
    invoice = Invoice(
        title="Rechnung",
        seller=seller,
        buyer=["Gartenbau am See GmbH", "Uferweg 12", "78462 Konstanz"],
        facts=[
            ("Kundennr.", str(rng.randint(10000, 99999))),
            ("Rechnungsnr.", number_),
            ("Datum", f"{start:%d.%m.%Y}"),
            ("Zahlbar bis", f"{due:%d.%m.%Y}"),
        ],
        columns=["Bezeichnung", "Menge", "Einzelpreis", "Betrag"],
        rows=[[name, str(q), f"{german(p)} €", f"{german(a)} €"] for name, q, p, a in lines],
        totals=[
            ("Nettobetrag", f"{german(net)} €"),
            ("MwSt. 19 %", f"{german(vat)} €"),
            ("Gesamtbetrag", f"{german(net + vat)} €"),
        ],
        notes=[f"Bei Zahlung innerhalb von 5 Tagen 2 % Skonto: {german(round((net + vat) * 0.98, 2))} €."],
        buyer_label="Rechnungsempfänger",
    )
    return Task(
        id,
        "invoice",
        tier,
        prompt,
        "rechnung.pdf",
        invoice_pdf(invoice, layout),  # type: ignore[arg-type]
        record(invoice_number=TEXT, date=DATE, due_date=DATE, net=NUMBER, vat=NUMBER, gross=NUMBER, items=many(ITEM)),
        [
            text("invoice_number", number_),
            date("date", start.isoformat()),
            date("due_date", due.isoformat()),
            number("net", net),
            number("vat", vat),
            number("gross", net + vat),
            *row_checks("items", "item", items(lines)),
        ],
    )


def invoice_pflanzen(rng: Random) -> Task:
    return german_invoice(
        rng,
        "inv-pflanzen",
        "dev",
        "band",
        ["Baumschule Lindenhof", "Feldstraße 3", "88662 Überlingen"],
        ["Rotbuche 150 cm", "Blumenerde 40 l", "Pflanzpfähle"],
        "German invoice. Give me its number, its date and the last day of payment (both YYYY-MM-DD), net, VAT "
        "and gross "
        "amount without any discount, and the items with quantity and amount.",
    )


def invoice_druckerei(rng: Random) -> Task:
    return german_invoice(
        rng,
        "inv-druckerei",
        "held",
        "right",
        ["Druckerei Sonnenhang", "Gewerbepark 7", "79098 Freiburg"],
        ["Faltblatt A5", "Visitenkarten matt", "Plakat A2", "Aufkleber rund"],
        "Lies diese Rechnung aus: Nummer, Datum und Fälligkeit (JJJJ-MM-TT), Netto, Mehrwertsteuer und Brutto ohne "
        "Skonto sowie alle Positionen mit Menge und Betrag.",
    )


def french_invoice(rng: Random, id: str, tier: Tier, layout: str, seller: list[str], names: list[str]) -> Task:
    lines = goods(rng, names, 20, 140)
    start, due = issued(rng)
    net = sum(line[3] for line in lines)
    vat = round(net * 0.2, 2)
    paid = float(rng.randint(50, 90))
    number_ = f"F{rng.randint(100000, 999999)}"
    invoice = Invoice(
        title="FACTURE",
        seller=seller,
        buyer=["Hôtel du Vieux Port", "14 rue des Écoles", "17000 La Rochelle"],
        facts=[
            ("Facture n°", number_),
            ("Date", f"{start.day} {MOIS[start.month - 1]} {start.year}"),
            ("Échéance", f"{due.day} {MOIS[due.month - 1]} {due.year}"),
        ],
        columns=["Désignation", "Qté", "P.U. HT", "Montant HT"],
        rows=[[name, str(q), f"{french(p)} €", f"{french(a)} €"] for name, q, p, a in lines],
        totals=[
            ("Total HT", f"{french(net)} €"),
            ("TVA 20 %", f"{french(vat)} €"),
            ("Total TTC", f"{french(net + vat)} €"),
            ("Acompte versé", f"-{french(paid)} €"),
            ("Net à payer", f"{french(net + vat - paid)} €"),
        ],
        buyer_label="Client",
    )
    return Task(
        id,
        "invoice",
        tier,
        "From this French invoice: its number, the due date as YYYY-MM-DD, the total including tax, the deposit "
        "already "
        "paid (as a positive number), what is left to pay, and the quantity and amount of each line.",
        "facture.pdf",
        invoice_pdf(invoice, layout),  # type: ignore[arg-type]
        record(
            invoice_number=TEXT, due_date=DATE, total_with_tax=NUMBER, deposit=NUMBER, to_pay=NUMBER, items=many(ITEM)
        ),
        [
            text("invoice_number", number_),
            date("due_date", due.isoformat()),
            number("total_with_tax", net + vat),
            number("deposit", paid),
            number("to_pay", net + vat - paid),
            *row_checks("items", "item", items(lines)),
        ],
    )


def invoice_voile(rng: Random) -> Task:
    seller = ["Voilerie Atlantique SARL", "3 quai de la Marine", "56100 Lorient"]
    return french_invoice(
        rng, "inv-voile", "dev", "left", seller, ["Toile enduite 2 m", "Cordage 10 mm", "Poulie inox"]
    )


def invoice_traiteur(rng: Random) -> Task:
    seller = ["Traiteur des Halles", "8 place du Marché", "37000 Tours"]
    return french_invoice(rng, "inv-traiteur", "held", "band", seller, ["Plateau déjeuner", "Café et thé", "Dessert"])


def long_invoice(rng: Random, id: str, tier: Tier, currency: str, names: list[str], asked: int) -> Task:
    lines = goods(rng, names, 3, 40)
    start, _due = issued(rng)
    total = sum(line[3] for line in lines)
    number_ = f"{rng.randint(10, 99)}-{rng.randint(100000, 999999)}"
    wanted, _quantity, _price, amount = lines[asked]
    invoice = Invoice(
        title="Invoice",
        seller=["Meridian Office Wholesale", "Unit 4, Trade Park", "Dublin 12"],
        buyer=["City College", "Purchasing office", "Cork"],
        facts=[
            ("Number", number_),
            ("Date", f"{start.day} {MONTHS[start.month - 1]} {start.year}"),
            ("Terms", "14 days"),
        ],
        columns=["Article", "Qty", "Price", "Total"],
        rows=[[name, str(q), english(p), english(a)] for name, q, p, a in lines],
        totals=[(f"Amount payable in {currency}", english(total))],
    )
    return Task(
        id,
        "invoice",
        tier,
        f"This invoice runs over two pages. What is its number, in which currency (three letters) is it, what is the "
        f"amount payable, and what does '{wanted}' cost in all?",
        "invoice_2_pages.pdf",
        invoice_pdf(invoice, "right", rows_per_page=14),
        record(invoice_number=TEXT, currency=TEXT, payable=NUMBER, line_total=NUMBER),
        [
            text("invoice_number", number_),
            text("currency", currency),
            number("payable", total),
            number("line_total", amount),
        ],
    )


def invoice_office(rng: Random) -> Task:
    names = [
        f"{kind} {size}"
        for kind in ("Folder", "Envelope", "Label", "Notebook", "Pad")
        for size in ("A3", "A4", "A5", "A6")
    ]
    return long_invoice(rng, "inv-office", "dev", "EUR", names, 17)


def invoice_school(rng: Random) -> Task:
    names = [
        f"{kind} {colour}"
        for kind in ("Chalk", "Marker", "Pencil", "Binder", "Card", "Tape")
        for colour in ("red", "blue", "green")
    ]
    return long_invoice(rng, "inv-school", "held", "CHF", names, 10)


INVOICES = (
    invoice_tools,
    invoice_coffee,
    invoice_pflanzen,
    invoice_druckerei,
    invoice_voile,
    invoice_traiteur,
    invoice_office,
    invoice_school,
)
