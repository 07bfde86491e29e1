"""A call's arguments checked against a tool's: wrong ones are told to the model, near ones are put right."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from orion.errors import ToolRetry
from orion.parameters import Param, type_words
from orion.run import JSON


def bind(
    tool_name: str,
    params: Sequence[Param],
    arguments: Mapping[str, JSON],
    ids: Mapping[str, str],
    names: Mapping[str, str],
) -> dict[str, JSON]:
    """The arguments as JSON values and existing ids. See `orion.tools.Tool.bind`. Raises `ToolRetry`."""
    known = {param.name: param for param in params}
    for name in arguments:
        if name not in known:
            takes = ", ".join(known) or "no arguments"
            raise ToolRetry(f"{tool_name} has no argument {name!r}; it takes {takes}")
    bound: dict[str, JSON] = {}
    for param in known.values():
        value = arguments.get(param.name)
        if param.ref:
            value = _resolve(tool_name, param, value, ids, names)
            if value is not None:
                bound[param.name] = value
        elif value is not None and not (value == "" and not param.required):
            bound[param.name] = _coerce(tool_name, param, value)
        elif param.required:
            raise ToolRetry(f"{tool_name}: {param.name} is missing; expected {type_words(param.annotation)}")
    return bound


def _resolve(
    tool_name: str, param: Param, value: JSON, ids: Mapping[str, str], names: Mapping[str, str]
) -> str | list[str] | None:
    """An argument that names artifacts → existing ids. One candidate is the obvious default."""
    candidates = param.candidates(ids)
    if value in (None, "", []):
        if not param.required:
            return None
        if len(candidates) == 1:
            return [candidates[0]] if param.many else candidates[0]
        raise ToolRetry(f"{tool_name}: {param.name} is missing; {_known(candidates)}")
    values = value if isinstance(value, list) else [value]
    if len(values) > 1 and not param.many:
        raise ToolRetry(f"{tool_name}: {param.name} takes one id, got {len(values)}")
    found = []
    for item in values:
        text = str(item).strip().strip("<>[]\"'`")
        id_ = text if text in ids else names.get(text)
        if id_ is None or id_ not in candidates:
            kind = ids.get(id_) if id_ else None
            why = f"{text} is a {kind}" if kind else f"there is no {text!r}"
            raise ToolRetry(f"{tool_name}: {param.name}: {why}; {_known(candidates)}")
        found.append(id_)
    return found if param.many else found[0]


def _known(candidates: Sequence[str]) -> str:
    return f"known: {', '.join(candidates[-12:])}" if candidates else "there is none to use"


def _coerce(tool_name: str, param: Param, value: JSON) -> JSON:
    adapter = param.adapter()
    tries = [value]
    if isinstance(value, str):
        number = re.fullmatch(r"\s*([-+]?\d+(?:\.\d+)?)\s*(?:px|deg|°|dpi|s)?\s*", value)
        if number:
            tries.append(number.group(1))
    if not isinstance(value, list):
        tries.append([value])
    problem = ""
    for candidate in tries:
        try:
            return adapter.dump_python(adapter.validate_python(candidate), mode="json")
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            problem = problem or f"{where + ': ' if where else ''}{first['msg']}"
    raise ToolRetry(f"{tool_name}: {param.name}: {problem}, got {_short(value)}")


def _short(value: JSON) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
