"""What is written to a terminal: colour, a line that replaces itself, a progress bar. Standard library only."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, TextIO

from orion.words import dump, harmless, size_words

if TYPE_CHECKING:
    from orion.run import JSON

COLUMNS = 80
"""Width assumed when the terminal does not tell its own."""
BAR_COLUMNS = 24
REDRAW_SECONDS = 0.1
LOG_PERCENT = 10
"""Without a terminal a line is written each time so many per cent are done."""


def is_terminal(stream: TextIO) -> bool:
    """True when a person reads `stream` on a terminal that understands escape sequences."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


class Pen:
    """Colours text for one stream: only on a terminal, and not when `NO_COLOR` is set (no-color.org).

    >>> import io
    >>> Pen(io.StringIO()).red("error")
    'error'
    """

    def __init__(self, stream: TextIO) -> None:
        self._on = is_terminal(stream) and not os.environ.get("NO_COLOR")

    def _wrap(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._on and text else text

    def bold(self, text: str) -> str:
        """For what the eye should find first."""
        return self._wrap("1", text)

    def dim(self, text: str) -> str:
        """For what may be skipped."""
        return self._wrap("2", text)

    def red(self, text: str) -> str:
        """For what failed."""
        return self._wrap("31", text)

    def green(self, text: str) -> str:
        """For what is well."""
        return self._wrap("32", text)

    def yellow(self, text: str) -> str:
        """For what is missing or incomplete."""
        return self._wrap("33", text)


class StatusLine:
    """A last line that is replaced again and again. Does nothing unless the stream is a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._pen = Pen(stream)
        self._on = is_terminal(stream)
        self._shown = ""

    def show(self, text: str) -> None:
        """Replace the line; `text` is cut to the terminal's width, since a wrapped line could not be replaced."""
        text = text[: _columns(self._stream) - 1]
        if self._on and text != self._shown:
            self._stream.write(f"\r\x1b[K{self._pen.dim(text)}")
            self._stream.flush()
            self._shown = text

    def clear(self) -> None:
        """Take the line away, before a lasting line is written and at the end."""
        if self._on and self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
        self._shown = ""


class ProgressBar:
    """Progress of one download: call it with bytes done, bytes in all, and what is going on.

    On a terminal a bar with rate and remaining time, elsewhere a line at each tenth.
    """

    def __init__(self, stream: TextIO, label: str) -> None:
        self._stream = stream
        self._label = label
        self._line = StatusLine(stream)
        self._terminal = is_terminal(stream)
        self._began: tuple[float, int] | None = None
        self._drawn = 0.0
        self._percent = -LOG_PERCENT
        self._what = ""

    def __call__(self, done: int, total: int, what: str) -> None:
        now = time.monotonic()
        changed, self._what = what != self._what, what
        if self._began is None or changed:
            self._began = (now, done)  # another source has another speed
        percent = 100 * done // total if total else 0
        if self._terminal:
            if changed or done >= total or now - self._drawn >= REDRAW_SECONDS:
                self._drawn = now
                self._line.show(self._bar(done, total, percent, now))
        elif percent // LOG_PERCENT != self._percent // LOG_PERCENT or changed:
            self._percent = percent
            print(f"{self._label}: {percent} % of {size_words(total)} ({what})", file=self._stream, flush=True)

    def _bar(self, done: int, total: int, percent: int, now: float) -> str:
        assert self._began is not None
        full = BAR_COLUMNS * percent // 100
        bar = "━" * full + "╌" * (BAR_COLUMNS - full)
        seconds, fresh = now - self._began[0], done - self._began[1]
        speed = ""
        if fresh > 0 and seconds > 0.5:
            left = int((total - done) * seconds / fresh)
            speed = f"  {size_words(fresh / seconds)}/s  {left // 60}:{left % 60:02d} left"
        return f"{self._label} {bar} {percent:3d} %  {size_words(done)} of {size_words(total)}{speed}  {self._what}"

    def close(self) -> None:
        """Take the bar away."""
        self._line.clear()


def print_json(value: JSON, stream: TextIO) -> None:
    """A JSON value, indented on a terminal, on one line in a pipe."""
    if is_terminal(stream):
        print(harmless(dump(value, indent=2)), file=stream)
    else:
        print(json.dumps(value, ensure_ascii=False, separators=(",", ":")), file=stream)


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or COLUMNS
    except (OSError, ValueError):  # not a terminal after all, or one without a size
        return COLUMNS
