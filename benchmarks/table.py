"""Plain tables on standard output."""

from __future__ import annotations

from collections.abc import Sequence


def show(head: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> None:
    """Prints a table; numbers flush right, everything else flush left.

    >>> show(["who", "tokens"], [["a", 5], ["bc", 1200]])
    who  tokens
    a         5
    bc     1200
    """
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(head), *cells]) for i in range(len(head))]
    right = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(head))]
    if title:
        print(f"\n{title}")
    for row in [list(head), *cells]:
        line = [cell.rjust(w) if flush else cell.ljust(w) for cell, w, flush in zip(row, widths, right, strict=True)]
        print("  ".join(line).rstrip())


def _is_number(cell: object) -> bool:
    return (isinstance(cell, int | float) and not isinstance(cell, bool)) or cell in (None, "")


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:.2f}" if isinstance(cell, float) else str(cell)


def share(part: int, whole: int) -> str:
    """A part of a whole in words.

    >>> share(3, 4)
    '3/4 (75 %)'
    """
    return f"{part}/{whole} ({100 * part / whole:.0f} %)" if whole else "0/0"
