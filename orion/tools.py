"""What a tool is: a typed function with a docstring, its schema for the model, and the check of a call's arguments."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from orion.errors import NotConfigured, ToolFailed, ToolRetry, UserError
from orion.run import JSON

if TYPE_CHECKING:
    from orion.artifacts import ArtifactStore
    from orion.run import Run

__all__ = [
    "AnyFile",
    "Audio",
    "Document",
    "ImageFile",
    "Look",
    "Param",
    "Ref",
    "Tool",
    "ToolContext",
    "ToolFailed",
    "ToolRetry",
    "Toolset",
    "Video",
    "as_tool",
    "tool",
]

DISTRIBUTION = "orion-visual-agent"


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


@dataclass(frozen=True, slots=True)
class Tool:
    """A function the agent may call. Made by `@tool`; the function itself stays as it was."""

    name: str
    function: Callable[..., Any]
    summary: str
    needs: tuple[str, ...] = ()
    extra: str | None = None
    host: bool = False
    seconds: float | None = None
    empty: str | None = None
    _cache: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def target(self) -> str:
        """Where a worker finds the function: `module:name`."""
        return f"{self.function.__module__}:{self.function.__qualname__}"

    @property
    def context_param(self) -> str | None:
        """The name of the parameter that takes a `ToolContext`, for host tools that have one."""
        self.params()
        name: str | None = self._cache["context"]
        return name

    def params(self) -> tuple[Param, ...]:
        """The arguments, in the order of the signature."""
        if "params" not in self._cache:
            self._cache["params"], self._cache["context"] = _params(self.function)
        params: tuple[Param, ...] = self._cache["params"]
        return params

    def missing(self) -> str | None:
        """The `pip install` line that this tool needs first, or None when it can run."""
        if all(_importable(module) for module in self.needs):
            return None
        return f'pip install "{DISTRIBUTION}[{self.extra}]"' if self.extra else f"pip install {' '.join(self.needs)}"

    def require(self) -> None:
        """Raise `NotConfigured` with the install line when a library is missing."""
        line = self.missing()
        if line:
            raise NotConfigured(f"{self.name} needs a library that is not installed", setting=line, fix=f"Run: {line}")

    def schema(self, ids: Mapping[str, str] | None = None) -> dict[str, JSON]:
        """JSON schema of the arguments, keys in signature order."""
        # An optional reference with nothing to refer to is left out: no grammar takes an empty enum.
        shown = [p for p in self.params() if p.required or not p.ref or ids is None or p.candidates(ids)]
        properties = {param.name: param.schema(ids) for param in shown}
        required = [param.name for param in self.params() if param.required]
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def wire(self) -> dict[str, JSON]:
        """The OpenAI function-tool form. It holds no ids: its bytes must not change while a run grows."""
        schema = self.schema()
        for param in self.params():
            if param.doc:
                schema["properties"][param.name] = {**schema["properties"][param.name], "description": param.doc}
        return {"type": "function", "function": {"name": self.name, "description": self.summary, "parameters": schema}}

    def line(self) -> str:
        """The one line a text tool list shows, e.g. `crop(image, x, y, w, h): Cut out a box.`"""
        shown = []
        for param in self.params():
            text = param.name if param.ref else f"{param.name}: {_type_words(param.annotation)}"
            if not param.required and not param.ref:
                text = f"{text}={param.default!r}" if param.default is not None else f"{text}?"
            shown.append(text)
        return f"{self.name}({', '.join(shown)}): {self.summary}"

    def fits(self, ids: Mapping[str, str]) -> bool:
        """False when a required reference has nothing to refer to, so that offering the tool makes no sense."""
        return all(param.candidates(ids) for param in self.params() if param.ref and param.required)

    def bind(self, arguments: Mapping[str, JSON], ids: Mapping[str, str], names: Mapping[str, str]) -> dict[str, JSON]:
        """Check and coerce a call's arguments; the result holds JSON values and existing ids only.

        `ids` maps known artifact ids to their kinds, `names` maps file names to ids. Raises `ToolRetry` with a short
        message that names the argument, what was expected and what came.
        """
        params = {param.name: param for param in self.params()}
        for name in arguments:
            if name not in params:
                takes = ", ".join(params) or "no arguments"
                raise ToolRetry(f"{self.name} has no argument {name!r}; it takes {takes}")
        bound: dict[str, JSON] = {}
        for param in params.values():
            value = arguments.get(param.name)
            if param.ref:
                value = _resolve(self.name, param, value, ids, names)
                if value is not None:
                    bound[param.name] = value
            elif value is not None and not (value == "" and not param.required):
                bound[param.name] = _coerce(self.name, param, value)
            elif param.required:
                raise ToolRetry(f"{self.name}: {param.name} is missing; expected {_type_words(param.annotation)}")
        return bound


F = TypeVar("F", bound=Callable[..., Any])


@typing.overload
def tool(function: F) -> F: ...
@typing.overload
def tool(
    *,
    name: str | None = None,
    needs: Sequence[str] = (),
    extra: str | None = None,
    host: bool = False,
    seconds: float | None = None,
    empty: str | None = None,
) -> Callable[[F], F]: ...
def tool(
    function: F | None = None,
    *,
    name: str | None = None,
    needs: Sequence[str] = (),
    extra: str | None = None,
    host: bool = False,
    seconds: float | None = None,
    empty: str | None = None,
) -> F | Callable[[F], F]:
    """Mark a typed function with a docstring as a tool; the function is returned unchanged.

    Args:
        name: what the model calls it; the function's own name by default.
        needs: modules it imports, checked before it is offered; `extra` names the extra that brings them.
        host: run it in Orion's own process, because it needs the model or the store (`ToolContext`). It may be async.
        seconds: its own time limit; `Limits.tool_seconds` by default.
        empty: what the model reads when the result is an empty list, with `{argument}` fields.

    >>> @tool
    ... def double(number: float) -> float:
    ...     '''Double a number.'''
    ...     return 2 * number
    >>> double(4), double.__orion_tool__.line()
    (8, 'double(number: number): Double a number.')
    """

    def mark(fn: F) -> F:
        doc = inspect.getdoc(fn)
        label = getattr(fn, "__name__", repr(fn))
        if not inspect.isfunction(fn):
            raise UserError(f"{label} is no plain function", fix="Wrap it in one with types and a docstring.")
        if not doc:
            raise UserError(f"the tool {label} has no docstring", fix="Its first line tells the model what it does.")
        made = Tool(
            name=name or label,
            function=fn,
            summary=doc.split("\n", 1)[0].strip(),
            needs=tuple(needs),
            extra=extra,
            host=host,
            seconds=seconds,
            empty=empty,
        )
        fn.__orion_tool__ = made  # type: ignore[attr-defined]
        return fn

    return mark(function) if function is not None else mark


def as_tool(function: Callable[..., Any]) -> Tool:
    """The `Tool` of a function; a plain typed function with a docstring becomes one.

    Raises:
        UserError: it is no function, or has no docstring.
    """
    made: Tool | None = getattr(function, "__orion_tool__", None)
    if made is None:
        made = tool(function).__orion_tool__  # type: ignore[attr-defined]
    return made


@dataclass(frozen=True, slots=True)
class Look:
    """What a first look at a medium found.

    `covers` names the tools which, called on this medium, could only repeat what `text` already says, or could only
    fail: they are not offered for it. `whole` tells that nothing else can be read of it: only then may a run answer
    without having called a tool.
    """

    text: str
    covers: tuple[str, ...] = ()
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Toolset:
    """A named group of tools.

    `media` lists the artifact kinds for which this toolset is chosen without asking the model. `look(path, meta,
    budget_chars, text_only)` gives the first observation of such a medium; it runs in a worker and must be importable.
    """

    name: str
    summary: str
    tools: tuple[Callable[..., Any], ...]
    media: tuple[str, ...] = ()
    look: Callable[..., Look] | None = None


def _params(function: Callable[..., Any]) -> tuple[tuple[Param, ...], str | None]:
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


@functools.cache
def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


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


def _type_words(annotation: Any) -> str:
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _type_words(args[0])
    if origin in (Union, UnionType):
        return " or ".join(_type_words(arm) for arm in args if arm is not NoneType)
    if origin is typing.Literal:
        return "|".join(str(arg) for arg in args)
    if origin is list:
        return f"list of {_type_words(args[0])}"
    return _WORDS.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _short(value: JSON) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
