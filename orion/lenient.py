"""A reader for JSON as models really write it: one pass, linear time, never raises.

`orion.salvage` decides what a value means; this module only finds values. It accepts JSON, Python and JavaScript
literals, comments, missing commas and closers, doubled braces and unescaped quotes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from orion.run import JSON

MAX_DEPTH = 128
"""Containers inside one another that the lenient reader follows."""
MAX_INNER_QUOTES = 16
"""Unescaped quotes inside one string that are read as text; bounds the look-ahead, so that reading stays linear."""
MAX_STRICT_FAILURES = 16
"""Values that are not JSON after which only the lenient reader is tried."""

_BLANK = re.compile(r"\s*+")
_COMMENTED = re.compile(r"(?:\s++|//[^\n]*+|#[^\n]*+|/\*(?s:.*?)(?:\*/|\Z))*+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NUMBER = re.compile(r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?+")
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9]\d*+)(?:\.\d++)?+(?:[eE][+-]?\d++)?+")
_WORD = re.compile(r"[^\s,:{}\[\]()\"“”`]++")
_KEY = re.compile(r"[^\W\d][\w$.-]*+")
_BARE = re.compile(r"[^,{}\[\]\n\"]++")
_ARGUMENT = re.compile(r"[^\s,()\[\]{}]++")
_OPEN = re.compile(r"[{\[]")
_AFTER_VALUE = re.compile(r"[ \t\r\n]{0,64}(?:[,}\])]|\Z|//|/\*|#|```|[\"'“])")
# What may follow the closing quote of a value; anything else means that the quote was part of the text.
_ENDS_IN_OBJECT = re.compile(
    r"\s{0,64}(?:[}\])]|\Z|```|//|/\*|#|,\s{0,64}(?:[\"'“{}\])]|[\w$.-]{1,64}\s{0,8}[:=]|//|/\*|#|\Z)|\n\s{0,64}[\"'“])"
)
_ENDS_IN_ARRAY = re.compile(
    r"\s{0,64}(?:[}\])]|\Z|```|//|/\*|#|\n\s{0,64}[\"'“{\[]|,\s{0,64}(?:[\"'“{}\[\]()\d.+-]|[tTfFnN][a-zA-Z]{2,4}\b|//|/\*|#|\Z))"
)
_ENDS_KEY = re.compile(r"")  # the first quote ends a key, and a string that stands alone
_QUOTES = {'"': '"', "'": "'", "“": "”", "”": "”", "„": "“", "‘": "’"}
_STOPS = {
    quote: re.compile("[" + re.escape(close + ('"' if quote == "“" else "")) + r"\\]")
    for quote, close in _QUOTES.items()
}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8})|(.)|\Z)", re.DOTALL)
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}
_LITERALS: dict[str, JSON] = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
    # JSON has no such values; "no value" is the only honest reading.
    "NaN": None,
    "nan": None,
    "Infinity": None,
    "-Infinity": None,
    "inf": None,
    "-inf": None,
    "undefined": None,
}


def _refuse(name: str) -> JSON:
    raise ValueError(name)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


_STRICT = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
# Half pairs, NaN and numbers beyond a float are JSON to Python but to nobody else: the lenient reader mends them.
SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


def strict_json(text: str) -> tuple[JSON] | None:
    """The value of a text that is strictly JSON, in a tuple, since null is a value."""
    if SURROGATE_ESCAPE.search(text):
        return None
    try:
        value, end = _STRICT.raw_decode(text, len(text) - len(text.lstrip()))
    except (ValueError, RecursionError):
        return None
    return None if text[end:].strip() or too_deep(value) else (value,)


def too_deep(value: JSON, limit: int = MAX_DEPTH) -> bool:
    """Whether objects and lists are nested deeper than `limit`: JSON that not everything which handles it survives.

    >>> too_deep([[1]], 2), too_deep([[[1]]], 2)
    (False, True)
    """
    layer = [value]
    for _level in range(limit):
        inner: list[JSON] = []
        for item in layer:
            if isinstance(item, dict):
                inner.extend(part for part in item.values() if isinstance(part, dict | list))
            elif isinstance(item, list):
                inner.extend(part for part in item if isinstance(part, dict | list))
        layer = inner
        if not layer:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Found:
    """A value at `text[start:end]`. `complete`: it was closed; `rough`: words had to be guessed at."""

    value: JSON
    start: int
    end: int
    complete: bool
    rough: bool


def candidates(text: str) -> Iterator[Found]:
    """Every top-level object and array in `text`, in order, not overlapping.

    >>> [found.value for found in candidates('first {"a": 1}, then [2, 3,')]
    [{'a': 1}, [2, 3]]
    """
    position = failures = 0
    strict = None if SURROGATE_ESCAPE.search(text) else _STRICT
    while opening := _OPEN.search(text, position):
        if strict is not None:
            try:  # what is JSON already is read at C speed
                value, position = strict.raw_decode(text, opening.start())
                if not too_deep(value):
                    yield Found(value, opening.start(), position, complete=True, rough=False)
                continue
            except (ValueError, RecursionError):
                # Each failure costs Python a count of the lines before it; a few show that this text is not JSON.
                failures += 1
                strict = _STRICT if failures < MAX_STRICT_FAILURES else None
        reader = Reader(text)
        try:
            value, position = reader.value(opening.start(), 0)
        except Unreadable as failure:
            # Text up to the failure was read once and is not read again: this keeps the whole search linear.
            position = max(opening.start() + 1, failure.position)
            continue
        yield Found(value, opening.start(), position, reader.complete, reader.rough)


def whole(text: str) -> Found | None:
    """The value when `text` is nothing but one literal: an object, a list, a tuple, a number, a quoted string, a word.

    >>> whole("(1, 'two', None)").value
    [1, 'two', None]
    >>> whole("about 3") is None
    True
    """
    reader = Reader(text, comments=True)
    start = reader.skip(0)
    if start == len(text):
        return None
    try:
        value, end = reader.value(start, 0)
    except Unreadable:
        return None
    if reader.skip(end) != len(text):
        return None
    return Found(value, start, end, reader.complete, reader.rough)


class Unreadable(Exception):
    """No value here; `position` is how far the text was read."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


class Reader:
    """Reads one value; `complete` and `rough` then say how well it went.

    Comments are skipped inside objects, and everywhere with `comments`: in prose, "[#12]" is no list with a comment.
    """

    def __init__(self, text: str, *, comments: bool = False) -> None:
        self.text = text
        self.comments = comments
        self.complete = True
        self.rough = False
        self._objects = 0

    def skip(self, position: int) -> int:
        """The position after blanks and comments."""
        blank = _COMMENTED if self.comments or self._objects else _BLANK
        match = blank.match(self.text, position)
        return match.end() if match else position

    def value(self, position: int, depth: int, ends: re.Pattern[str] = _ENDS_KEY) -> tuple[JSON, int]:
        """The value at `position` and the position after it.

        Raises:
            Unreadable: nothing there can be read as a value.
        """
        position = self.skip(position)
        char = self.text[position : position + 1]
        if depth > MAX_DEPTH or not char:
            raise Unreadable(position)
        if char == "{":
            return self._object(position, depth)
        if char in "[(":
            return self._array(position, depth, "]" if char == "[" else ")")
        if char in _QUOTES:
            return self.string(position, ends)
        return self._word(position)

    def argument(self, position: int) -> tuple[JSON, int]:
        """The value of one named argument of a Python call; a bare word is the text of it."""
        position = self.skip(position)
        char = self.text[position : position + 1]
        if char in _QUOTES or char in "{[(":
            return self.value(position, 0, _ENDS_IN_OBJECT)
        word = _ARGUMENT.match(self.text, position)
        if not word:
            raise Unreadable(position + 1)
        if _NUMBER.fullmatch(word.group()):
            return number_of(word.group()), word.end()
        return _LITERALS.get(word.group(), word.group()), word.end()

    def _object(self, position: int, depth: int) -> tuple[JSON, int]:
        self._objects += 1
        try:
            return self._members(self.skip(position + 1), depth)
        finally:
            self._objects -= 1

    def _members(self, position: int, depth: int) -> tuple[JSON, int]:
        text = self.text
        members: dict[str, JSON] = {}
        if text.startswith("{", position):
            return self._doubled(position, depth)
        while True:
            position = self.skip(position)
            char = text[position : position + 1]
            if char == "}":
                return members, position + 1
            if char == ",":
                position += 1
                continue
            key_end = self._key_end(position)
            if key_end is None:
                return self._cut(members, position)
            key, position = key_end
            position = self.skip(position)
            if not text.startswith(":", position):
                return self._cut(members, position)
            try:
                members[key], position = self.value(position + 1, depth + 1, _ENDS_IN_OBJECT)
            except Unreadable as failure:
                return self._cut(members, failure.position)

    def _doubled(self, position: int, depth: int) -> tuple[JSON, int]:
        """`{{…}}` of a prompt template is one object; `{{…}, {…}}` is a list without its brackets."""
        inner: list[JSON] = []
        while self.text.startswith("{", position):
            value, position = self.value(position, depth + 1)
            inner.append(value)
            after = self.skip(position)
            if not self.text.startswith(",", after):
                break
            position = self.skip(after + 1)
        after = self.skip(position)
        if self.text.startswith("}", after):
            position = after + 1
        return (inner[0] if len(inner) == 1 else inner), position

    def _key_end(self, position: int) -> tuple[str, int] | None:
        char = self.text[position : position + 1]
        if char in _QUOTES and char:
            return self.string(position, _ENDS_KEY)
        match = _KEY.match(self.text, position)
        if match:
            self.rough = True
            return match.group(), match.end()
        number = _NUMBER.match(self.text, position)
        return (number.group(), number.end()) if number else None

    def _array(self, position: int, depth: int, closer: str) -> tuple[JSON, int]:
        text = self.text
        items: list[JSON] = []
        position = self.skip(position + 1)
        while True:
            position = self.skip(position)
            char = text[position : position + 1]
            if char == closer:
                return items, position + 1
            if char == ",":
                position += 1
                continue
            if not char or char in "}])" or text.startswith("```", position):
                return self._cut(items, position)
            try:
                value, position = self.value(position, depth + 1, _ENDS_IN_ARRAY)
            except Unreadable as failure:
                return self._cut(items, failure.position)
            items.append(value)

    def _cut(self, container: JSON, position: int) -> tuple[JSON, int]:
        """Closes a container whose own closer is missing, unless nothing was read into it."""
        if not container and position < len(self.text):
            raise Unreadable(position)
        self.complete = False
        return container, position

    def string(self, position: int, ends: re.Pattern[str]) -> tuple[str, int]:
        """The string whose opening quote is at `position`; an unclosed one runs to the end of the text."""
        text, start = self.text, position + 1
        stops, scan, first, inner = _STOPS[text[position]], position + 1, -1, 0
        while match := stops.search(text, scan):
            if match.group() == "\\":
                scan = match.end() + 1
                continue
            if ends is _ENDS_KEY or ends.match(text, match.end()):
                return unescape(text[start : match.start()]), match.end()
            first = match.start() if first < 0 else first
            scan, inner = match.end(), inner + 1
            if inner > MAX_INNER_QUOTES:
                break
        if first >= 0:
            return unescape(text[start:first]), first + 1
        self.complete = False
        return unescape(text[start:]), len(text)

    def _word(self, position: int) -> tuple[JSON, int]:
        text = self.text
        number = _NUMBER.match(text, position)
        if number and _AFTER_VALUE.match(text, number.end()):
            return number_of(number.group()), number.end()
        word = _WORD.match(text, position)
        if word and word.group() in _LITERALS:
            return _LITERALS[word.group()], word.end()
        if word and word.end() == len(text) and len(word.group()) > 1:
            for name in ("true", "false", "null", "True", "False", "None"):
                if name.startswith(word.group()):
                    self.complete = False
                    return _LITERALS[name], word.end()
        bare = _BARE.match(text, position)
        # Words without quotes are values of a key only: "[see above]" in prose is not a list.
        if not bare or not self._objects:
            raise Unreadable(word.end() if word else position + 1)
        self.rough = True
        return unescape(bare.group().strip()), bare.end()


def number_of(text: str) -> JSON:
    """The number as given; one that no finite JSON number can hold, or that is not JSON's spelling, stays text.

    >>> number_of("12.50"), number_of("007"), number_of("1e999")
    (12.5, '007', '1e999')
    """
    if not _JSON_NUMBER.fullmatch(text):
        plain = text.removeprefix("+")
        plain = "0" + plain if plain.startswith(".") else plain.rstrip(".") if plain.endswith(".") else plain
        if not _JSON_NUMBER.fullmatch(plain):
            return text
        return number_of(plain)
    try:
        if text.lstrip("-").isdigit():
            return int(text)
        value = float(text)
    except ValueError:  # more digits than Python converts
        return text
    return value if math.isfinite(value) else text


def unescape(text: str) -> str:
    """Resolves JSON's and Python's escapes; half of a surrogate pair becomes U+FFFD.

    >>> unescape(r"caf\\u00e9 \\x41 \\d")
    'café A \\\\d'
    """
    if "\\" in text:
        text = _ESCAPE.sub(_escaped, text)
    return whole_characters(text)


def whole_characters(text: str) -> str:
    """Joins surrogate pairs and replaces half ones, which no UTF-8 can hold, by U+FFFD."""
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _escaped(match: re.Match[str]) -> str:
    code = match.group(1) or match.group(2) or match.group(3)
    if code:
        number = int(code, 16)
        return chr(number) if number <= 0x10FFFF else "\ufffd"
    char = match.group(4)
    if char is None:  # the text was cut after the backslash
        return ""
    if char in _SIMPLE:
        return _SIMPLE[char]
    # An escape that neither language knows is text: a path, a regular expression, LaTeX.
    return "\\" + char if char.isalnum() else char
