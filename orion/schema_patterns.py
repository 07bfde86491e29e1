"""Patterns of schemas, searched for in bounded time."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from pydantic import TypeAdapter

# What Python's `re` and the linear engine read differently: set operations in a class, and `\\<`, `\\>` as word ends.
_READ_DIFFERENTLY = re.compile(r"\[\[|\[\^\[|&&|--|~~|\\[<>]")


def matches(pattern: str, text: str) -> bool:
    """Whether `pattern` is found anywhere in `text`.

    Python's `re` tries every way to match: a pattern such as `^(a+)+$` keeps it busy for years with forty letters, and
    nothing can interrupt it. So the engine of pydantic is used, whose time grows with the text only. It lacks
    look-around and back-references: patterns with those go to `re`.

    >>> matches("^(a+)+$", "a" * 40), matches("^(a+)+$", "a" * 40 + "!"), matches("(?=b)b", "ab")
    (True, False, True)
    """
    linear = _linear(pattern)
    if linear is None:
        return re.search(pattern, text) is not None
    from pydantic import ValidationError

    try:
        linear.validate_python(text)
    except ValidationError:
        return False
    return True


@lru_cache(maxsize=256)
def _linear(pattern: str) -> TypeAdapter[str] | None:
    """A checker of the pattern, None when the linear engine cannot take it or would read it in its own way."""
    from pydantic import StringConstraints, TypeAdapter
    from pydantic_core import SchemaError

    if _READ_DIFFERENTLY.search(pattern):
        return None
    try:
        return TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])
    except SchemaError:
        return None
