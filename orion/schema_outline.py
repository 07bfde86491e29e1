"""A schema as the few lines a small model reads before it answers."""

from __future__ import annotations

import json
from typing import Any

from orion.schema_grammar import reference_kind
from orion.schema_refuse import resolve

_HINTS = {
    r"\d{4}-\d{2}-\d{2}": "YYYY-MM-DD",
    "[0-9]{4}-[0-9]{2}-[0-9]{2}": "YYYY-MM-DD",
    r"\d{2}\.\d{2}\.\d{4}": "DD.MM.YYYY",
    r"\d{2}/\d{2}/\d{4}": "two digits/two digits/YYYY",
    r"\d{4}-\d{2}": "YYYY-MM",
    r"\d{4}": "YYYY",
    r"\d{2}:\d{2}": "HH:MM",
    r"[A-Z]{3}": "three capital letters",
    r"[A-Z]{2}": "two capital letters",
}
_FORMATS = {
    "date": "YYYY-MM-DD",
    "date-time": "YYYY-MM-DDTHH:MM:SSZ",
    "time": "HH:MM:SSZ",
    "artifact": "an artifact id",
}
_INLINE = 90
"""Characters up to which an object is written on one line."""
_MAX_NESTED = 6
_MAX_VALUES = 24
_MAX_DESCRIPTION = 120


def outline(root: dict[str, Any], max_chars: int) -> str:
    """One line a field: name, type, allowed values, description; `?` marks what may be left out.

    >>> print(outline({"type": "object", "required": ["date"], "properties": {
    ...     "date": {"type": "string", "pattern": "^\\\\d{4}-\\\\d{2}-\\\\d{2}$"},
    ...     "items": {"type": "array", "items": {"type": "object", "required": ["n"],
    ...               "properties": {"n": {"type": "number"}}}}}}, 500))
    date: string (YYYY-MM-DD)
    items?: list of {n: number}
    """
    shape = _Shape(root)
    target = shape.target(root)
    text = "\n".join(shape.fields(target, 0, ())) if target.get("properties") else shape.of(root, 0, ())
    if len(text) <= max_chars:
        return text
    cut = text[: max(0, max_chars - 2)]
    return cut[: cut.rfind("\n")] + "\n…" if "\n" in cut else cut + "…"


class _Shape:
    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root

    def target(self, schema: Any) -> dict[str, Any]:
        """The schema behind `$ref`s and single-part `allOf`s."""
        for _hop in range(16):
            if not isinstance(schema, dict):
                return {}
            parts = schema.get("allOf")
            if "$ref" in schema:
                found = resolve(self.root, schema["$ref"])
                described = schema.get("description")
                schema = {**found, "description": described} if described and isinstance(found, dict) else found
            elif isinstance(parts, list) and len(parts) == 1 and isinstance(parts[0], dict) and "type" not in schema:
                schema = {**parts[0], **{key: value for key, value in schema.items() if key != "allOf"}}
            else:
                return schema
        return {}

    def fields(self, schema: dict[str, Any], indent: int, path: tuple[str, ...]) -> list[str]:
        lines = []
        for name, item in schema.get("properties", {}).items():
            optional = "" if name in schema.get("required", ()) else "?"
            note = self.target(item).get("description") or ""
            note = f" — {_short(note, _MAX_DESCRIPTION)}" if isinstance(note, str) and note.strip() else ""
            shape = self.of(item, indent + 1, path)
            first, newline, rest = shape.partition("\n")
            lines.append("  " * indent + f"{name}{optional}: {first}{note}{newline}{rest}")
        return lines

    def of(self, schema: Any, indent: int, path: tuple[str, ...]) -> str:
        """The type in words; an object too long for one line follows as indented lines."""
        identity = schema.get("$ref", "") if isinstance(schema, dict) else ""
        if len(path) >= _MAX_NESTED or (identity and identity in path):
            return "object" if not identity else f"same as {identity.rsplit('/', 1)[-1] or 'the whole'}"
        path = (*path, identity)
        node = self.target(schema)
        if "const" in node:
            return json.dumps(node["const"], ensure_ascii=False)
        if isinstance(node.get("enum"), list):
            values = [json.dumps(value, ensure_ascii=False) for value in node["enum"][:_MAX_VALUES]]
            return " | ".join(values) + (" | …" if len(node["enum"]) > _MAX_VALUES else "")
        for key in ("anyOf", "oneOf"):
            if isinstance(node.get(key), list) and not node.get("properties"):
                return " or ".join(dict.fromkeys(self.of(branch, indent, path) for branch in node[key]))
        types = node.get("type")
        names = types if isinstance(types, list) else [types] if types else []
        names = names or (["object"] if node.get("properties") else ["array"] if "items" in node else ["any value"])
        return " or ".join(self._named(name, node, indent, path) for name in names)

    def _named(self, name: str, node: dict[str, Any], indent: int, path: tuple[str, ...]) -> str:
        if name == "object" and node.get("properties"):
            return self._object(node, indent, path)
        if name == "object" and isinstance(node.get("additionalProperties"), dict):
            return f"object of name: {self.of(node['additionalProperties'], indent, path)}"
        if name == "array":
            first = node.get("prefixItems") or (node["items"] if isinstance(node.get("items"), list) else None)
            if first:
                return "[" + ", ".join(self.of(item, indent, path) for item in first) + "]"
            return f"list{_range(node, 'minItems', 'maxItems')} of {self.of(node.get('items', {}), indent, path)}"
        if name == "string":
            return "string" + _text_hint(node)
        return name + (_range(node, "minimum", "maximum") if name in ("number", "integer") else "")

    def _object(self, node: dict[str, Any], indent: int, path: tuple[str, ...]) -> str:
        lines = self.fields(node, indent, path)
        inline = "{" + ", ".join(line.strip() for line in lines) + "}"
        if len(inline) <= _INLINE and "\n" not in inline:
            return inline
        return "object\n" + "\n".join(lines)


def _short(text: str, limit: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _range(node: dict[str, Any], low: str, high: str) -> str:
    if low in node and high in node:
        return f" ({node[low]} to {node[high]})"
    return f" (at least {node[low]})" if node.get(low) else f" (at most {node[high]})" if high in node else ""


def _text_hint(node: dict[str, Any]) -> str:
    kind = reference_kind(node)
    if kind is not None:
        return f" (id of {'an artifact' if kind == 'any' else kind})"
    pattern = node.get("pattern")
    bare = pattern.removeprefix("^").removesuffix("$") if isinstance(pattern, str) else ""
    hint = (
        _HINTS.get(bare)
        or _FORMATS.get(node.get("format", ""), node.get("format"))
        or (pattern and f"matches {pattern}")
    )
    length = f", at most {node['maxLength']} characters" if "maxLength" in node else ""
    return f" ({(hint or '') + length})".replace("(, ", "(") if hint or length else ""
