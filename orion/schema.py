"""The asked output schema: refused when wrong, lowered to a grammar, and the judge of every answer.

>>> asked = OutputSchema.prepare({"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]})
>>> asked.coerce({"total": "12.50"})
{'total': 12.5}
>>> asked.problems({"total": "twelve"})
["total: expected number, got 'twelve'"]
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from orion.errors import SchemaError
from orion.run import JSON
from orion.schema_coerce import Coercion
from orion.schema_grammar import known_ids, lower, reference_kind
from orion.schema_outline import outline
from orion.schema_patterns import matches
from orion.schema_refuse import ASSERTIONS, refuse, walk
from orion.wire import Dialect

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

MAX_PROBLEMS = 8
"""Problems told of one answer; a model corrects a few at a time."""
OUTLINE_CHARS = 1500
"""Characters of `OutputSchema.outline`."""
_SHOWN = 60


@dataclass(frozen=True)
class OutputSchema:
    """A schema that was accepted. Make it with `prepare`."""

    schema: dict[str, Any]
    """As the user gave it."""
    grammar: dict[str, Any]
    """What is sent to the server as `response_format`."""
    unchecked: tuple[str, ...]
    """JSON pointers of the keywords that the grammar leaves to `problems`."""
    ids: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Known artifact ids by kind; empty means that references are not checked."""

    @classmethod
    def prepare(
        cls, schema: Any, *, dialect: Dialect = "llguidance", ids: Mapping[str, Sequence[str]] | None = None
    ) -> OutputSchema:
        """Checks `schema` and lowers it for a server's grammar.

        A string whose `pattern` is that of an artifact id (`^img_\\w{6}$`), or whose `format` is "artifact", becomes
        an enum of the `ids` of that kind. Where `ids` has none of it, an optional field is not offered, a nullable one
        is null and a list is empty. Without `ids` (before a run) references are left alone.

        Raises:
            SchemaError: the schema is wrong, unsupported, impossible, or requires the id of a kind that `ids` lacks.
        """
        refuse(schema)
        known = {kind: tuple(items) for kind, items in (ids or {}).items()}
        grammar, unchecked = lower(schema, dialect, known)
        return cls(schema, grammar, unchecked, known)

    @cached_property
    def refers(self) -> bool:
        """Whether the schema has fields that take artifact ids: the grammar then depends on what a run has made."""
        return any(reference_kind(node) is not None for _at, node, _depth in walk(self.schema))

    @cached_property
    def _validator(self) -> Validator:
        from jsonschema import Draft202012Validator
        from jsonschema.validators import extend, validator_for

        from orion.schema_formats import checker

        base = validator_for(self.schema, default=Draft202012Validator)
        usual = base.VALIDATORS
        own = {
            "pattern": self._reference_check(_pattern),
            "format": self._reference_check(usual["format"]),
        }
        validator: Validator = extend(base, own)(self.schema, format_checker=checker())  # type: ignore[no-untyped-call]
        return validator

    def _reference_check(self, usual: Any) -> Any:
        keyword = "pattern" if usual is _pattern else "format"

        def check(validator: Any, wanted: Any, value: Any, node: Any) -> Iterator[ValidationError]:
            from jsonschema.exceptions import ValidationError

            kind = reference_kind({keyword: wanted}) if self.ids else None
            if kind is None or not isinstance(value, str):
                yield from usual(validator, wanted, value, node)
            elif value not in known_ids(self.ids, kind):
                known = ", ".join(known_ids(self.ids, kind)[:8]) or "none"
                yield ValidationError(
                    f"there is no {'artifact' if kind == 'any' else kind} {_shown(value)}; known: {known}"
                )

        return check

    def problems(self, value: JSON) -> list[str]:
        """What is wrong with an answer, at most `MAX_PROBLEMS` lines; empty when it is valid."""
        lines: list[str] = []
        try:
            for error in self._validator.iter_errors(value):
                for line in _explain(error):
                    if line not in lines:
                        lines.append(line)
                if len(lines) >= MAX_PROBLEMS:
                    break
        except RecursionError:
            return ["the answer is nested too deep"]
        return lines[:MAX_PROBLEMS]

    def coerce(self, value: JSON) -> JSON:
        """The answer with its types put right where that keeps its meaning; what cannot be is left as it is."""
        try:
            return Coercion(self.schema, self._validator).fixed(value, self.schema)
        except RecursionError:  # deeper than any answer; `problems` says so
            return value

    def outline(self, max_chars: int = OUTLINE_CHARS) -> str:
        """The fields in a few lines, for the prompt."""
        return outline(self.schema, max_chars)


def _pattern(_validator: Any, wanted: str, value: JSON, _node: Any) -> Iterator[ValidationError]:
    from jsonschema.exceptions import ValidationError

    if isinstance(value, str) and not matches(wanted, value):
        yield ValidationError(f"{_shown(value)} does not match {_shown(wanted)}")


def _shown(value: JSON) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _where(error: ValidationError) -> str:
    where = ""
    for step in error.absolute_path:
        where += f"[{step}]" if isinstance(step, int) else f".{step}" if where else str(step)
    return where or "the answer"


def _explain(error: ValidationError) -> list[str]:
    if error.validator in ("anyOf", "oneOf") and error.context:
        return _explain_branches(error)
    where = _where(error)
    value: Any = error.instance
    wanted: Any = error.validator_value
    match error.validator:
        case "type":
            names = " or ".join(wanted) if isinstance(wanted, list) else wanted
            said = f"expected {names}, got {_shown(value)}"
        case "required":
            said = "missing " + ", ".join(repr(name) for name in wanted if name not in value)
        case "additionalProperties" if wanted is False:
            known = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
            said = "unexpected field " + ", ".join(repr(name) for name in list(value) if name not in known)[:200]
        case "enum":
            said = f"expected one of {', '.join(map(repr, wanted))[:300]}, got {_shown(value)}"
        case "const":
            said = f"expected {_shown(wanted)}, got {_shown(value)}"
        case "pattern" if not error.message.startswith("there is no"):
            said = f"{_shown(value)} does not match the pattern {wanted}"
        case "format" if not error.message.startswith("there is no"):
            said = f"{_shown(value)} is not a valid {wanted}"
        case _:
            said = error.message if len(error.message) <= 200 else f"breaks {error.validator} {_shown(wanted)}"
    return [f"{where}: {said}"]


def _explain_branches(error: ValidationError) -> list[str]:
    """The complaints of the branch that the value came closest to; a lost cause gets one line."""
    branches: dict[Any, list[ValidationError]] = {}
    for inner in error.context or ():
        # The branch `false` gives an error that has no path.
        branch = inner.relative_schema_path[0] if inner.relative_schema_path else False
        branches.setdefault(branch, []).append(inner)
    depth = len(error.absolute_path)
    meant = [
        inner
        for inner in branches.values()
        if not any(one.validator in ("type", "const", "enum") and len(one.absolute_path) == depth for one in inner)
    ]
    if len(meant) == 1:
        return [line for inner in meant[0] for line in _explain(inner)][:MAX_PROBLEMS]
    types: list[Any] = [
        one.validator_value
        for inner in branches.values()
        for one in inner
        if one.validator == "type" and len(one.absolute_path) == depth
    ]
    if not meant and types and all(isinstance(name, str) for name in types):
        return [f"{_where(error)}: expected {' or '.join(dict.fromkeys(types))}, got {_shown(error.instance)}"]
    return [f"{_where(error)}: {_shown(error.instance)} fits none of the {len(branches)} allowed forms"]


@dataclass(frozen=True)
class ResponseFormat:
    """A `response_format` in any spelling, read. `schema` is None for plain text."""

    schema: dict[str, Any] | None
    adapter: Any = None
    """The pydantic TypeAdapter when a Python type was given."""

    def load(self, value: JSON) -> Any:
        """The answer as the asked Python type; without one, the value itself.

        Raises:
            SchemaError: a validator of the type refuses a value that its JSON schema allows.
        """
        if self.adapter is None:
            return value
        from pydantic import ValidationError

        try:
            return self.adapter.validate_json(json.dumps(value, ensure_ascii=False))
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(str(step) for step in first["loc"]) or "the answer"
            raise SchemaError(
                f"{where}: {first['msg']}", param=where, fix="Ask again, or loosen the validator."
            ) from error
        except Exception as error:  # pydantic passes on whatever else the caller's own validator raises
            said = f"{type(error).__name__}: {error}"
            raise SchemaError(
                f"a validator of the asked type failed with {said}", fix="Let it raise ValueError for a wrong value."
            ) from error


def from_response_format(asked: Any) -> ResponseFormat:
    """Reads a pydantic model class or any annotated type, a JSON schema, or OpenAI's `response_format` spellings.

    Raises:
        SchemaError: it is none of these, or the type has no JSON schema.

    >>> from_response_format({"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "string"}}}).schema
    {'type': 'string'}
    >>> from_response_format(list[int]).schema
    {'items': {'type': 'integer'}, 'type': 'array'}
    >>> from_response_format({"type": "text"}).schema is None
    True
    """
    if asked is None or asked == "text":
        return ResponseFormat(None)
    if not isinstance(asked, Mapping):
        return _from_type(asked)
    kind = asked.get("type")
    if kind == "text":
        return ResponseFormat(None)
    if kind == "json_object":
        return ResponseFormat({"type": "object"})
    if kind == "json_schema":
        inner = asked.get("json_schema", asked)
        if isinstance(inner, Mapping) and isinstance(inner.get("schema"), Mapping):
            return ResponseFormat(dict(inner["schema"]))
        if isinstance(inner, Mapping) and inner is not asked and ASSERTIONS & inner.keys():
            return ResponseFormat({key: value for key, value in inner.items() if key not in ("name", "strict")})
        raise SchemaError(
            "response_format has no schema",
            param="/json_schema/schema",
            fix='Put it under "json_schema": {"schema": …}.',
        )
    if isinstance(kind, str) and kind in ("structural_tag", "grammar", "regex"):
        raise SchemaError(f"response_format {kind!r} is not supported", param="/type", fix="Use json_schema.")
    return ResponseFormat(dict(asked))


def _from_type(asked: Any) -> ResponseFormat:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

    # A function has a schema too, of its arguments; pydantic would then call it with the model's answer.
    if isinstance(asked, str | bytes | bool | int | float | list | FunctionType | MethodType | BuiltinFunctionType):
        raise SchemaError(
            f"{_shown(asked)} is not a response format", param="", fix="Pass a pydantic model class or a JSON schema."
        )
    try:
        adapter = TypeAdapter(asked)
        return ResponseFormat(adapter.json_schema(), adapter)
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
        raise SchemaError(
            f"{_shown(asked)} has no JSON schema: {str(error).splitlines()[0]}",
            param="",
            fix="Pass a pydantic model class or a JSON schema.",
        ) from error
