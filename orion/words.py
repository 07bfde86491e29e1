"""Calls, artifacts and numbers in a few words, the same on a terminal and in a notebook."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orion.artifacts import Artifact
    from orion.run import JSON, Call, Run, Turn

ARGUMENT_CHARS = 60
"""Characters of one argument shown in a call."""

_ID = re.compile(r"[a-z]{3,5}_[0-9a-f]{6,}")
# Everything a terminal might act on: C0 without tab and newline, DEL, C1, and the marks that reorder a line.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def call_words(call: Call, names: Mapping[str, str] | None = None) -> str:
    """A call as one short line; ids found in `names` are shown by name.

    >>> from orion.run import Call
    >>> call_words(Call(tool="find_text", arguments={"document": "doc_1a2b3c", "query": "total"}))
    'find_text(document=doc_1a2b3c, query="total")'
    """
    shown = []
    names = names or {}
    for name, value in call.arguments.items():
        is_id = isinstance(value, str) and _ID.fullmatch(value)
        text = shorten(names.get(value, value) if is_id else dump(value), ARGUMENT_CHARS)
        shown.append(f"{shorten(name, ARGUMENT_CHARS)}={text}")
    return f"{shorten(call.tool, ARGUMENT_CHARS)}({', '.join(shown)})"


def artifact_words(artifact: Artifact) -> str:
    """What an artifact is, e.g. `image/png · 640×480 · 12.0 KB`."""
    facts = [artifact.media_type]
    if artifact.width and artifact.height:
        facts.append(f"{artifact.width:g}×{artifact.height:g}")
    if artifact.pages:
        facts.append(count(artifact.pages, "page"))
    if artifact.seconds:
        facts.append(f"{artifact.seconds:.1f} s")
    facts.append(size_words(artifact.size))
    return " · ".join(facts)


def spoken(turn: Turn) -> str:
    """What the model said beside its action: an action written as JSON is not shown twice.

    >>> from orion.run import Call, Turn
    >>> spoken(Turn(text='{"tool": "ocr"}', calls=[Call(tool="ocr")])), spoken(Turn(text="Let me see."))
    ('', 'Let me see.')
    """
    acted = bool(turn.calls) or turn.final is not None
    return "" if acted and turn.text.lstrip().startswith(("{", "[", "`", "<")) else turn.text


def made_by(run: Run) -> list[str]:
    """Ids of the artifacts a run made, each once, in the order they came up."""
    ids = (id_ for step in run.steps for observation in step.observations for id_ in observation.artifacts)
    return [id_ for id_ in dict.fromkeys(ids) if id_ not in run.inputs]


def size_words(size: float) -> str:
    """Bytes in words.

    >>> size_words(999), size_words(3650), size_words(1_117_320_768)
    ('999 B', '3.6 KB', '1.1 GB')
    """
    if size < 1000:
        return f"{size:.0f} B"
    for unit in ("KB", "MB"):
        size /= 1000
        if size < 999.95:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} GB"


def count(number: int, word: str) -> str:
    """
    >>> count(1, "step"), count(1200, "step")
    ('1 step', '1,200 steps')
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def shorten(text: str, limit: int) -> str:
    """One harmless line of at most `limit` characters.

    >>> shorten("first line\\nand  more", 14)
    'first line an…'
    """
    line = harmless(" ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def harmless(text: str) -> str:
    """Text without characters a terminal would act on, so that a file or a model cannot move the cursor or retitle it.

    >>> harmless("a\\x1b[31mb\\tc")
    'a�[31mb\\tc'
    """
    return _CONTROL.sub("\ufffd", text)


def dump(value: JSON, indent: int | None = None) -> str:
    """A JSON value as text, other alphabets left readable."""
    return json.dumps(value, ensure_ascii=False, indent=indent)
