"""A task: a prompt, a file drawn by code, the asked schema and the checks its answer must pass.

The checks are in the language of the public tasks' scorer (`check.py`), so that one scorer scores both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Tier = Literal["dev", "held"]
Schema = dict[str, Any]
Check = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
WHOLE: Schema = {"type": "integer"}
TICK: Schema = {"type": "boolean"}
DATE: Schema = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"}


def one_of(*values: str) -> Schema:
    """The schema of a text out of `values`."""
    return {"type": "string", "enum": list(values)}


def record(**properties: Schema) -> Schema:
    """The schema of an object whose properties are all required.

    >>> record(total=NUMBER)["required"]
    ['total']
    """
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def many(item: Schema) -> Schema:
    """The schema of a list of `item`."""
    return {"type": "array", "items": item}


def text(field: str, *values: str) -> Check:
    """Equal to one of `values`, ignoring case, accents, blanks and punctuation."""
    return {"field": field, "type": "ci", "values": list(values)}


def exact(field: str, value: str | bool) -> Check:
    """Exactly this text or truth value."""
    return {"field": field, "type": "exact", "value": value}


def number(field: str, value: float, tol: float = 0.005) -> Check:
    """Within `tol` of `value`."""
    return {"field": field, "type": "num", "value": round(value, 6), "tol": tol}


def date(field: str, value: str) -> Check:
    """The date `value` (YYYY-MM-DD)."""
    return {"field": field, "type": "date", "value": value}


def rows(field: str, key: str, values: Mapping[str, Mapping[str, float]], count: bool = True) -> list[Check]:
    """A list of objects: for each key the numbers of its row; with `count` also no row more or less."""
    check = {
        "field": field,
        "type": "rows",
        "key": key,
        "values": {k: dict(v) for k, v in values.items()},
        "tol": 0.005,
    }
    return [check, {"field": field, "type": "len", "value": len(values)}] if count else [check]


def names(field: str, *values: str) -> Check:
    """A list of exactly these texts in any order, ignoring case and accents."""
    return {"field": field, "type": "set", "values": list(values), "min_item": 1.0, "mode": "fold"}


MEDIA = {".pdf": "document_url", ".png": "image_url", ".jpg": "image_url", ".tif": "image_url"}


@dataclass(frozen=True)
class Task:
    """One task. `tier` is the half it belongs to: `dev` may be looked at while tuning, `held` only at the end."""

    id: str
    kind: str
    tier: str
    prompt: str
    file: Path | str
    """Name of the drawn file, or the path of a file that exists."""
    data: bytes
    schema: Schema
    checks: list[Check]

    def line(self) -> dict[str, Any]:
        """The task as a line of `tasks.jsonl`."""
        path = f"{self.id}/{self.file}"
        part = MEDIA[Path(self.file).suffix]
        content = [{"type": "text", "text": self.prompt}, {"type": part, part: {"url": f"dataroot:{path}"}}]
        name = self.id.replace("-", "_")
        schema = {"name": name, "strict": True, "schema": self.schema}
        return {
            "id": self.id,
            "kind": self.kind,
            "files": [path],
            "messages": [{"role": "user", "content": content}],
            "response_format": {"type": "json_schema", "json_schema": schema},
            "checker": self.checks,
            "difficulty": "medium",
            "needs_vlm": False,
            "tier": self.tier,
            "limits": {},
        }
