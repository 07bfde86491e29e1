"""Reads a JSON schema strictly: what cannot be met, checked or constrained is refused before any model call."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from orion.errors import SchemaError

MAX_BYTES = 100_000
"""Size of a schema as JSON."""
MAX_DEPTH = 64
"""Schemas inside one another."""
_MAX_JSON_DEPTH = 3 * MAX_DEPTH


def words(text: str) -> tuple[str, ...]:
    """Keywords, written as one text."""
    return tuple(text.split())


SINGLE = words(
    "additionalProperties items contains propertyNames not if then else unevaluatedItems unevaluatedProperties"
    " additionalItems contentSchema"
)
LISTED = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
ASSERTIONS = frozenset(
    words(
        "type enum const $ref properties required additionalProperties patternProperties propertyNames minProperties"
        " maxProperties dependentRequired dependentSchemas dependencies unevaluatedProperties items prefixItems"
        " minItems maxItems uniqueItems contains minContains maxContains unevaluatedItems minLength maxLength pattern"
        " format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf allOf anyOf oneOf not if then else"
    )
)
"""Keywords that say something about a value."""
_BOUNDS = (
    ("minimum", "maximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
    ("minContains", "maxContains"),
)
_ECMA_ONLY = re.compile(r"\\[pP]\{|\(\?<[A-Za-z]|\\u\{|\\c[A-Za-z]")


def pointer(*steps: object) -> str:
    """A JSON pointer.

    >>> pointer("properties", "a/b")
    '/properties/a~1b'
    """
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def subschemas(node: dict[str, Any]) -> Iterator[tuple[tuple[object, ...], Any]]:
    """`(steps, schema)` of the schemas directly inside `node`."""
    for key in SINGLE:
        if isinstance(node.get(key), dict | bool):
            yield (key,), node[key]
    for key in LISTED:
        if isinstance(node.get(key), list):
            for index, item in enumerate(node[key]):
                yield (key, index), item
    for key in NAMED:
        if isinstance(node.get(key), dict):
            for name, item in node[key].items():
                if isinstance(item, dict | bool):
                    yield (key, name), item


def walk(root: Any) -> Iterator[tuple[str, dict[str, Any], int]]:
    """`(pointer, node, depth)` of every object schema in `root`, outer ones first."""
    waiting: list[tuple[str, Any, int]] = [("", root, 0)]
    while waiting:
        at, node, depth = waiting.pop()
        if isinstance(node, dict):
            yield at, node, depth
            inner = [(at + pointer(*steps), item, depth + 1) for steps, item in subschemas(node)]
            waiting.extend(reversed(inner))


def resolve(root: dict[str, Any], ref: str) -> Any:
    """The schema a local `$ref` names: `#`, `#/a/pointer` or `#anchor`.

    Raises:
        KeyError: it names nothing.
    """
    own = root.get("$id")
    fragment = ref[len(own) :] if isinstance(own, str) and own and ref.startswith(own) else ref
    fragment = unquote(fragment.removeprefix("#"))
    if not fragment:
        return root
    if not fragment.startswith("/"):
        for _at, node, _depth in walk(root):
            if node.get("$anchor") == fragment or node.get("$id") == "#" + fragment:
                return node
        raise KeyError(ref)
    target: Any = root
    for step in fragment[1:].split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and step.isdecimal() and int(step) < len(target):
            target = target[int(step)]
        elif isinstance(target, dict) and step in target:
            target = target[step]
        else:
            raise KeyError(ref)
    if not isinstance(target, dict | bool):
        raise KeyError(ref)
    return target


def refuse(schema: Any) -> None:
    """Raises for a schema that is wrong, unsupported or impossible.

    Raises:
        SchemaError: `param` is the JSON pointer of the fault, `fix` says what to write instead.

    >>> refuse({"type": "object", "properties": {"total": {"$ref": "#/$defs/money"}}})
    Traceback (most recent call last):
    orion.errors.SchemaError: the $ref '#/$defs/money' names nothing (/properties/total/$ref). Define it in $defs.
    """
    if isinstance(schema, bool) or (isinstance(schema, dict) and not ASSERTIONS & schema.keys()):
        what = "accepts nothing" if schema is False else "says nothing about the answer"
        raise SchemaError(
            f"the schema {what}", param="", fix="Describe the answer, for example with type and properties."
        )
    if not isinstance(schema, dict):
        raise SchemaError(
            f"a schema is a JSON object, not {type(schema).__name__}",
            param="",
            fix='Pass a dict such as {"type": "object"}.',
        )
    _plain_json(schema)
    for at, node, depth in walk(schema):
        if depth > MAX_DEPTH:
            raise SchemaError(
                f"schemas are nested more than {MAX_DEPTH} deep", param=at, fix="Use $ref, or flatten it."
            )
        _types(node, at)
        _patterns(node, at)
    _against_meta_schema(schema)
    for at, node, _depth in walk(schema):
        _reference(schema, node, at)
        _contradictions(node, at)
    for at, node, _depth in walk(schema):
        _loops(schema, node, at)
    if endless(schema, schema, {}, ()):
        raise SchemaError(
            "the schema requires itself without end", param="", fix="Make the recursive field optional or nullable."
        )


def _plain_json(schema: dict[str, Any]) -> None:
    waiting: list[tuple[str, Any, int]] = [("", schema, 0)]
    while waiting:
        at, value, depth = waiting.pop()
        if depth > _MAX_JSON_DEPTH:
            raise SchemaError("the schema is nested too deep", param=at[:200], fix=f"Stay within {MAX_DEPTH} levels.")
        if isinstance(value, dict):
            for key, item in value.items():
                if not isinstance(key, str):
                    raise SchemaError(f"the key {key!r} is not a string", param=at, fix="JSON keys are strings.")
                waiting.append((at + pointer(key), item, depth + 1))
        elif isinstance(value, list):
            waiting.extend((at + pointer(index), item, depth + 1) for index, item in enumerate(value))
        elif (
            not (value is None or isinstance(value, str | int | float))
            or value != value
            or value in (_INFINITE, -_INFINITE)
        ):
            raise SchemaError(f"{value!r} is not a JSON value", param=at, fix="Use plain JSON values only.")
    size = len(json.dumps(schema, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise SchemaError(f"the schema has {size} bytes", param="", fix=f"Stay within {MAX_BYTES} bytes.")


_INFINITE = float("inf")
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


def _types(node: dict[str, Any], at: str) -> None:
    types = node.get("type")
    for name in types if isinstance(types, list) else [types] if types is not None else []:
        if name not in _TYPES:
            raise SchemaError(
                f"{name!r} is not a JSON type", param=at + "/type", fix=f"Use one of {', '.join(_TYPES)}."
            )


def _against_meta_schema(schema: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError as MetaSchemaError
    from jsonschema.validators import validator_for

    declared = schema.get("$schema")
    validator = validator_for(schema, default=Draft202012Validator) if _known_draft(declared) else None
    if validator is None:
        raise SchemaError(
            f"unknown JSON Schema version {declared!r}",
            param="/$schema",
            fix="Leave $schema out, or name draft 2020-12, 2019-09 or draft-07.",
        )
    try:
        validator.check_schema(schema)
    except MetaSchemaError as error:
        at = pointer(*error.absolute_path)
        raise SchemaError(
            f"not a valid schema: {error.message[:300]}", param=at, fix="Correct this keyword."
        ) from error
    except RecursionError as error:
        raise SchemaError("the schema is nested too deep", param="", fix="Use $ref, or flatten it.") from error


def _known_draft(declared: Any) -> bool:
    return declared is None or (
        isinstance(declared, str)
        and re.fullmatch(r"https?://json-schema\.org/(draft-0[4567]|draft/20(19-09|20-12))/schema#?", declared)
        is not None
    )


def _reference(root: dict[str, Any], node: dict[str, Any], at: str) -> None:
    for key in ("$dynamicRef", "$recursiveRef"):
        if key in node:
            raise SchemaError(f"{key} is not supported", param=f"{at}/{key}", fix="Use $ref with $defs.")
    if at and "$id" in node and not str(node["$id"]).startswith("#"):
        raise SchemaError(
            "$id inside a schema is not supported", param=at + "/$id", fix="Use $defs and #/$defs/… names."
        )
    ref = node.get("$ref")
    if ref is None:
        return
    own = root.get("$id")
    if not (
        isinstance(ref, str) and (ref.startswith("#") or (isinstance(own, str) and own and ref.startswith(own + "#")))
    ):
        raise SchemaError(
            f"the $ref {ref!r} is not local", param=at + "/$ref", fix="Copy that schema into $defs; nothing is fetched."
        )
    try:
        resolve(root, ref)
    except KeyError as error:
        raise SchemaError(f"the $ref {ref!r} names nothing", param=at + "/$ref", fix="Define it in $defs.") from error


def _patterns(node: dict[str, Any], at: str) -> None:
    named = node.get("patternProperties")
    patterns = [("/pattern", node.get("pattern"))]
    patterns += [("/patternProperties" + pointer(name), name) for name in (named if isinstance(named, dict) else ())]
    for where, pattern in patterns:
        if not isinstance(pattern, str):
            continue
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            ecma = _ECMA_ONLY.search(pattern)
            fix = (
                f"{ecma.group()!r} is ECMAScript only; patterns are checked with Python's re module."
                if ecma
                else "Correct the regular expression."
            )
            raise SchemaError(
                f"the pattern {pattern!r} does not compile: {error}", param=at + where, fix=fix
            ) from error


def _contradictions(node: dict[str, Any], at: str) -> None:
    if node.get("enum") == []:
        raise SchemaError("enum has no values", param=at + "/enum", fix="List at least one value.")
    for low, high in _BOUNDS:
        if _number(node.get(low)) and _number(node.get(high)) and node[low] > node[high]:
            raise SchemaError(
                f"{low} is above {high}", param=f"{at}/{low}", fix="No value can satisfy both; swap or drop one."
            )
    for low, high in (
        ("minimum", "exclusiveMaximum"),
        ("exclusiveMinimum", "maximum"),
        ("exclusiveMinimum", "exclusiveMaximum"),
    ):
        if _number(node.get(low)) and _number(node.get(high)) and node[low] >= node[high]:
            raise SchemaError(f"{low} leaves no value below {high}", param=f"{at}/{low}", fix="Widen the range.")
    if node.get("additionalProperties") is False and not node.get("patternProperties"):
        for name in node.get("required") or ():
            if name not in node.get("properties", {}):
                raise SchemaError(
                    f"{name!r} is required but not among the properties, and others are not allowed",
                    param=at + "/required",
                    fix="Add it to properties.",
                )


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _in_place(root: dict[str, Any], node: dict[str, Any]) -> Iterator[Any]:
    """The schemas that judge the same value as `node`."""
    if isinstance(node.get("$ref"), str):
        yield resolve(root, node["$ref"])
    for key in ("allOf", "anyOf", "oneOf"):
        yield from node.get(key, ())
    for key in ("not", "if", "then", "else"):
        if key in node:
            yield node[key]


def _loops(root: dict[str, Any], start: dict[str, Any], at: str) -> None:
    seen: set[int] = set()
    waiting = list(_in_place(root, start))
    while waiting:
        node = waiting.pop()
        if node is start:
            raise SchemaError("the $ref leads back to itself", param=at, fix="Put properties or items between the two.")
        if isinstance(node, dict) and id(node) not in seen:
            seen.add(id(node))
            waiting.extend(_in_place(root, node))


def endless(root: dict[str, Any], node: Any, known: dict[int, bool], path: tuple[int, ...]) -> bool:
    """True when every value of `node` would hold another one of itself."""
    if not isinstance(node, dict) or len(path) > 4 * MAX_DEPTH:
        return False
    if id(node) in path:
        return True
    if id(node) in known:
        return known[id(node)]
    path = (*path, id(node))
    musts: list[Any] = [*node.get("allOf", ())]
    if isinstance(node.get("$ref"), str):
        musts.append(resolve(root, node["$ref"]))
    properties = node.get("properties", {})
    if node.get("type") == "object":
        musts += [properties[name] for name in node.get("required") or () if name in properties]
    if node.get("type") == "array" and isinstance(node.get("minItems"), int) and node["minItems"] > 0:
        musts += [node["items"]] if isinstance(node.get("items"), dict) and not node.get("prefixItems") else []
    found = any(endless(root, must, known, path) for must in musts)
    for key in ("anyOf", "oneOf"):
        branches: Any = node.get(key)
        found = found or (bool(branches) and all(endless(root, branch, known, path) for branch in branches))
    known[id(node)] = found
    return found
