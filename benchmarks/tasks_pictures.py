"""The drawn tasks whose file is a picture: charts, barcodes and photos with an orientation flag."""

from __future__ import annotations

from random import Random

from PIL import Image, ImageDraw

from benchmarks.task import NUMBER, TEXT, WHOLE, Task, Tier, exact, many, number, record, text
from benchmarks.task import rows as row_checks
from tests.pictures import bar_chart, code, encoded, font, label, lying_chart, photographed


def chart_visits(rng: Random) -> Task:
    months = ["Jan", "Feb", "Mar", "Apr", "May"]
    values = rng.sample(range(120, 980), 5)
    picture = bar_chart("Library visits", months, {"visits": values}, axis="month")
    return Task(
        "chart-visits",
        "chart",
        "dev",
        "Bar chart with a number above each bar: give the value of every month and name the month with the most "
        "visits.",
        "visits.png",
        encoded(picture),
        record(months=many(record(month=TEXT, visits=WHOLE)), best_month=TEXT),
        [
            *row_checks("months", "month", {m: {"visits": v} for m, v in zip(months, values, strict=True)}),
            text("best_month", months[values.index(max(values))]),
        ],
    )


def chart_grouped(rng: Random) -> Task:
    years = ["2023", "2024", "2025"]
    tenths = rng.sample(range(21, 99), 6)
    series = {"rail": [v / 10 for v in tenths[:3]], "road": [v / 10 for v in tenths[3:]]}
    least = min(tenths) / 10
    return Task(
        "chart-grouped",
        "chart",
        "held",
        "The chart shows rail and road side by side per year, with labels on the bars. What are the two values "
        "of 2024, and "
        "what is the smallest value anywhere in the chart?",
        "transport.png",
        encoded(bar_chart("Goods moved, million tonnes", years, series, "{:.1f}")),
        record(rail_2024=NUMBER, road_2024=NUMBER, smallest=NUMBER),
        [number("rail_2024", series["rail"][1]), number("road_2024", series["road"][1]), number("smallest", least)],
    )


def chart_paint(rng: Random) -> Task:
    values = rng.sample(range(14, 95), 4)
    bars = list(zip(["Red paint", "Blue paint", "Green paint", "White paint"], values, strict=True))
    return Task(
        "chart-paint",
        "chart",
        "dev",
        "How many litres of blue and of white paint does the picture show, and what do all four colours add up to?",
        "paint.png",
        encoded(lying_chart("Litres sold", bars)),
        record(blue=NUMBER, white=NUMBER, total=NUMBER),
        [number("blue", values[1]), number("white", values[3]), number("total", sum(values))],
    )


def chart_votes(rng: Random) -> Task:
    values = [v / 10 for v in rng.sample(range(110, 420), 4)]
    bars = list(zip(["Park", "Pool", "Library", "Theatre"], values, strict=True))
    best = max(bars, key=lambda bar: bar[1])
    return Task(
        "chart-votes",
        "chart",
        "held",
        "Read the labelled bars: what percentage did each option get, and which option won?",
        "votes.jpg",
        encoded(lying_chart("What should the town build? (percent)", bars, "{:.1f}%"), "JPEG"),
        record(options=many(record(option=TEXT, percent=NUMBER)), winner=TEXT),
        [*row_checks("options", "option", {name: {"percent": v} for name, v in bars}), text("winner", best[0])],
    )


def one_value(id: str, tier: Tier, prompt: str, name: str, picture: Image.Image, value: str) -> Task:
    """A task whose answer is what one barcode holds."""
    data = encoded(picture, "JPEG" if name.endswith(".jpg") else "PNG")
    return Task(id, "code", tier, prompt, name, data, record(value=TEXT), [exact("value", value)])


def code_ticket(rng: Random) -> Task:
    value = f"TICKET {rng.randint(100000, 999999)} / ROW {rng.randint(2, 30)} / SEAT {rng.randint(1, 40)}"
    picture = photographed(label(["Evening concert"], [code(value, "QRCode")], 460), rng.randint(1, 9999), angle=33)
    return one_value("code-ticket", "dev", "What does the QR code on the ticket say?", "ticket.png", picture, value)


def code_poster(rng: Random) -> Task:
    value = f"https://trail.example/stop/{rng.randint(10, 99)}?lang=de&k={rng.randint(1000, 9999)}"
    sticker = label(["Scan me at stop 3"], [code(value, "QRCode", 7)], 520)
    picture = photographed(sticker, rng.randint(1, 9999), angle=-12, tilt=0.14)
    return one_value("code-poster", "held", "Decode the code in this photo of a poster.", "poster.jpg", picture, value)


def code_carton(rng: Random) -> Task:
    digits = f"40{rng.randint(10**9, 10**10 - 1)}"
    value = digits + str(-sum(int(d) * (3 if i % 2 else 1) for i, d in enumerate(digits)) % 10)
    sticker = label(["Oat biscuits 250 g", "Best before 11/2026"], [code(value, "EAN13", 5)], 620)
    picture = photographed(sticker, rng.randint(1, 9999), angle=7)
    return one_value(
        "code-carton", "dev", "Which article number is in the barcode on this package?", "carton.png", picture, value
    )


def code_part(rng: Random) -> Task:
    value = f"P/N {rng.randint(1000, 9999)}-{rng.randint(10, 99)} REV C"
    sticker = label(["Pump controller", "Made in EU"], [code(value, "DataMatrix", 9)], 480)
    picture = photographed(sticker, rng.randint(1, 9999), angle=-21)
    prompt = "There is a Data Matrix symbol on the type plate. What is encoded in it?"
    return one_value("code-part", "held", prompt, "plate.png", picture, value)


def code_parcel(rng: Random) -> Task:
    parcel, url = f"JD{rng.randint(10**9, 10**10 - 1)}", "https://track.example/help"
    sticker = label(["Parcel 2 of 3", "Weight 4.20 kg"], [code(parcel, "Code128", 4), code(url, "QRCode", 5)], 820)
    return Task(
        "code-parcel",
        "code",
        "dev",
        "The parcel label carries a Code 128 and a QR code. Return what each of them holds, and the weight in "
        "kg that is "
        "printed on the label.",
        "parcel.png",
        encoded(photographed(sticker, rng.randint(1, 9999), angle=4)),
        record(code128=TEXT, qr=TEXT, weight_kg=NUMBER),
        [exact("code128", parcel), exact("qr", url), number("weight_kg", 4.2)],
    )


def photo(
    rng: Random, id: str, tier: Tier, size: tuple[int, int], orientation: int, words: dict[str, str], prompt: str
) -> Task:
    """A landscape with a word at the top and one at the bottom, its pixels stored turned or mirrored."""
    width, height = size
    picture = Image.new("RGB", size, (150, 195, 235))
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, height * 0.6, width, height), fill=(96, 150, 80))
    draw.ellipse((width * 0.7, height * 0.12, width * 0.7 + 110, height * 0.12 + 110), fill=(250, 225, 90))
    draw.text((width / 2, 24), words["top"], fill="black", font=font(64), anchor="ma")
    draw.text((width / 2, height - 24), words["bottom"], fill="black", font=font(64), anchor="md")
    return Task(
        id,
        "exif",
        tier,
        prompt,
        "photo.jpg",
        encoded(picture, "JPEG", orientation),
        record(width=WHOLE, height=WHOLE, orientation=WHOLE, word=TEXT),
        [
            number("width", width, 0),
            number("height", height, 0),
            number("orientation", orientation, 0),
            text("word", words[words["asked"]]),
        ],
    )


def exif_meadow(rng: Random) -> Task:
    words = {"top": "MEADOW", "bottom": "GRASS", "asked": "top"}
    prompt = (
        "Give the width and height of this photo when shown the right way up, the value of its EXIF orientation "
        "tag, and the "
        "word at the top."
    )
    return photo(rng, "exif-meadow", "dev", (960, 640), 8, words, prompt)


def exif_harbour(rng: Random) -> Task:
    words = {"top": "CLOUDS", "bottom": "HARBOUR", "asked": "bottom"}
    prompt = (
        "Upright width and height in pixels, EXIF orientation, and the word at the bottom edge of the upright picture?"
    )
    return photo(rng, "exif-harbour", "held", (1040, 720), 3, words, prompt)


def exif_hill(rng: Random) -> Task:
    words = {"top": "HILLTOP", "bottom": "VALLEY", "asked": "bottom"}
    prompt = (
        "My camera wrote an orientation flag into this picture. Which one, how large is the picture once turned "
        "upright, and "
        "which word is at its bottom?"
    )
    return photo(rng, "exif-hill", "dev", (700, 980), 6, words, prompt)


def exif_lake(rng: Random) -> Task:
    words = {"top": "LAKESIDE", "bottom": "STONES", "asked": "top"}
    prompt = "What are the orientation tag, the displayed width and height, and the word along the top of the photo?"
    return photo(rng, "exif-lake", "held", (1200, 800), 5, words, prompt)


PICTURES = (
    chart_visits,
    chart_grouped,
    chart_paint,
    chart_votes,
    code_ticket,
    code_poster,
    code_carton,
    code_part,
    code_parcel,
    exif_meadow,
    exif_harbour,
    exif_hill,
    exif_lake,
)
