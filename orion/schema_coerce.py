"""Fixes an answer's types without touching its meaning: "12.50" for a number, one object for a list of objects."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from orion.run import JSON
from orion.schema_refuse import resolve

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

MAX_VISITS = 20_000
"""Value–schema pairs looked at; past that the rest of the answer stays as it is."""
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,300})(?:\.\d{1,300})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_WORDS = {"true": True, "false": False}


class Coercion:
    """One pass over one answer."""

    def __init__(self, root: dict[str, Any], validator: Validator) -> None:
        self.root = root
        self.validator = validator
        self.visits = 0

    def fixed(self, value: JSON, schema: Any) -> JSON:
        """`value` as `schema` wants it where that loses nothing, else unchanged."""
        self.visits += 1
        if not isinstance(schema, dict) or self.visits > MAX_VISITS:
            return value
        types = _types(schema)
        if isinstance(value, float) and value.is_integer() and "integer" in types and "number" not in types:
            return int(value)
        if self._valid(value, schema):
            return self._inside(value, schema)
        if "$ref" in schema:
            value = self.fixed(value, resolve(self.root, schema["$ref"]))
        for part in schema.get("allOf", ()):
            value = self.fixed(value, part)
        for branch in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
            tried = self.fixed(value, branch)
            if self._valid(tried, schema):
                return tried
        value = self._typed(value, schema, types)
        return self._inside(value, schema)

    def _valid(self, value: JSON, schema: dict[str, Any]) -> bool:
        return bool(self.validator.evolve(schema=schema).is_valid(value))

    def _typed(self, value: JSON, schema: dict[str, Any], types: list[str]) -> JSON:
        if isinstance(value, str):
            value = self._from_text(value, schema, types)
        elif isinstance(value, int) and not isinstance(value, bool) and types == ["string"]:
            value = str(value)
        if "array" in types and isinstance(value, dict) and "object" not in types:
            value = [value]
        return value

    def _from_text(self, text: str, schema: dict[str, Any], types: list[str]) -> JSON:
        plain = text.strip()
        options = [option for option in schema.get("enum", ()) if isinstance(option, str)]
        same = [option for option in options if option.strip().casefold() == plain.casefold()]
        if text not in options and len(same) == 1:
            return same[0]
        if "string" in types or not types:
            return text
        tried: JSON = text
        if {"number", "integer"} & set(types) and _NUMBER.fullmatch(plain):
            number = json.loads(plain)
            if isinstance(number, float) and not math.isfinite(number):  # beyond a float: no JSON can hold it
                return text
            whole = isinstance(number, float) and number.is_integer() and "number" not in types
            tried = int(number) if whole else number
        elif "boolean" in types and plain.casefold() in _WORDS:
            tried = _WORDS[plain.casefold()]
        elif "null" in types and plain.casefold() in ("null", "none", ""):
            tried = None
        elif plain[:1] in ("[", "{"):
            try:
                tried = json.loads(plain)
            except (ValueError, RecursionError):
                return text
        if isinstance(tried, list | dict):
            return tried if ("array" if isinstance(tried, list) else "object") in types else text
        return tried if self._valid(tried, schema) else text

    def _inside(self, value: JSON, schema: dict[str, Any]) -> JSON:
        if isinstance(value, dict) and isinstance(schema.get("properties"), dict):
            return self._members(value, schema)
        if isinstance(value, list):
            first = schema.get("prefixItems", [])
            rest = schema.get("items")
            if isinstance(rest, list):
                first, rest = rest, schema.get("additionalItems")
            return [self.fixed(item, first[i] if i < len(first) else rest) for i, item in enumerate(value)]
        return value

    def _members(self, value: dict[str, JSON], schema: dict[str, Any]) -> dict[str, JSON]:
        properties, required = schema["properties"], schema.get("required", ())
        members: dict[str, JSON] = {}
        for name, item in value.items():
            member = self.fixed(item, properties.get(name))
            # null for an optional field that takes no null says the same as leaving it out.
            absent = member is None and name in properties and name not in required
            if not (absent and not self._accepts_null(properties[name])):
                members[name] = member
        for name in required:
            if name not in members and name in properties and self._accepts_null(properties[name]):
                members[name] = None
        return members

    def _accepts_null(self, schema: Any) -> bool:
        return schema is True or (isinstance(schema, dict) and bool(schema) and self._valid(None, schema))


def _types(schema: dict[str, Any]) -> list[str]:
    types = schema.get("type")
    return [types] if isinstance(types, str) else list(types or ())
