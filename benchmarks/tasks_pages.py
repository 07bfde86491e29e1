"""The drawn tasks whose file is a PDF of text and tables: tables, letters, and a fact on one page of twelve."""

from __future__ import annotations

from random import Random

from benchmarks.task import DATE, NUMBER, TEXT, WHOLE, Task, Tier, date, many, number, record, text
from benchmarks.task import rows as row_checks
from tests.drawn import Page, Table, report_pdf


def article_numbers(rng: Random, count: int) -> list[str]:
    """Article numbers with a leading zero, so that a number is the wrong type for them."""
    return [f"00{value}" for value in rng.sample(range(410000, 499999), count)]


def table_stock(rng: Random) -> Task:
    cells = [(sku, rng.randint(20, 400), round(rng.uniform(90, 900), 2)) for sku in article_numbers(rng, 5)]
    table = Table(
        "Stock on 30 June", ["Article", "Pieces", "Value EUR"], [[s, str(n), f"{v:,.2f}"] for s, n, v in cells]
    )
    return Task(
        "tbl-stock",
        "table",
        "dev",
        "List each article with its pieces and value, and add up the values.",
        "stock.pdf",
        report_pdf([Page("Half-year stocktaking", ["Counted by two people. Values at cost.", "", table])]),
        record(rows=many(record(article=TEXT, pieces=WHOLE, value=NUMBER)), value_sum=NUMBER),
        [
            *row_checks("rows", "article", {s: {"pieces": n, "value": v} for s, n, v in cells}),
            number("value_sum", round(sum(v for _s, _n, v in cells), 2)),
        ],
    )


def table_freight(rng: Random) -> Task:
    ports = ["Gdynia", "Bilbao", "Antwerp", "Piraeus", "Cork"]
    cells = [(port, rng.randint(12, 90), round(rng.uniform(300, 3000), 1)) for port in ports]
    table = Table(
        "Containers", ["Port", "Boxes", "Tonnes"], [[p, str(n), f"{t:.1f}"] for p, n, t in cells], ruled=False
    )
    return Task(
        "tbl-freight",
        "table",
        "held",
        "Return all rows of the container table (port, boxes, tonnes) and the total number of boxes.",
        "freight.pdf",
        report_pdf([Page("Weekly freight report", ["Week 19. All figures are preliminary.", "", table])]),
        record(rows=many(record(port=TEXT, boxes=WHOLE, tonnes=NUMBER)), boxes_total=WHOLE),
        [
            *row_checks("rows", "port", {p: {"boxes": n, "tonnes": t} for p, n, t in cells}),
            number("boxes_total", sum(n for _p, n, _t in cells), 0),
        ],
    )


def order_tables(
    rng: Random, titles: list[str], first: str, names: list[str]
) -> tuple[list[Table], dict[str, dict[str, int]]]:
    """One table a title, with the same names but other numbers; also the numbers, by title and name."""
    truth = {title: dict(zip(names, rng.sample(range(110, 990), len(names)), strict=True)) for title in titles}
    tables = [
        Table(title, [first, "Orders", "Returns"], [[r, str(n), str(n // 11)] for r, n in truth[title].items()])
        for title in titles
    ]
    return tables, truth


def table_regions(rng: Random) -> Task:
    titles = ["First quarter", "Second quarter", "Third quarter"]
    tables, truth = order_tables(rng, titles, "Region", ["North", "East", "South", "West"])
    wanted = truth["Second quarter"]
    return Task(
        "tbl-regions",
        "table",
        "dev",
        "The file has one table per quarter. From the second quarter only: orders of each region, and their sum.",
        "quarters.pdf",
        report_pdf([Page("Orders and returns", ["Figures of the three closed quarters.", "", *tables])]),
        record(rows=many(record(region=TEXT, orders=WHOLE)), orders_sum=WHOLE),
        [
            *row_checks("rows", "region", {r: {"orders": n} for r, n in wanted.items()}),
            number("orders_sum", sum(wanted.values()), 0),
        ],
    )


def table_meters(rng: Random) -> Task:
    titles = ["Building A", "Building B"]
    tables, truth = order_tables(rng, titles, "Month", ["March", "April", "May", "June"])
    wanted = truth["Building B"]
    fewest = min(wanted, key=lambda month: wanted[month])
    return Task(
        "tbl-meters",
        "table",
        "held",
        "For Building B: which month has the fewest orders, how many orders is that, and how many orders did the "
        "building "
        "have in all four months together?",
        "buildings.pdf",
        report_pdf([Page("Canteen orders", ["Page 1 covers both buildings.", "", *tables])]),
        record(month=TEXT, orders=WHOLE, orders_total=WHOLE),
        [text("month", fewest), number("orders", wanted[fewest], 0), number("orders_total", sum(wanted.values()), 0)],
    )


def letter_lease(rng: Random) -> Task:
    rent, deposit, number_ = rng.randint(700, 1400), rng.randint(1800, 3000), f"L-{rng.randint(100, 999)}/26"
    lines = [
        "Riverside Property Management",
        "2 April 2026",
        "",
        f"Reference: {number_}",
        "",
        "Dear tenant,",
        "",
        "Thank you for returning the signed lease for the flat at 9 Weaver Court.",
        f"The lease begins on 1 May 2026. The monthly rent is £{rent:,}.00 and is due on the third",
        f"working day of each month. We have received your deposit of £{deposit:,}.00.",
        "",
        "Either side may end the lease with two months' notice, but not before 31 October 2026.",
        "Please read the meters when you move in and send us the figures by 8 May 2026.",
        "",
        "Yours faithfully",
    ]
    return Task(
        "letter-lease",
        "letter",
        "dev",
        "Key facts of this letter please: reference, start of the lease, monthly rent, deposit, and the date by "
        "which the "
        "meter readings are due. Dates as YYYY-MM-DD.",
        "letter.pdf",
        report_pdf([Page("Your new lease", lines)]),
        record(reference=TEXT, lease_start=DATE, monthly_rent=NUMBER, deposit=NUMBER, meter_readings_due=DATE),
        [
            text("reference", number_),
            date("lease_start", "2026-05-01"),
            number("monthly_rent", rent),
            number("deposit", deposit),
            date("meter_readings_due", "2026-05-08"),
        ],
    )


def letter_repair(rng: Random) -> Task:
    case, cost, hours = f"SR-{rng.randint(10000, 99999)}", rng.randint(180, 420) + 0.5, rng.randint(3, 9)
    lines = [
        "Wartungsdienst Alpenblick GmbH",
        "den 17. Juni 2026",
        "",
        f"Auftrag {case}",
        "",
        "Sehr geehrte Damen und Herren,",
        "",
        "die Reparatur Ihres Aufzugs ist abgeschlossen. Unser Techniker war am 15. Juni 2026",
        f"insgesamt {hours} Stunden vor Ort und hat das Steuergerät AX-40 ersetzt.",
        f"Die Kosten betragen {cost:.2f} Euro".replace(".", ",")
        + " und liegen damit unter dem Angebot von 450,00 Euro.",
        "Die nächste Prüfung ist am 20. September 2026 fällig.",
        "",
        "Mit freundlichen Grüßen",
    ]
    return Task(
        "letter-repair",
        "letter",
        "held",
        "This is a letter in German about a lift. What is the order number, on which day was the technician "
        "there, how many "
        "hours, what did it cost, which part was replaced and when is the next inspection? Dates: YYYY-MM-DD.",
        "brief.pdf",
        report_pdf([Page("Abschluss der Arbeiten", lines)]),
        record(order=TEXT, visit=DATE, hours=NUMBER, cost=NUMBER, part=TEXT, next_inspection=DATE),
        [
            text("order", case, f"Auftrag {case}"),
            date("visit", "2026-06-15"),
            number("hours", hours),
            number("cost", cost),
            text("part", "AX-40", "Steuergerät AX-40"),
            date("next_inspection", "2026-09-20"),
        ],
    )


FILLER = (
    "Wipe the housing with a dry cloth and do not use solvents.",
    "Check the cable for damage before each use.",
    "The status light shows the state of the unit at a glance.",
    "Keep the ventilation slots free and away from heat.",
    "Write down every change of a setting in the log book.",
    "Store the spare parts in their bags until they are needed.",
    "Only trained staff may open the cover.",
    "Let the unit cool down for a quarter of an hour first.",
)


def twelve_pages(rng: Random, subjects: list[str], facts: dict[int, list[str]]) -> bytes:
    """Twelve pages of plain text; `facts` are the lines that stand on the page of that number."""
    pages = []
    for index, subject in enumerate(subjects, 1):
        lines = [line for text_ in rng.sample(FILLER, 8) for line in (text_, "")]
        for offset, fact in enumerate(facts.get(index, [])):
            lines[4 + 4 * offset] = fact
        pages.append(Page(f"{index}. {subject}", lines))
    return report_pdf(pages)


def long_task(rng: Random, id: str, tier: Tier, subjects: list[str], page: int, prompt: str, value: float) -> Task:
    seal, other = (f"D-{digits}" for digits in rng.sample(range(2000, 9999), 2))
    low, high = round(value * 0.7, 1), round(value * 1.3, 1)
    facts = {
        page - 3: [f"The relief valve of the small model opens at {low} bar."],
        page: [f"The relief valve of the large model opens at {value} bar.", f"Order number of the seal: {seal}."],
        page + 2: [f"Never test the vessel above {high} bar.", f"Order number of the filter: {other}."],
    }
    return Task(
        id,
        "long",
        tier,
        prompt,
        "manual.pdf",
        twelve_pages(rng, subjects, facts),
        record(pressure_bar=NUMBER, seal_order_number=TEXT, page=WHOLE),
        [number("pressure_bar", value), text("seal_order_number", seal), number("page", page, 0)],
    )


def long_compressor(rng: Random) -> Task:
    subjects = (
        "Safety,Parts,Unpacking,Setting up,First start,Operation,Settings,Maintenance,Valves,Faults,Storage,Disposal"
    )
    prompt = (
        "In this manual, at which pressure (bar) does the relief valve of the large model open, what is the "
        "order number "
        "of the seal, and on which page is that written?"
    )
    return long_task(rng, "long-compressor", "dev", subjects.split(","), 9, prompt, round(rng.uniform(7, 9.5), 1))


def long_boiler(rng: Random) -> Task:
    subjects = "Notice,Contents,Models,Place,Water,Power,Pressure,Start,Care,Winter,Repair,Warranty"
    prompt = (
        "Find the opening pressure of the large model's relief valve and the seal's order number. Also tell me "
        "the page "
        "you found them on."
    )
    return long_task(rng, "long-boiler", "held", subjects.split(","), 7, prompt, round(rng.uniform(2.5, 3.9), 1))


PAGES = (
    table_stock,
    table_freight,
    table_regions,
    table_meters,
    letter_lease,
    letter_repair,
    long_compressor,
    long_boiler,
)
