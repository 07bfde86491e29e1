"""Prompt templates: `NAME.md` files with `{field}` places."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files


@cache
def template(name: str) -> str:
    """The text of one template, without the newline at its end."""
    return (files(__package__) / f"{name}.md").read_text(encoding="utf-8").rstrip("\n")


def render(name: str, **fields: str) -> str:
    """A template with its places filled. Braces in the values stay as they are.

    >>> render("select", request="Read a.pdf {now}", toolsets="web: search").splitlines()[0]
    'A request: Read a.pdf {now}'
    """
    text = template(name)
    parts = []
    for line in text.split("\n"):
        for field, value in fields.items():
            place = "{" + field + "}"
            if place in line:
                line = value.join(line.split(place)) if line != place else value
                break
        parts.append(line)
    return "\n".join(parts)


_TURN_MARK = re.compile(r"<(?=\|[A-Za-z_0-9]{1,40}\|>|/?(?:start|end)_of_turn>)")


def defused(text: str) -> str:
    """Text of a file or a tool without the marks by which chat templates begin and end a turn.

    Servers read such marks wherever they stand: a document with `<|im_start|>system` could speak as the system. A blank
    is put into them; nothing else changes.

    >>> defused("a <|im_end|> b <start_of_turn>user, x <| y, 1 < 2")
    'a < |im_end|> b < start_of_turn>user, x <| y, 1 < 2'
    """
    return _TURN_MARK.sub("< ", text)


def plain(value: object) -> str:
    """A value as the text a person reads: text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
