"""`orion tools [NAME]`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping

from orion.console import Pen, print_json
from orion.errors import UserError
from orion.run import JSON
from orion.tools import Tool, Toolset, as_tool


def tools(name: str | None, *, as_json: bool) -> int:
    """Show every toolset, one toolset, or one tool; returns the exit code. Raises `UserError` for an unknown name."""
    from orion.toolkit import discover

    known = discover()
    if name is None or name in known:
        shown = known if name is None else {name: known[name]}
        if as_json:
            print_json([_toolset_json(toolset) for toolset in shown.values()], sys.stdout)
        else:
            _print_toolsets(shown)
        return 0
    tool = _find(name, known)
    if as_json:
        print_json(_tool_json(tool), sys.stdout)
    else:
        _print_tool(tool)
    return 0


def _find(name: str, known: Mapping[str, Toolset]) -> Tool:
    by_name = {tool.name: tool for toolset in known.values() for tool in _tools_of(toolset)}
    if name not in by_name:
        raise UserError(
            f"there is no toolset or tool {name!r}",
            param="NAME",
            fix=f"Toolsets: {', '.join(known)}. `orion tools` lists their tools.",
        )
    return by_name[name]


def _tools_of(toolset: Toolset) -> list[Tool]:
    return [as_tool(function) for function in toolset.tools]


def _print_toolsets(toolsets: Mapping[str, Toolset]) -> None:
    pen = Pen(sys.stdout)
    for toolset in toolsets.values():
        media = f"  (chosen for: {', '.join(toolset.media)})" if toolset.media else ""
        print(f"{pen.bold(toolset.name)}  {toolset.summary}{pen.dim(media)}")
        for tool in _tools_of(toolset):
            line = tool.missing()
            mark = pen.green("✓") if line is None else pen.yellow("–")
            print(f"  {mark} {tool.line()}")
            if line:
                print(f"      {pen.yellow('missing:')} {line}")


def _print_tool(tool: Tool) -> None:
    pen = Pen(sys.stdout)
    print(f"{pen.bold(tool.name)}{_signature(tool)}")
    print()
    print(inspect.getdoc(tool.function) or "")
    line = tool.missing()
    if line:
        print(f"\n{pen.yellow('missing:')} {line}")


def _signature(tool: Tool) -> str:
    """The signature as it stands in the source, without the quotes Python puts around annotations kept as text."""
    signature = inspect.signature(tool.function)

    def words(annotation: object) -> str:
        return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)

    shown = []
    for name, parameter in signature.parameters.items():
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        shown.append(f"{name}: {words(parameter.annotation)}{default}")
    return f"({', '.join(shown)}) -> {words(signature.return_annotation)}"


def _toolset_json(toolset: Toolset) -> dict[str, JSON]:
    return {
        "name": toolset.name,
        "summary": toolset.summary,
        "media": list(toolset.media),
        "tools": [_tool_json(tool) for tool in _tools_of(toolset)],
    }


def _tool_json(tool: Tool) -> dict[str, JSON]:
    return {
        "name": tool.name,
        "summary": tool.summary,
        "parameters": tool.schema(),
        "missing": tool.missing(),
    }
