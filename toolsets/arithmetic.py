"""Arithmetic on a text expression: exact decimals, bounded size, errors with a position. Never `eval`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal, DecimalException, localcontext

MAX_CHARS = 1000
MAX_DEPTH = 40
MAX_DIGITS = 300
PRECISION = 400  # significant digits; beyond MAX_DIGITS, so that sums and products stay exact

Number = int | Decimal

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d{1,3}(?:,\d{3})+(?![\d])|\d+)(?:\.\d*)?(?:[eE][+-]?\d{1,3})?|\.\d+)"
    r"|(?P<name>[A-Za-z_]+)|(?P<operator>\*\*|//|[-+*/%(),]))"
)
_REWRITE = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "$": " ", "€": " ", "£": " ", "¥": " "})


class ArithmeticProblem(ValueError):
    """An expression that cannot be worked out; the message says what is wrong and where."""


def evaluate(expression: str) -> int | float:
    """The value of an expression: whole numbers stay whole, anything with a decimal point or `/` is a float.

    Operators are `+ - * / // % **` and parentheses; functions are round, min, max, sum, abs and sqrt. `round` rounds
    halves away from zero. Decimals are exact, so cents add up.

    Raises:
        ArithmeticProblem: with the position at fault, counted from 1.

    >>> evaluate("388.57 + 419.68 + 341.60 + 253.15"), evaluate("2 * (3 + 4)"), evaluate("1,250 * 2"), evaluate("6 / 4")
    (1403.0, 14, 2500, 1.5)
    >>> evaluate("2 + * 3")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
        ...
    orion.toolsets.arithmetic.ArithmeticProblem: expected a number at position 5, got '*'
    """
    if len(expression) > MAX_CHARS:
        raise ArithmeticProblem(f"the expression has {len(expression)} characters; {MAX_CHARS} are allowed")
    with localcontext(Context(prec=PRECISION)):
        try:
            value = _Parser(expression.translate(_REWRITE)).parse()
        except DecimalException as error:
            raise ArithmeticProblem(f"the result is not a number: {type(error).__name__}") from error
        return value if isinstance(value, int) else float(value)


class _Parser:
    """Recursive descent, one method a level of precedence."""

    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.at = 0
        self.depth = 0
        self.in_call = 0

    def parse(self) -> Number:
        value = self.sum()
        kind, text, position = self.tokens[self.at]
        if kind != "end":
            hint = "; write 20/100 for 20%" if self.tokens[self.at - 1][1] == "%" else ""
            raise ArithmeticProblem(f"did not expect {text!r} at position {position}{hint}")
        return value

    def take(self, *operators: str) -> str | None:
        kind, text, _position = self.tokens[self.at]
        if kind == "operator" and text in operators:
            self.at += 1
            return text
        return None

    def sum(self) -> Number:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ArithmeticProblem(f"parentheses nest deeper than {MAX_DEPTH}")
        value = self.product()
        while operator := self.take("+", "-"):
            right = self.product()
            value = _checked(value + right if operator == "+" else value - right)
        self.depth -= 1
        return value

    def product(self) -> Number:
        value = self.sign()
        while True:
            position = self.tokens[self.at][2]
            operator = self.take("*", "/", "//", "%")
            if operator is None:
                return value
            value = _checked(_multiply(operator, value, self.sign(), position))

    def sign(self) -> Number:
        minus = False
        while operator := self.take("+", "-"):
            minus ^= operator == "-"
        value = self.power()
        return -value if minus else value

    def power(self) -> Number:
        base = self.atom()
        position = self.tokens[self.at][2]
        if not self.take("**"):
            return base
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ArithmeticProblem(f"powers nest deeper than {MAX_DEPTH}")
        exponent = self.sign()
        self.depth -= 1
        return _checked(_power(base, exponent, position))

    def atom(self) -> Number:
        kind, text, position = self.tokens[self.at]
        if kind == "number":
            self.at += 1
            if "," in text and self.in_call:
                raise ArithmeticProblem(
                    f"{text!r} at position {position} may be one number or two; "
                    "leave the comma out, or put a blank after it"
                )
            plain = text.replace(",", "")
            return _checked(int(plain) if plain.isdigit() else Decimal(plain))
        if kind == "name":
            return self.call(text, position)
        if self.take("("):
            outside, self.in_call = self.in_call, 0
            value = self.sum()
            self.in_call = outside
            self.close()
            return value
        got = text if kind == "end" else repr(text)
        raise ArithmeticProblem(f"expected a number at position {position}, got {got}")

    def call(self, name: str, position: int) -> Number:
        function = _FUNCTIONS.get(name.lower())
        if function is None:
            known = ", ".join(_FUNCTIONS)
            raise ArithmeticProblem(f"unknown name {name!r} at position {position}; known: {known}")
        self.at += 1
        if not self.take("("):
            raise ArithmeticProblem(f"expected '(' after {name} at position {self.tokens[self.at][2]}")
        self.in_call += 1
        arguments = [self.sum()]
        while self.take(","):
            arguments.append(self.sum())
        self.in_call -= 1
        self.close()
        try:
            return _checked(function(arguments))
        except _WrongCall as error:
            raise ArithmeticProblem(f"{name} at position {position}: {error}") from error

    def close(self) -> None:
        kind, text, position = self.tokens[self.at]
        if not self.take(")"):
            raise ArithmeticProblem(
                f"expected ')' at position {position}, got {'the end' if kind == 'end' else repr(text)}"
            )


class _WrongCall(ValueError):
    """A function was given arguments it cannot take."""


def _tokens(text: str) -> list[tuple[str, str, int]]:
    """(kind, text, position from 1), closed by an `end` token."""
    found: list[tuple[str, str, int]] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            position = at + len(text[at:]) - len(text[at:].lstrip()) + 1
            odd = text[position - 1]
            hint = "; powers are written **" if odd == "^" else ""
            raise ArithmeticProblem(f"did not expect {odd!r} at position {position}{hint}")
        kind = match.lastgroup or ""
        found.append((kind, match[kind], match.start(kind) + 1))
        at = match.end()
    return [*found, ("end", "the end", len(text) + 1)]


def _checked(value: Number) -> Number:
    """Refuses what has grown beyond MAX_DIGITS, before the next operation can make it worse."""
    if isinstance(value, int):
        large = abs(value) >= 10**MAX_DIGITS
    else:
        large = not value.is_finite() or value.adjusted() >= MAX_DIGITS
    if large:
        raise ArithmeticProblem(f"the result has more than {MAX_DIGITS} digits")
    return value


def _multiply(operator: str, left: Number, right: Number, position: int) -> Number:
    if operator == "*":
        return left * right
    if right == 0:
        raise ArithmeticProblem(f"division by zero at position {position}")
    if operator == "/":
        return Decimal(left) / Decimal(right)
    if isinstance(left, int) and isinstance(right, int):
        return left // right if operator == "//" else left % right
    floor = (Decimal(left) / Decimal(right)).to_integral_value(ROUND_FLOOR)
    return floor if operator == "//" else Decimal(left) - floor * Decimal(right)


def _power(base: Number, exponent: Number, position: int) -> Number:
    if base == 0 and exponent < 0:
        raise ArithmeticProblem(f"division by zero at position {position}")
    if base < 0 and exponent != int(exponent):
        raise ArithmeticProblem(f"a fractional power of a negative number at position {position}")
    size = abs(Decimal(base).adjusted() if base else 0) + 1
    if _abs(exponent) > 10_000 or size * _abs(exponent) > 2 * MAX_DIGITS:
        raise ArithmeticProblem(f"the power at position {position} is too large")
    if isinstance(base, int) and isinstance(exponent, int) and exponent >= 0:
        whole: int = base**exponent
        return whole
    return Decimal(base) ** Decimal(exponent)


def _round(arguments: Sequence[Number]) -> Number:
    if len(arguments) > 2:
        raise _WrongCall("takes a number and the digits after the point")
    digits = int(arguments[1]) if len(arguments) == 2 else 0
    if abs(digits) > 50 or (len(arguments) == 2 and digits != arguments[1]):
        raise _WrongCall("the digits are a whole number from -50 to 50")
    rounded = Decimal(arguments[0]).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)
    return int(rounded) if len(arguments) == 1 or isinstance(arguments[0], int) else rounded


def _one(function: Callable[[Number], Number]) -> Callable[[Sequence[Number]], Number]:
    def call(arguments: Sequence[Number]) -> Number:
        if len(arguments) != 1:
            raise _WrongCall(f"takes one number, got {len(arguments)}")
        return function(arguments[0])

    return call


def _abs(value: Number) -> Number:
    return -value if value < 0 else value


def _sqrt(value: Number) -> Number:
    if value < 0:
        raise _WrongCall("the number is negative")
    root = Decimal(value).sqrt()
    return int(root) if isinstance(value, int) and root == int(root) else root


_FUNCTIONS: dict[str, Callable[[Sequence[Number]], Number]] = {
    "round": _round,
    "min": min,
    "max": max,
    "sum": lambda arguments: sum(arguments),
    "abs": _one(_abs),
    "sqrt": _one(_sqrt),
}
