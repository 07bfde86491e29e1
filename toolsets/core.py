"""The core toolset: what an artifact is, exact arithmetic, and reading text files and long texts."""

from __future__ import annotations

import codecs
import csv
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from orion.artifacts import Artifact
from orion.errors import ToolFailed, ToolRetry
from orion.tools import AnyFile, Look, Toolset, tool
from orion.toolsets.arithmetic import ArithmeticProblem, evaluate
from orion.toolsets.sums import column_sums, words_for

MAX_READ = 20_000  # characters of one read_more
MIN_ROOM = 80  # characters a first look shows whatever its budget
SNIFFED = 4000  # characters of a CSV file from which its separator is told
MAX_META = 400  # characters of meta shown by describe_artifact

ZIP = "application/zip"
_NAMES = {
    "text/csv": "CSV",
    "text/tab-separated-values": "tab-separated values",
    "text/markdown": "Markdown",
    "text/html": "HTML",
    "application/json": "JSON",
    "application/xml": "XML",
    "image/svg+xml": "SVG",
}


@tool
def describe_artifact(artifact: Artifact) -> str:
    """Tell kind, size, pages, duration and origin of a file.

    Returns:
        One line with whatever is known: kind, media type, bytes, pixels, pages, seconds, parent, meta.

    >>> print(describe_artifact(Artifact(id="img_0a1b2c", kind="image", media_type="image/png", size=2048, sha256="",
    ...                                  width=640, height=480, parent="doc_445566")))
    img_0a1b2c: image, image/png, 2048 bytes, 640x480 px, made from doc_445566
    """
    parts = [artifact.kind, artifact.media_type]
    if artifact.name:
        parts.append(f"named {artifact.name}")
    parts.append(f"{artifact.size} bytes")
    if artifact.width and artifact.height:
        parts.append(f"{artifact.width}x{artifact.height} px")
    if artifact.pages:
        parts.append(f"{artifact.pages} page{'s' if artifact.pages > 1 else ''}")
    if artifact.seconds is not None:
        parts.append(f"{artifact.seconds:.3f} s")
    if artifact.parent:
        parts.append(f"made from {artifact.parent}")
    meta = "; ".join(f"{key} {value}" for key, value in artifact.meta.items() if key != "original" and value)
    if meta:
        parts.append(meta if len(meta) <= MAX_META else meta[:MAX_META] + "...")
    return f"{artifact.id}: {', '.join(parts)}"


@tool
def calculate(expression: str) -> int | float:
    """Work out an expression exactly, e.g. 3 * (7 + 1.5).

    Args:
        expression: numbers, + - * / // % **, parentheses, and round, min, max, sum, abs, sqrt; at most 1000 characters.

    Returns:
        The value; decimals are exact, so sums of money are right to the cent.

    >>> calculate("388.57 + 419.68 + 341.60 + 253.15")
    1403.0
    >>> calculate("round(127.70 * 0.2, 2)"), calculate("max(3, 12, 7) - 2")
    (25.54, 10)
    """
    try:
        return evaluate(expression)
    except ArithmeticProblem as error:
        raise ToolRetry(f"calculate: {error}") from error


@tool
def read_more(
    file: AnyFile,
    start: Annotated[int, Field(ge=0)] = 0,
    length: Annotated[int, Field(ge=1, le=MAX_READ)] = 4000,
) -> str:
    """Read on in a long text that was cut short.

    Args:
        file: a text artifact.
        start: first character to show, from 0.
        length: number of characters, at most 20000.

    Returns:
        The text, with what comes before and after it counted.
    """
    text = _decoded(file)
    if text is None:
        raise ToolFailed("this file is not text; use a tool for its kind, such as ocr or read_text")
    if start >= len(text) and start > 0:
        raise ToolRetry(f"start is {start}, but the text has {len(text)} characters")
    part = text[start : start + length]
    rest = len(text) - start - len(part)
    if rest:
        return (
            f"{part}\n[characters {start} to {start + len(part)} of {len(text)}; go on with start={start + len(part)}]"
        )
    return f"{part}\n[end of the text]" if start else part


def look(path: Path, meta: dict[str, Any], budget_chars: int, text_only: bool) -> Look:
    """The first observation of a file that is no medium: its text within the budget, and sums of a CSV's columns."""
    media_type = str(meta.get("media_type") or "")
    text = _decoded(path) if media_type != ZIP else None
    if text is None:
        kind = "ZIP archive" if media_type == ZIP else f"file of type {media_type or 'unknown'}"
        raise ToolFailed(f"{kind}, which this version of Orion cannot read")
    kind = _NAMES.get(media_type, "text")
    if len(text) <= budget_chars:
        parts = [f"{kind}, {len(text)} characters:", text.rstrip()]
        sums = _csv_sums(text) if media_type in ("text/csv", "text/tab-separated-values") else ""
        return Look("\n".join([*parts, *([sums] if sums else [])]), ("read_more",), whole=True)
    room = max(budget_chars, MIN_ROOM)
    end = text.rfind("\n", room // 2, room) + 1 or room
    rest = f"[{len(text) - end} more characters: read_more(file, start={end})]"
    return Look(f"{kind}, {len(text)} characters:\n{text[:end].rstrip()}\n{rest}")


def _decoded(path: Path) -> str | None:
    """A file's text, None when it is binary. Text in one byte a character is taken for Windows' Western alphabet."""
    data = path.read_bytes()
    utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", errors="replace") if not utf16 else "\0"
    if re.search(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]", text):
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _csv_sums(text: str) -> str:
    try:
        dialect = csv.Sniffer().sniff(text[:SNIFFED], delimiters=",;\t|")
        rows = [row for row in csv.reader(text.splitlines(), dialect) if any(row)]
    except csv.Error:  # one column, or cells that are not quoted alike: there is nothing to add up for certain
        return ""
    if len({len(row) for row in rows}) != 1:
        return ""
    sums = words_for(column_sums(rows))
    return f"column sums: {sums}" if sums else ""


TOOLSET = Toolset(
    name="core",
    summary="exact arithmetic, what a file is, reading on in long text",
    tools=(describe_artifact, calculate, read_more),
    media=("file",),
    look=look,
)
