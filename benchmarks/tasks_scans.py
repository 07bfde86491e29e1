"""The drawn tasks whose file is a scan: pictures and picture-only PDFs of text, and receipts."""

from __future__ import annotations

from random import Random

from benchmarks.task import DATE, NUMBER, TEXT, WHOLE, Task, Tier, date, exact, many, names, number, record, text
from benchmarks.task import rows as row_checks
from tests.drawn import picture_pdf
from tests.pictures import encoded, paper, scanned, tiff


def scan_notice(rng: Random) -> Task:
    room, phone, seats = f"B{rng.randint(100, 399)}", f"555-0{rng.randint(100, 199)}", rng.randint(24, 60)
    page = paper(
        [
            "#NOTICE",
            "",
            "The evening course on bookbinding",
            "starts on 14 September 2026 at 18:30",
            f"in room {room}.",
            f"There are {seats} seats.",
            f"Questions: call {phone}.",
        ],
        width=900,
    )
    return Task(
        "scan-notice",
        "scan",
        "dev",
        "When does the course start (YYYY-MM-DD), in which room, how many seats are there and which phone "
        "number is given?",
        "notice.png",
        encoded(scanned(page, rng.randint(1, 9999), skew=2.5, noise=0.15)),
        record(start=DATE, room=TEXT, seats=WHOLE, phone=TEXT),
        [
            date("start", "2026-09-14"),
            text("room", room, f"room {room}"),
            number("seats", seats, 0),
            text("phone", phone),
        ],
    )


def scan_delivery(rng: Random) -> Task:
    number_, boxes, weight = f"LS-{rng.randint(10000, 99999)}", rng.randint(3, 19), round(rng.uniform(120, 480), 1)
    page = paper(
        [
            "#Lieferschein",
            ("Nummer", number_),
            ("Lieferdatum", "21.08.2026"),
            "",
            "Fliesenhandel Süd GmbH, Würzburg",
            "",
            ("Kartons", str(boxes)),
            ("Gesamtgewicht", f"{weight:.1f} kg".replace(".", ",")),
            "Ware vollständig erhalten",
        ],
        width=900,
    )
    return Task(
        "scan-delivery",
        "scan",
        "held",
        "Scanned German delivery note. Return its number, the delivery date (YYYY-MM-DD), how many boxes and "
        "the weight in kg.",
        "lieferschein.jpg",
        encoded(scanned(page, rng.randint(1, 9999), skew=-3.0, noise=0.12, shadow=0.45), "JPEG"),
        record(number=TEXT, delivered=DATE, boxes=WHOLE, weight_kg=NUMBER),
        [
            text("number", number_),
            date("delivered", "2026-08-21"),
            number("boxes", boxes, 0),
            number("weight_kg", weight),
        ],
    )


def scan_languages(rng: Random) -> Task:
    price, percent, year = rng.randint(1000, 9000) + 0.25, rng.randint(11, 48) + 0.5, rng.randint(1961, 1999)
    page = paper(
        [
            f"The museum's oldest clock cost ${price:,.2f}.",
            f"Seit {year} steht sie im großen Saal.",
            f"Elle retarde de {percent}% pendant l'été.",
            "Si fermava sempre a mezzogiorno.",
            "Escribe a reloj@museum.example.",
        ],
        width=1100,
    )
    return Task(
        "scan-languages",
        "scan",
        "dev",
        "The scanned note has one line each in a different language. Return the dollar price, the year, the "
        "percentage, the "
        "e-mail address, and the languages by their English names.",
        "note.tif",
        tiff([page]),
        record(price=NUMBER, year=WHOLE, percent=NUMBER, email=TEXT, languages=many(TEXT)),
        [
            number("price", price),
            number("year", year, 0),
            number("percent", percent),
            exact("email", "reloj@museum.example"),
            names("languages", "English", "German", "French", "Italian", "Spanish"),
        ],
    )


def scan_fax(rng: Random) -> Task:
    order, total = f"A{rng.randint(1000, 9999)}-K", round(rng.uniform(200, 900), 2)
    pages = [
        paper(
            [
                "#FAX - 3 pages",
                "",
                "To: Sales desk",
                "From: Hill Street Bakery",
                "Date: 19 May 2026",
                "See the order overleaf.",
            ]
        ),
        paper(
            [
                f"#Order {order}",
                ("Rye flour, 20 bags", "238.00"),
                ("Yeast, 6 boxes", f"{total - 238:.2f}"),
                ("Order value", f"{total:.2f}"),
            ]
        ),
        paper(["#Conditions", "", "Delivery within 5 working days.", "Ring twice at gate 2."]),
    ]
    return Task(
        "scan-fax",
        "scan",
        "held",
        "A fax of three pages. What is the order number, what is the order worth, who sent it, on what date "
        "(YYYY-MM-DD), "
        "and at which gate should the driver ring?",
        "fax.tif",
        tiff(pages),
        record(order_number=TEXT, order_value=NUMBER, sender=TEXT, date=DATE, gate=WHOLE),
        [
            text("order_number", order),
            number("order_value", total),
            text("sender", "Hill Street Bakery"),
            date("date", "2026-05-19"),
            number("gate", 2, 0),
        ],
    )


def scan_minutes(rng: Random) -> Task:
    budget, present = rng.randint(20, 80) * 100, rng.randint(9, 17)
    pages = [
        paper(
            [
                "#Minutes of the allotment society",
                "",
                "Held on 11 March 2026",
                f"{present} members were present.",
                "The fence will be painted green.",
            ]
        ),
        paper(
            [
                "#Second page",
                "",
                f"The budget for 2026 is {budget:,} euros.",
                "The next meeting is on 18 November 2026.",
                "Closed at 21:40.",
            ]
        ),
    ]
    return Task(
        "scan-minutes",
        "scan",
        "dev",
        "From these scanned minutes: date of the meeting, members present, budget in euros, date of the next "
        "meeting. Use "
        "YYYY-MM-DD.",
        "minutes.pdf",
        picture_pdf([scanned(page, rng.randint(1, 9999), skew=0.8) for page in pages]),
        record(meeting=DATE, present=WHOLE, budget=NUMBER, next_meeting=DATE),
        [
            date("meeting", "2026-03-11"),
            number("present", present, 0),
            number("budget", budget),
            date("next_meeting", "2026-11-18"),
        ],
    )


def scan_bill(rng: Random) -> Task:
    number_, kwh = f"{rng.randint(100000, 999999)}", rng.randint(600, 1900)
    used, fee = round(kwh * 0.31, 2), 27.4
    page = paper(
        [
            "#Valley Electric Cooperative",
            "",
            ("Bill number", number_),
            ("Date of bill", "15 July 2026"),
            ("Pay before", "29 July 2026"),
            "",
            (f"Energy, {kwh} kWh", f"${used:,.2f}"),
            ("Service fee", f"${fee:.2f}"),
            ("#Total to pay", f"${used + fee:,.2f}"),
        ]
    )
    return Task(
        "scan-bill",
        "scan",
        "held",
        "This PDF is only a picture of a power bill. Extract bill number, bill date and payment deadline (YYYY-MM-DD), "
        "the energy used in kWh, the service fee and the total.",
        "power_bill.pdf",
        picture_pdf([scanned(page, rng.randint(1, 9999), skew=-1.5)]),
        record(bill_number=TEXT, date=DATE, deadline=DATE, kwh=NUMBER, service_fee=NUMBER, total=NUMBER),
        [
            text("bill_number", number_),
            date("date", "2026-07-15"),
            date("deadline", "2026-07-29"),
            number("kwh", kwh),
            number("service_fee", fee),
            number("total", round(used + fee, 2)),
        ],
    )


def receipt(rng: Random, id: str, tier: Tier, shop: str, goods: list[str], words: dict[str, str], prompt: str) -> Task:
    prices = {name: round(rng.uniform(1, 19), 2) for name in goods}
    total = round(sum(prices.values()), 2)
    cash = (int(total) // 10 + 1) * 10

    def comma(value: float) -> str:
        return f"{value:.2f}".replace(".", "," if words["comma"] else ".")

    page = paper(
        [
            f"#{shop}",
            words["place"],
            (words["date"], "18/06/2026" if words["comma"] else "2026-06-18  17:42"),
            "",
            *[(name, comma(price)) for name, price in prices.items()],
            "",
            (f"#{words['total']}", comma(total)),
            (words["cash"], comma(cash)),
            (words["change"], comma(cash - total)),
        ],
        width=620,
        size=24,
    )
    return Task(
        id,
        "receipt",
        tier,
        prompt,
        "receipt.png",
        encoded(scanned(page, rng.randint(1, 9999), skew=1.2, shadow=0.25)),
        record(shop=TEXT, date=DATE, total=NUMBER, change=NUMBER, items=many(record(item=TEXT, price=NUMBER))),
        [
            text("shop", shop),
            date("date", "2026-06-18"),
            number("total", total),
            number("change", round(cash - total, 2)),
            *row_checks("items", "item", {name: {"price": price} for name, price in prices.items()}),
        ],
    )


def receipt_market(rng: Random) -> Task:
    words = {
        "comma": "",
        "place": "12 Market Square",
        "date": "Date",
        "total": "TOTAL",
        "cash": "Cash",
        "change": "Change",
    }
    prompt = "Read the receipt: shop, date (YYYY-MM-DD), total, change given, and each item with its price."
    return receipt(
        rng, "receipt-market", "dev", "Corner Grocery", ["Bread", "Olive oil", "Tomatoes", "Cheese"], words, prompt
    )


def receipt_cafe(rng: Random) -> Task:
    words = {
        "comma": "1",
        "place": "Place de la Gare",
        "date": "Date",
        "total": "TOTAL",
        "cash": "Espèces",
        "change": "Rendu",
    }
    prompt = (
        "A receipt from a French café. I need the name of the shop, the date as YYYY-MM-DD, the total, the "
        "change ('Rendu'), "
        "and every item with its price."
    )
    return receipt(
        rng, "receipt-cafe", "held", "Café du Parc", ["Croissant", "Thé vert", "Tarte aux pommes"], words, prompt
    )


SCANS = (
    scan_notice,
    scan_delivery,
    scan_languages,
    scan_fax,
    scan_minutes,
    scan_bill,
    receipt_market,
    receipt_cafe,
)
