"""Numbers as they are printed in tables: currencies, signs, groups of digits and either decimal mark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

CODE_DIGITS = 10  # that many digits without a separator are a code

_BLANKS = re.compile(r"[\s\u00a0\u2007\u2009\u202f]+")
_CURRENCY = r"US\$|[$€£¥₹₩₽₺]|[A-Z]{3}|zł|kr\.?|Kč|Ft|lei"
_NUMBER = re.compile(
    rf"(?P<open>\()?(?P<sign>[-+−–])? ?(?P<before>{_CURRENCY})? ?(?P<sign2>[-−–])? ?"
    rf"(?P<body>\d(?:[\d.,'’ ]*\d)?)(?P<close>\))?(?P<sign3>[-−])? ?(?P<after>{_CURRENCY})?"
)

_GROUPED = re.compile(r"\d{1,3}([.,'’ ])\d{3}(?:\1\d{3})*")


@dataclass(frozen=True, slots=True)
class Printed:
    """A number as it is printed: its digits without sign and currency, which are kept beside it."""

    body: str
    negative: bool
    currency: str

    @property
    def code(self) -> bool:
        """A leading zero, or too many digits in a row for a count."""
        return (self.body[0] == "0" and self.body[1:2].isdigit()) or (
            self.body.isdigit() and len(self.body) >= CODE_DIGITS
        )


def parse(text: str) -> Printed | None:
    """A number with or without sign and currency; None for anything else, percentages and dates too.

    >>> parse("(US$ 1,204.50)"), parse("12 %"), parse("3/4/2026")
    (Printed(body='1,204.50', negative=True, currency='US$'), None, None)
    """
    match = _NUMBER.fullmatch(_BLANKS.sub(" ", text.strip()))
    if match is None or (match["open"] is None) != (match["close"] is None):
        return None
    negative = any(match[name] in ("-", "−", "–") for name in ("sign", "sign2", "sign3")) or match["open"] is not None
    return Printed(match["body"], negative, match["before"] or match["after"] or "")


def decimal_mark(cells: Sequence[str]) -> str | None:
    """The decimal mark these numbers agree on: "." or ","; None when they contradict each other or nothing tells.

    >>> decimal_mark(["1.036,80 €", "20"]), decimal_mark(["1,204", "1,198"]), decimal_mark(["0.5", "0,5"])
    (',', '.', None)
    """
    votes: set[str] = set()
    unsure: set[str] = set()
    for cell in cells:
        number = parse(cell)
        if number is None or (number.code and "." not in number.body and "," not in number.body):
            continue
        marks = [char for char in number.body if char in ".,"]
        if not marks:
            continue
        whole, _mark, rest = number.body.rpartition(marks[-1])
        if len(set(marks)) == 2:
            votes.add(marks[-1])
        elif len(marks) > 1:
            if _GROUPED.fullmatch(number.body):  # else a date or a version
                votes.add("." if marks[0] == "," else ",")
        elif len(rest) != 3 or len(whole) > 3 or whole == "0":
            votes.add(marks[0])
        else:
            unsure.add(marks[0])
    if len(votes) == 1:
        return votes.pop()
    # "1,204" alone is a thousand as a rule; "1.204" may be either.
    return None if votes or "." in unsure else "."


def value_of(number: Printed, mark: str) -> Decimal | None:
    """The number's value; None when its groups of digits make no sense.

    >>> [str(value_of(parse(text), ",")) for text in ("1.036,80 €", "-1 911,99", "1.03")]
    ['1036.80', '-1911.99', 'None']
    """
    whole, point, decimals = number.body.partition(mark)
    if (point and not decimals.isdigit()) or not (whole.isdigit() or _GROUPED.fullmatch(whole)):
        return None
    value = Decimal(re.sub(r"\D", "", whole) + (f".{decimals}" if point else ""))
    return -value if number.negative else value
