"""The JSON value in what a model wrote, and its text without the thoughts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

from orion.lenient import Found, candidates, strict_json, whole, whole_characters
from orion.run import JSON


class Missing:
    """The type of `MISSING`: there is no value. JSON's null is a value, so None cannot say it."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()


_THINK = re.compile(r"<(/?)think(?:ing)?>")
_FENCED = re.compile(r"```[ \t]*[\w+-]{0,20}[ \t]*\r?\n?\s{0,64}\Z")
_ALONE_BEFORE = re.compile(r"(?:\A|[\n:=]|```[\w+-]{0,20})\s{0,64}\Z")
_ALONE_AFTER = re.compile(r"[ \t]{0,64}(?:\r?\n|\Z|```)")


def split_think(text: str) -> tuple[str, str]:
    """`(answer, thoughts)`: the text outside and inside `<think>` tags. An unclosed tag thinks to the end.

    >>> split_think("<think>A crop?</think>No.")
    ('No.', 'A crop?')
    >>> split_think("the template opened the tag</think>42")
    ('42', 'the template opened the tag')
    """
    text = whole_characters(text)
    outside: list[str] = []
    inside: list[str] = []
    position, thinking = 0, False
    for tag in _THINK.finditer(text):
        piece = text[position : tag.start()]
        closes = bool(tag.group(1))
        # A closing tag without an opening one: the chat template had already opened it.
        if closes and not thinking and not inside:
            inside.extend([*outside, piece])
            outside.clear()
        else:
            (inside if thinking else outside).append(piece)
        thinking, position = not closes, tag.end()
    (inside if thinking else outside).append(text[position:])
    return "".join(outside).strip(), "".join(inside).strip()


def parse_json(text: str, *, want: Literal["object", "array"] | None = None) -> JSON | Missing:
    """The JSON value that best looks like the answer in `text`; `MISSING` when there is none.

    Complete values win over cut ones, fenced over bare ones, objects over lists of plain values, later over earlier
    ones; text outside `<think>` over text inside. `want` says what the schema asks for: with "array" a single object
    becomes a list of one, with "object" a list of one object becomes that object.

    >>> parse_json('Sure!\\n```json\\n{"total": 12.50, "paid": true,}\\n```')
    {'total': 12.5, 'paid': True}
    >>> parse_json("{'lines': [('pen', 2), ('ink', None)")
    {'lines': [['pen', 2], ['ink', None]]}
    >>> parse_json("I could not find it.")
    MISSING
    """
    strict = strict_json(text)
    if strict is not None:
        return _wanted(strict[0], want)
    answer, thoughts = split_think(text)
    for part in (answer, thoughts):
        value = _best(part, want)
        if not isinstance(value, Missing):
            return _wanted(value, want)
    return MISSING


def _best(text: str, want: Literal["object", "array"] | None) -> JSON | Missing:
    alone = whole(_unfence(text))
    if alone is not None and alone.complete and not alone.rough:
        return alone.value
    ranked = [(_rank(text, found, want), found.value) for found in _groups(text, want)]
    ranked = [entry for entry in ranked if entry[0] is not None]
    if not ranked:
        return alone.value if alone is not None and not alone.rough else MISSING
    best = ranked[0]
    for entry in ranked[1:]:
        if entry[0] >= best[0]:  # type: ignore[operator]  # the Nones are gone
            best = entry
    return best[1]


def _unfence(text: str) -> str:
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and len(text) >= 6 and "\n" in text:
        return text[text.index("\n") + 1 : -3]
    return text


def _groups(text: str, want: Literal["object", "array"] | None) -> Iterator[Found]:
    """Candidates, with objects that only commas part (or, when a list is asked, blanks) joined into a list."""
    group: list[Found] = []
    for found in candidates(text):
        if group:
            gap = text[group[-1].end : found.start].strip()
            joins = gap == "," or (not gap and want == "array")
            if joins and isinstance(found.value, dict) and isinstance(group[0].value, dict):
                group.append(found)
                continue
            yield _joined(group)
        group = [found]
    if group:
        yield _joined(group)


def _joined(group: list[Found]) -> Found:
    if len(group) == 1:
        return group[0]
    values = [found.value for found in group]
    complete = all(found.complete for found in group)
    return Found(values, group[0].start, group[-1].end, complete, any(found.rough for found in group))


def _rank(text: str, found: Found, want: Literal["object", "array"] | None) -> tuple[int, ...] | None:
    value = found.value
    before = text[max(0, found.start - 100) : found.start]
    fenced = "```" in before and bool(_FENCED.search(before))
    records = isinstance(value, dict) or any(isinstance(item, dict) for item in value)
    # "[1]" within a sentence is a footnote, on its own it is a list.
    alone = records or fenced or (_ALONE_BEFORE.search(before) and _ALONE_AFTER.match(text, found.end))
    if not alone:
        return None
    asked = want is None or isinstance(value, dict if want == "object" else list)
    is_schema = isinstance(value, dict) and (
        "$schema" in value or (value.get("type") == "object" and "properties" in value)
    )
    return (not is_schema, bool(value), records or want == "array", found.complete, asked, not found.rough, fenced)


def _wanted(value: JSON, want: Literal["object", "array"] | None) -> JSON:
    if want is not None and isinstance(value, str):
        inner = whole(value)
        if inner is not None and isinstance(inner.value, dict | list):
            value = inner.value
    if want == "array" and isinstance(value, dict):
        return [value]
    if want == "object" and isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        return value[0]
    return value
