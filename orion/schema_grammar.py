"""Lowers a JSON schema to what a server's grammar really enforces, and lists what it leaves to the check afterwards.

The result may be narrower than the schema (no invented properties, a date format for a date pattern), never in
conflict with it where the grammar can help it; `OutputSchema.problems` always judges by the original.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orion.errors import SchemaError
from orion.schema_refuse import ASSERTIONS, pointer, resolve, words
from orion.wire import Dialect


@dataclass(frozen=True, slots=True)
class Support:
    """What one dialect's grammar enforces, beside type, properties, required, items, enum, const, anyOf and $ref."""

    keywords: frozenset[str]
    formats: frozenset[str] = frozenset()
    number_bounds: frozenset[str] = frozenset()
    """Types whose minimum and maximum are enforced."""
    pattern: bool = False
    length_beside_pattern: bool = False


# llamacpp: measured through response_format on xllamacpp 2026.10.11549 (llama.cpp build 11549) by asking a model to
# write values that break each keyword. Kept: length, item count, integer bounds, four formats, prefixItems. Accepted
# but not enforced: pattern, number bounds, multipleOf, uniqueItems, contains, not, if, propertyNames, property counts,
# dependentRequired, other formats, keywords beside $ref. Broken: allOf of scalars (gives an object), patternProperties
# (gives {}), the reference "#", anchors, boolean schemas (400).
# llguidance: the embedded engine's own grammar field, held to the same table: it binds more (a pattern, say), but a
# small model bound by a pattern or multipleOf was seen to write digits without end.
# xgrammar: what vLLM's own check of a schema lets through (multipleOf, uniqueItems, contains and patternProperties
# beside properties are refused or handed to another backend; a length beside a pattern or format is dropped silently).
# plain: a server nothing is known about gets the structure only.
_LENGTHS = {"minLength", "maxLength", "minItems", "maxItems"}
_CLOCK = frozenset({"date", "time", "date-time", "uuid"})
_VLLM_FORMATS = frozenset(
    words("email date time date-time duration ipv4 ipv6 hostname uuid uri uri-reference uri-template json-pointer")
)
SUPPORT: dict[Dialect, Support] = {
    "llguidance": Support(frozenset({*_LENGTHS, "prefixItems"}), _CLOCK, frozenset({"integer"})),
    "llamacpp": Support(frozenset({*_LENGTHS, "prefixItems"}), _CLOCK, frozenset({"integer"})),
    "xgrammar": Support(
        frozenset({*_LENGTHS, "prefixItems"}), _VLLM_FORMATS, frozenset({"integer", "number"}), pattern=True
    ),
    "plain": Support(frozenset()),
}

_BY_TYPE: dict[str, tuple[str, ...]] = {
    "object": ("properties", "required", "additionalProperties", "patternProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
}
_BY_TYPE["number"] = _BY_TYPE["integer"]
_ANNOTATIONS = frozenset(
    words(
        "title description default examples example deprecated readOnly writeOnly $comment $schema $id $anchor $defs"
        " definitions contentMediaType contentEncoding contentSchema discriminator xml externalDocs nullable"
    )
)
_DATES = {r"\d{4}-\d{2}-\d{2}": "date", "[0-9]{4}-[0-9]{2}-[0-9]{2}": "date", r"\d\d\d\d-\d\d-\d\d": "date"}
_REFERENCE = re.compile(
    r"\^?(img|doc|vid|aud|recon|arr|url|file)_(?:\\w|\[[^\]]{1,20}\]|\.|\\S)(?:\{\d+(?:,\d*)?\}|\+|\*)?\$?"
)
KINDS = {
    "img": "image",
    "doc": "document",
    "vid": "video",
    "aud": "audio",
    "recon": "reconstruction",
    "arr": "array",
    "url": "url",
    "file": "file",
}
# Regular expressions that grammar compilers refuse or read differently.
_HARD_PATTERN = re.compile(r"\(\?[^:]|\\[bBAZ1-9]|\\[pP]|[*+?}][+?]")


def reference_kind(node: Mapping[str, Any]) -> str | None:
    """The kind of artifact whose id a string schema asks for: "image", …, "any", or None for other strings.

    >>> reference_kind({"type": "string", "pattern": "^img_[a-z0-9]{6}$"})
    'image'
    """
    if node.get("format") == "artifact":
        return "any"
    match = _REFERENCE.fullmatch(node["pattern"]) if isinstance(node.get("pattern"), str) else None
    return KINDS[match.group(1)] if match else None


def known_ids(ids: Mapping[str, Sequence[str]], kind: str) -> list[str]:
    """The ids of one kind, or of all kinds for "any", without repeats."""
    every = [item for name, items in ids.items() if kind in ("any", name) for item in items]
    return list(dict.fromkeys(every))


class _Impossible(Exception):
    """No value fits here in this run."""

    def __init__(self, at: str, reason: str) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason


@dataclass(slots=True)
class _Lowering:
    root: dict[str, Any]
    support: Support
    ids: Mapping[str, Sequence[str]]
    unchecked: list[str] = field(default_factory=list)
    defs: dict[str, Any] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    named: int = 0

    def node(self, schema: Any, at: str) -> dict[str, Any]:
        """The lowered form of one schema.

        Raises:
            _Impossible: nothing can satisfy it in this run.
        """
        if schema is True:
            return {}
        if schema is False:
            raise _Impossible(at, "the schema false accepts nothing")
        schema = self._merged(schema, at)
        if "$ref" in schema:
            self._later(schema, at, {"$ref"})
            return {"$ref": self._reference(schema["$ref"], at)}
        kind = reference_kind(schema)
        if kind is not None and self.ids:
            return self._artifact(kind, schema, at)
        if "const" in schema or "enum" in schema:
            return self._listed(schema, at)
        for key in ("anyOf", "oneOf"):
            if key in schema and not any(name in schema for names in _BY_TYPE.values() for name in names):
                return self._choice(schema, key, at)
        return self._typed(schema, at)

    def _later(self, schema: Mapping[str, Any], at: str, used: set[str]) -> None:
        for key in schema:
            if key not in used and key not in _ANNOTATIONS and key in ASSERTIONS:
                self.unchecked.append(at + pointer(key))

    def _reference(self, ref: str, at: str) -> str:
        target = resolve(self.root, ref)
        if target is False:
            raise _Impossible(at, "the schema false accepts nothing")
        name = self.names.get(id(target))
        if name is None:
            self.named += 1
            name = self.names[id(target)] = f"d{self.named}"
            try:
                self.defs[name] = self.node(target, ref.partition("#")[2])
            except _Impossible:
                del self.names[id(target)]
                raise
        return f"#/$defs/{name}"

    def _artifact(self, kind: str, schema: Mapping[str, Any], at: str) -> dict[str, Any]:
        ids = known_ids(self.ids, kind)
        if not ids:
            raise _Impossible(at, f"this run has no {'artifact' if kind == 'any' else kind} to name")
        self._later(schema, at, {"type", "pattern", "format"})
        return {"enum": ids}

    def _listed(self, schema: Mapping[str, Any], at: str) -> dict[str, Any]:
        self._later(schema, at, {"type", "const", "enum"})
        values = [schema["const"]] if "const" in schema else schema["enum"]
        types = _types(schema)
        fitting = [value for value in values if not types or any(_is(value, name) for name in types)]
        if not fitting:
            raise _Impossible(at, "no listed value has the asked type")
        return {"enum": fitting}

    def _choice(self, schema: Mapping[str, Any], key: str, at: str) -> dict[str, Any]:
        self._later(schema, at, {key, "type"} if key == "anyOf" else {"type"})
        branches = []
        reason = "no branch can be met"
        for index, branch in enumerate(schema[key]):
            try:
                branches.append(self.node(branch, f"{at}/{key}/{index}"))
            except _Impossible as impossible:
                reason = impossible.reason
        if not branches:
            raise _Impossible(at, reason)
        return branches[0] if len(branches) == 1 else {"anyOf": branches}

    def _typed(self, schema: Mapping[str, Any], at: str) -> dict[str, Any]:
        types = _types(schema) or [
            name for name, keys in _BY_TYPE.items() if name != "integer" and _any_in(schema, keys)
        ]
        types = [name for name in types if not (name == "integer" and "number" in types)]
        self._later(schema, at, {"type", *(key for keys in _BY_TYPE.values() for key in keys)})
        if not types:
            return {}
        branches = [self._of_type(name, schema, at) for name in dict.fromkeys(types)]
        return branches[0] if len(branches) == 1 else {"anyOf": branches}

    def _of_type(self, name: str, schema: Mapping[str, Any], at: str) -> dict[str, Any]:
        if name == "object":
            return self._object(schema, at)
        if name == "array":
            return self._array(schema, at)
        if name == "string":
            return {"type": "string", **self._string(schema, at)}
        lowered: dict[str, Any] = {"type": name}
        for key in _BY_TYPE.get(name, ()):
            if key in schema:
                if name in self.support.number_bounds:
                    lowered[key] = schema[key]
                else:
                    self.unchecked.append(at + pointer(key))
        return lowered

    def _object(self, schema: Mapping[str, Any], at: str) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        required = list(schema.get("required", ()))
        for key, item in schema.get("properties", {}).items():
            try:
                properties[key] = self.node(item, at + pointer("properties", key))
            except _Impossible:
                if key in required:
                    raise
        others = schema.get("additionalProperties")
        patterns = schema.get("patternProperties")
        lowered: dict[str, Any] = {"type": "object"}
        if patterns:
            self.unchecked.append(at + "/patternProperties")
            others = others if isinstance(others, dict) else {"anyOf": [*patterns.values()]}
        if properties:
            lowered["properties"] = properties
        for key in required:
            if key not in properties:  # required, but described by nothing
                properties[key] = self.node(others if isinstance(others, dict) else {}, at + pointer("properties", key))
                lowered["properties"] = properties
        if required:
            lowered["required"] = required
        if isinstance(others, dict) and others:
            lowered["additionalProperties"] = self.node(others, at + "/additionalProperties")
        elif properties or others is False:
            # Fields that nobody asked for are no answer, so the grammar never offers them.
            lowered["additionalProperties"] = False
            lowered.setdefault("properties", {})
        return lowered

    def _array(self, schema: Mapping[str, Any], at: str) -> dict[str, Any]:
        lowered: dict[str, Any] = {"type": "array"}
        first, rest = schema.get("prefixItems"), schema.get("items")
        if isinstance(rest, list):  # draft-07's way to write prefixItems
            first, rest = rest, schema.get("additionalItems")
        if first and "prefixItems" in self.support.keywords:
            lowered["prefixItems"] = [self.node(item, at + pointer("prefixItems", i)) for i, item in enumerate(first)]
            # A tuple is meant to be whole; a longer one is described by nothing.
            lowered["minItems"] = len(first)
            if not isinstance(rest, dict):
                lowered["maxItems"] = len(first)
        elif first:
            self.unchecked.append(at + "/prefixItems")
        elif rest is False:
            lowered["maxItems"] = 0
        if isinstance(rest, dict) and (not first or "prefixItems" in lowered):
            try:
                lowered["items"] = self.node(rest, at + "/items")
            except _Impossible:
                if schema.get("minItems", 0) > len(first or ()):
                    raise
                lowered["maxItems"] = len(first or ())
        for key in ("minItems", "maxItems"):
            if key in schema and key in self.support.keywords:
                narrower = max if key == "minItems" else min
                lowered[key] = narrower(schema[key], lowered.get(key, schema[key])) if key in lowered else schema[key]
            elif key in schema:
                self.unchecked.append(at + pointer(key))
        if lowered.get("minItems", 0) > lowered.get("maxItems", lowered.get("minItems", 0)):
            lowered["minItems"] = lowered["maxItems"]
        return lowered

    def _string(self, schema: Mapping[str, Any], at: str) -> dict[str, Any]:
        lowered: dict[str, Any] = {}
        pattern, format_ = schema.get("pattern"), schema.get("format")
        meant = _DATES.get(pattern.removeprefix("^").removesuffix("$")) if isinstance(pattern, str) else None
        if self.support.pattern and pattern is not None and not _HARD_PATTERN.search(pattern):
            lowered["pattern"] = pattern
        elif meant in self.support.formats and format_ is None:
            lowered["format"] = meant
        elif pattern is not None:
            self.unchecked.append(at + "/pattern")
        if format_ in self.support.formats and "pattern" not in lowered:
            lowered["format"] = format_
        elif format_ is not None:
            self.unchecked.append(at + "/format")
        for key in ("minLength", "maxLength"):
            if key in schema and key in self.support.keywords and not lowered.keys() & {"pattern", "format"}:
                lowered[key] = schema[key]
            elif key in schema:
                self.unchecked.append(at + pointer(key))
        if lowered.get("minLength") == 0:
            del lowered["minLength"]
        return dict(sorted(lowered.items()))

    def _merged(self, schema: dict[str, Any], at: str) -> dict[str, Any]:
        """The schema with its `allOf` parts folded in; what two parts say differently is left to the check."""
        parts = schema.get("allOf")
        if not parts:
            return schema
        merged = {key: value for key, value in schema.items() if key not in ("allOf", *_ANNOTATIONS)}
        for index, part in enumerate(parts):
            where = f"{at}/allOf/{index}"
            while isinstance(part, dict) and part.keys() - _ANNOTATIONS == {"$ref"}:
                if len(parts) == 1 and not merged:
                    return {"$ref": part["$ref"]}
                part = resolve(self.root, part["$ref"])
            if part is False:
                raise _Impossible(where, "the schema false accepts nothing")
            part = self._merged(part, where) if isinstance(part, dict) else {}
            for key, value in part.items():
                if key in _ANNOTATIONS:
                    continue
                if key not in merged:
                    merged[key] = value
                elif key == "properties":
                    merged[key] = {**value, **merged[key]}
                    if any(value[name] != merged[key][name] for name in value):
                        self.unchecked.append(where + "/properties")
                elif key == "required":
                    merged[key] = list(dict.fromkeys([*merged[key], *value]))
                elif merged[key] != value:
                    self.unchecked.append(where + pointer(key))
        return merged


def _any_in(schema: Mapping[str, Any], keys: Sequence[str]) -> bool:
    return any(key in schema for key in keys)


def _types(schema: Mapping[str, Any]) -> list[str]:
    types = schema.get("type")
    return [types] if isinstance(types, str) else list(types or ())


def _is(value: Any, name: str) -> bool:
    if name == "null":
        return value is None
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    python: dict[str, type | tuple[type, ...]] = {
        "string": str,
        "number": (int, float),
        "array": list,
        "object": dict,
        "boolean": bool,
    }
    return isinstance(value, python[name])


def lower(
    schema: dict[str, Any], dialect: Dialect, ids: Mapping[str, Sequence[str]]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """`(grammar, unchecked)` of a schema that `refuse` let through.

    Raises:
        SchemaError: a required field asks for the id of an artifact of a kind this run does not have.

    >>> lower({"type": "object", "properties": {"n": {"type": "integer", "multipleOf": 5}}}, "llguidance", {})[1]
    ('/properties/n/multipleOf',)
    """
    lowering = _Lowering(schema, SUPPORT[dialect], ids)
    try:
        grammar = lowering.node(schema, "")
    except _Impossible as impossible:
        raise SchemaError(
            f"the schema cannot be met: {impossible.reason}",
            param=impossible.at,
            fix="Attach or make such an artifact, or make the field optional or nullable.",
        ) from impossible
    if lowering.defs:
        grammar = {**grammar, "$defs": lowering.defs}
    return grammar or {"anyOf": [{"type": "object"}, {"type": "array"}]}, tuple(dict.fromkeys(lowering.unchecked))
