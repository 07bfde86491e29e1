"""The drawn tasks whose file is a PDF form that somebody filled in."""

from __future__ import annotations

from random import Random

from benchmarks.task import TEXT, TICK, WHOLE, Task, exact, many, number, one_of, record, text
from benchmarks.task import names as name_set
from tests.drawn import Field, form_pdf


def form_member(rng: Random) -> Task:
    city, number_ = rng.choice(["Bruges", "Graz", "Turku"]), f"M-{rng.randint(1000, 9999)}"
    fields = [
        Field("member_no", "Membership number", number_),
        Field("city", "City", city),
        Field("sport", "Sport", "Rowing", "choice", ["Swimming", "Rowing", "Tennis", "Judo"]),
        Field("plan", "Plan", "yearly", "radio", ["monthly", "yearly"]),
        Field("news", "Send me the newsletter", False, "check"),
        Field("rules", "I have read the club rules", True, "check"),
        Field("locker", "I need a locker", True, "check"),
    ]
    return Task(
        "form-member",
        "form",
        "dev",
        "Read the filled-in form: membership number, city, sport, plan, and whether newsletter, club rules and "
        "locker are "
        "ticked.",
        "membership.pdf",
        form_pdf("Club membership", fields),
        record(
            member_number=TEXT,
            city=TEXT,
            sport=TEXT,
            plan=one_of("monthly", "yearly"),
            newsletter=TICK,
            rules=TICK,
            locker=TICK,
        ),
        [
            text("member_number", number_),
            text("city", city),
            text("sport", "Rowing"),
            exact("plan", "yearly"),
            exact("newsletter", False),
            exact("rules", True),
            exact("locker", True),
        ],
    )


def form_survey(rng: Random) -> Task:
    wanted = {"Bus": True, "Train": False, "Bicycle": True, "Car": False, "On foot": True}
    minutes = rng.randint(15, 70)
    fields = [Field(f"mode_{index}", label, ticked, "check") for index, (label, ticked) in enumerate(wanted.items())]
    fields += [
        Field("minutes", "Minutes per trip", str(minutes)),
        Field("mood", "Overall", "good", "radio", ["poor", "fair", "good"]),
    ]
    return Task(
        "form-survey",
        "form",
        "dev",
        "Which means of transport did this person tick, how many minutes does a trip take, and what is the "
        "overall rating?",
        "survey.pdf",
        form_pdf("How do you get to work?", fields),
        record(ticked=many(TEXT), minutes=WHOLE, overall=one_of("poor", "fair", "good")),
        [name_set("ticked", "Bus", "Bicycle", "On foot"), number("minutes", minutes, 0), exact("overall", "good")],
    )


def form_room(rng: Random) -> Task:
    guests, phone = rng.randint(11, 48), f"+43 512 {rng.randint(100000, 999999)}"
    fields = [
        Field("event", "Event", "Annual general meeting"),
        Field("guests", "Number of guests", str(guests)),
        Field("phone", "Telephone", phone),
        Field("room", "Room", "Garden room", "choice", ["Blue hall", "Garden room", "Library"]),
        Field("projector", "Projector", True, "check"),
        Field("catering", "Catering", False, "check"),
        Field("piano", "Piano", False, "check"),
    ]
    return Task(
        "form-room",
        "form",
        "held",
        "A room request came in as a PDF form. I need the event, the room, the number of guests, the phone "
        "number, and for "
        "projector, catering and piano whether each is wanted.",
        "room_request.pdf",
        form_pdf("Request for a room", fields),
        record(event=TEXT, room=TEXT, guests=WHOLE, phone=TEXT, projector=TICK, catering=TICK, piano=TICK),
        [
            text("event", "Annual general meeting"),
            text("room", "Garden room"),
            number("guests", guests, 0),
            text("phone", phone),
            exact("projector", True),
            exact("catering", False),
            exact("piano", False),
        ],
    )


def form_permit(rng: Random) -> Task:
    plate = f"KX {rng.randint(100, 999)} PL"
    fields = [
        Field("plate", "Kennzeichen", plate),
        Field("zone", "Zone", "C", "choice", ["A", "B", "C", "D"]),
        Field("dauer", "Dauer", "6 Monate", "radio", ["3 Monate", "6 Monate"]),
        Field("elektro", "Elektrofahrzeug", True, "check"),
        Field("anhaenger", "Anhänger", False, "check"),
    ]
    return Task(
        "form-permit",
        "form",
        "held",
        "German application for a parking permit: return the number plate, the zone, the duration in months, "
        "and whether it "
        "is an electric car and whether there is a trailer.",
        "antrag.pdf",
        form_pdf("Antrag auf Parkausweis", fields),
        record(plate=TEXT, zone=TEXT, months=WHOLE, electric=TICK, trailer=TICK),
        [
            text("plate", plate),
            text("zone", "C"),
            number("months", 6, 0),
            exact("electric", True),
            exact("trailer", False),
        ],
    )


FORMS = (form_member, form_survey, form_room, form_permit)
