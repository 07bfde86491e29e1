"""Where a text stands among characters with boxes: exact but for case, blanks and accents, or similar."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

from orion.toolsets.layout import Span, union

SIMILAR = 0.75  # share of matching characters that makes a line similar
MAX_SIMILAR = 5  # similar lines of one page
MAX_LINE = 200  # characters of the line around a hit


@dataclass(frozen=True, slots=True)
class Hit:
    """One place: a box a line it covers, and the line where it starts."""

    boxes: list[Span]
    line: str
    exact: bool


def exact(letters: Sequence[Span], query: str) -> list[Hit]:
    """All places of `query`, across line ends too.

    >>> letters = [Span(c, at, 0, at + 1, 2) for at, c in enumerate("Total: Über  7")]
    >>> [(hit.boxes[0].x0, hit.boxes[0].x1) for hit in exact(letters, "UBER 7")]
    [(7, 14)]
    """
    haystack, where = _folded(letters)
    needle, _ = _folded([Span(letter, 0, 0, 0, 0) for letter in query])
    needle = needle.strip()
    hits = []
    at = haystack.find(needle) if needle else -1
    while at >= 0:
        first, last = where[at], where[at + len(needle) - 1]
        hits.append(Hit(_boxes(letters[first : last + 1]), _line(letters, first), exact=True))
        at = haystack.find(needle, at + len(needle))
    return hits


def similar(letters: Sequence[Span], query: str) -> list[Hit]:
    """Stretches of lines that resemble `query`, best first; for misprints and OCR errors."""
    needle, _ = _folded([Span(letter, 0, 0, 0, 0) for letter in query])
    needle = needle.strip()
    ranked: list[tuple[float, int, Hit]] = []
    for start, end in _lines(letters):
        line, where = _folded(letters[start:end])
        matcher = SequenceMatcher(None, line, needle, autojunk=False)
        blocks = [block for block in matcher.get_matching_blocks() if block.size]
        if not blocks or sum(block.size for block in blocks) < SIMILAR * len(needle):
            continue
        first, last = blocks[0].a, blocks[-1].a + blocks[-1].size
        score = SequenceMatcher(None, line[first:last], needle, autojunk=False).ratio()
        if score >= SIMILAR:
            stretch = letters[start + where[first] : start + where[last - 1] + 1]
            ranked.append((-score, start, Hit(_boxes(stretch), _line(letters, start), exact=False)))
    return [hit for _score, _start, hit in sorted(ranked, key=lambda one: one[:2])[:MAX_SIMILAR]]


def _folded(letters: Sequence[Span]) -> tuple[str, list[int]]:
    """Lower-case text without accents and doubled blanks, and the index each of its characters comes from."""
    text: list[str] = []
    where: list[int] = []
    for at, letter in enumerate(letters):
        if letter.text.isspace():
            if text and text[-1] != " ":
                text.append(" ")
                where.append(at)
            continue
        for part in unicodedata.normalize("NFKD", letter.text.casefold()):
            if not unicodedata.combining(part):
                text.append(part)
                where.append(at)
    return "".join(text), where


def _boxes(letters: Sequence[Span]) -> list[Span]:
    """One box for each line that the characters lie on."""
    lines: list[list[Span]] = []
    for letter in letters:
        if letter.text.isspace() or letter.x1 <= letter.x0:
            continue
        last = lines[-1][-1] if lines else None
        if last and min(last.y1, letter.y1) - max(last.y0, letter.y0) > 0.3 * letter.height and letter.x0 >= last.x0:
            lines[-1].append(letter)
        else:
            lines.append([letter])
    return [union(line, "".join(letter.text for letter in line)) for line in lines]


def _lines(letters: Sequence[Span]) -> list[tuple[int, int]]:
    bounds = [-1, *(at for at, letter in enumerate(letters) if letter.text == "\n"), len(letters)]
    return [(left + 1, right) for left, right in pairwise(bounds) if right > left + 1]


def _line(letters: Sequence[Span], at: int) -> str:
    """The line around a character."""
    start = at
    while start and letters[start - 1].text != "\n":
        start -= 1
    end = at
    while end < len(letters) and letters[end].text != "\n":
        end += 1
    text = " ".join("".join(letter.text for letter in letters[start:end]).split())
    return text if len(text) <= MAX_LINE else text[:MAX_LINE] + "..."
