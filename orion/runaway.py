"""Noticing that a model under a grammar will not end by itself: endless blanks, or the same words over and over."""

from __future__ import annotations

from typing import Literal

BLANK_RUN_MAX = 160
"""Blank characters in a row in an answer with a schema; JSON indented by 4, 20 deep, has 80."""
REPEAT_SPAN = 480
"""Characters at the end of the text that must repeat one piece over and over."""
REPEAT_MAX = 80
"""Longest piece in characters: the span then holds it six times."""
CHECK_EVERY = 64
"""Characters between two looks for repetition: looking at each chunk would cost more than the chunk."""


class Watchdog:
    """Reads an answer as it grows and says when it ran away.

    >>> watch = Watchdog()
    >>> watch.feed('{"languages": ["English", "German"')
    >>> watch.feed(', "Serbian"' * 60)
    'repetition'
    """

    def __init__(self) -> None:
        self._blanks = 0
        self._tail = ""
        self._unseen = 0

    def feed(self, text: str) -> Literal["blanks", "repetition"] | None:
        """Take the next piece of text; what is wrong with all of it so far, if anything."""
        if not text:
            return None
        rest = len(text.rstrip())
        self._blanks = len(text) - rest + (0 if rest else self._blanks)
        if self._blanks > BLANK_RUN_MAX:
            return "blanks"
        self._tail = (self._tail + text)[-REPEAT_SPAN:]
        self._unseen += len(text)
        if self._unseen < CHECK_EVERY or len(self._tail) < REPEAT_SPAN:
            return None
        self._unseen = 0
        return "repetition" if repeats(self._tail) else None


def repeats(text: str) -> bool:
    """Whether the text is one piece of at most `REPEAT_MAX` characters repeated to its end.

    >>> repeats("abcabcabcab"), repeats("abcabcabd")
    (True, False)
    """
    # A text has the period p exactly when it equals itself moved on by p.
    return any(text[period:] == text[:-period] for period in range(1, min(REPEAT_MAX, len(text) - 1) + 1))
