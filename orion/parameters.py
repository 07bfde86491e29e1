"""The arguments of a tool's function: what each takes, its JSON schema, its words for the model."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import PydanticUserError, TypeAdapter

from orion.errors import UserError
from orion.run import JSON

if TYPE_CHECKING:
    from orion.artifacts import ArtifactStore
    from orion.run import Run


@dataclass(frozen=True, slots=True)
class Ref:
    """Marks a parameter that takes the id of an artifact; `kind` is an artifact kind, or "any"."""

    kind: str


Document = Annotated[Path, Ref("document")]
Video = Annotated[Path, Ref("video")]
Audio = Annotated[Path, Ref("audio")]
AnyFile = Annotated[Path, Ref("any")]
ImageFile = Annotated[Path, Ref("image")]
"""The image's file as it came in, with every page or frame; `PIL.Image.Image` gives the first, decoded and upright."""


@dataclass(slots=True)
class ToolContext:
    """What a host tool may ask of the run it works for. `model` is an `orion.model.Model`."""

    model: Any
    store: ArtifactStore
    run: Run


@dataclass(frozen=True, slots=True)
class Param:
    """One argument of a tool."""

    name: str
    annotation: Any
    ref: Ref | None
    many: bool
    """True for a list of references."""
    required: bool
    default: Any
    doc: str
    takes: Literal["value", "path", "image", "artifact"] = "value"
    """What the function receives for a reference: a path, an opened image, or the artifact's record."""

    def adapter(self) -> TypeAdapter[Any]:
        """Checks and converts values of this argument."""
        return _adapter(self.annotation)

    def schema(self, ids: Mapping[str, str] | None) -> dict[str, JSON]:
        """JSON schema of this argument; with `ids` (id → kind) references are limited to those that exist."""
        if self.ref is None:
            try:
                return _value_schema(self.annotation)
            except (PydanticUserError, RecursionError) as error:
                why = "it refers to itself" if isinstance(error, RecursionError) else str(error).split("\n", 1)[0]
                raise UserError(f"the type of {self.name!r} is none a tool can take: {why}", param=self.name) from error
        one: dict[str, JSON] = {"type": "string"}
        if ids is not None:
            one["enum"] = self.candidates(ids)
        return {"type": "array", "items": one, "minItems": 1} if self.many else one

    def candidates(self, ids: Mapping[str, str]) -> list[str]:
        """The known ids this argument could take, in the order they came up."""
        assert self.ref is not None
        return [id_ for id_, kind in ids.items() if self.ref.kind in ("any", kind)]


def params_of(function: Callable[..., Any]) -> tuple[tuple[Param, ...], str | None]:
    """The arguments of a function in order, and the name of the one that takes a `ToolContext`. Raises `UserError`."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise UserError(f"the types of the tool {function.__qualname__} cannot be read: {error}") from error
    docs = _argument_docs(inspect.getdoc(function) or "")
    params: list[Param] = []
    context: str | None = None
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            how = "without a name" if parameter.kind is parameter.POSITIONAL_ONLY else "as *"
            raise UserError(f"the tool {function.__qualname__} takes {name} {how}", fix="Name each argument of a tool.")
        if name not in hints:
            raise UserError(f"the tool {function.__qualname__} has no type for {name!r}", fix="Annotate it.")
        annotation = hints[name]
        if annotation is ToolContext:
            context = name
            continue
        ref, many = _reference(annotation)
        takes = _takes(annotation) if ref else "value"
        required = parameter.default is parameter.empty
        default = None if required else parameter.default
        params.append(Param(name, annotation, ref, many, required, default, docs.get(name, ""), takes))
    return tuple(params), context


def _reference(annotation: Any) -> tuple[Ref | None, bool]:
    """The reference marker inside an annotation, looking through `X | None` and `list[X]`."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        for extra in typing.get_args(annotation)[1:]:
            if isinstance(extra, Ref):
                return extra, False
        return None, False
    if origin in (Union, UnionType):
        found = [_reference(arm) for arm in typing.get_args(annotation) if arm is not NoneType]
        return found[0] if len(found) == 1 else (None, False)
    if origin is list:
        ref, _many = _reference(typing.get_args(annotation)[0])
        return ref, ref is not None
    if isinstance(annotation, type):
        # Compared by name: importing Pillow only to declare a tool would cost every start 30 ms.
        if annotation.__name__ == "Image" and annotation.__module__ == "PIL.Image":
            return Ref("image"), False
        if annotation.__name__ == "Artifact" and annotation.__module__ == "orion.artifacts":
            return Ref("any"), False
    return None, False


def _takes(annotation: Any) -> Literal["path", "image", "artifact"]:
    names = {getattr(arm, "__name__", "") for arm in (annotation, *typing.get_args(annotation))}
    return "image" if "Image" in names else "artifact" if "Artifact" in names else "path"


def _value_schema(annotation: Any) -> dict[str, JSON]:
    """The JSON schema of a value. Asked for in every step and never changed, so it is made once."""
    try:
        return _value_schema_of(annotation)
    except TypeError:  # an annotation that cannot be hashed
        return _inline(_adapter(annotation).json_schema())


@functools.cache
def _value_schema_of(key: Any) -> dict[str, JSON]:
    return _inline(_adapter(key).json_schema())


@functools.cache
def _adapter_of(key: Any) -> TypeAdapter[Any]:
    return TypeAdapter(key)


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        return _adapter_of(annotation)
    except TypeError:  # an annotation that cannot be hashed, e.g. Literal of a list
        return TypeAdapter(annotation)


def _argument_docs(doc: str) -> dict[str, str]:
    """The `Args:` lines of a docstring, by argument name."""
    section = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)*)", doc, re.MULTILINE)
    if not section:
        return {}
    found: dict[str, str] = {}
    name = ""
    for raw in section.group(1).splitlines():
        start = re.match(r"\s{2,4}(\w+)(?: \([^)]*\))?: (.*)", raw)
        if start:
            name = start.group(1)
            found[name] = start.group(2).strip()
        elif name and raw.strip():
            found[name] += " " + raw.strip()
    return found


def _inline(schema: dict[str, JSON]) -> dict[str, JSON]:
    """Replace `#/$defs/...` by what they point to and drop titles: a tool schema is sent often and must be short."""
    defs = schema.pop("$defs", {})

    def walk(node: JSON) -> JSON:
        if isinstance(node, list):
            return [walk(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return walk(defs[node["$ref"].rsplit("/", 1)[1]])
        kept: dict[str, JSON] = {}
        for key, item in node.items():
            if key == "properties":  # what is in here are names, which may well be "title"
                kept[key] = {name: walk(field) for name, field in item.items()}
            elif key in ("enum", "const", "default"):
                kept[key] = item
            elif key not in ("title", "description"):
                kept[key] = walk(item)
        return kept

    walked: dict[str, JSON] = walk(schema)
    return walked


_WORDS = {int: "integer", float: "number", str: "text", bool: "true/false"}


def type_words(annotation: Any) -> str:
    """A type as a few words for the model.

    >>> type_words(list[float] | None)
    'list of number'
    """
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return type_words(args[0])
    if origin in (Union, UnionType):
        return " or ".join(type_words(arm) for arm in args if arm is not NoneType)
    if origin is typing.Literal:
        return "|".join(str(arg) for arg in args)
    if origin is list:
        return f"list of {type_words(args[0])}"
    return _WORDS.get(annotation, getattr(annotation, "__name__", str(annotation)))
