"""The core toolset: what an artifact is, exact arithmetic, and reading on in a long text."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from orion.artifacts import Artifact
from orion.errors import ToolFailed, ToolRetry
from orion.tools import AnyFile, Toolset, tool
from orion.toolsets.arithmetic import ArithmeticProblem, evaluate

MAX_READ = 20_000  # characters of one read_more
MAX_META = 400  # characters of meta shown by describe_artifact


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
    """Work out an arithmetic expression exactly, e.g. 3 * (1,250.50 + 7).

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
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ToolFailed("this file is not text; use a tool for its kind, such as ocr or read_text") from error
    if start >= len(text) and start > 0:
        raise ToolRetry(f"start is {start}, but the text has {len(text)} characters")
    part = text[start : start + length]
    rest = len(text) - start - len(part)
    if rest:
        return (
            f"{part}\n[characters {start} to {start + len(part)} of {len(text)}; go on with start={start + len(part)}]"
        )
    return f"{part}\n[end of the text]" if start else part


TOOLSET = Toolset(
    name="core",
    summary="exact arithmetic, what a file is, reading on in long text",
    tools=(describe_artifact, calculate, read_more),
)
