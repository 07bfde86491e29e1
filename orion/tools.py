"""What a tool is: a typed function with a docstring, marked and grouped into toolsets."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from orion.binding import bind
from orion.errors import NotConfigured, ToolFailed, ToolRetry, UserError
from orion.parameters import (
    AnyFile,
    Audio,
    Document,
    ImageFile,
    Param,
    Ref,
    ToolContext,
    Video,
    params_of,
    type_words,
)
from orion.run import JSON

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
            self._cache["params"], self._cache["context"] = params_of(self.function)
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
            text = param.name if param.ref else f"{param.name}: {type_words(param.annotation)}"
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
        return bind(self.name, self.params(), arguments, ids, names)


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


@functools.cache
def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
