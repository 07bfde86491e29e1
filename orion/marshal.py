"""The tool border: ids become values on the way in; values become text, JSON and files on the way out.

Runs where the tool runs, in a worker as a rule. Files are named by a mark in text and JSON until the store gives ids.
"""

from __future__ import annotations

import importlib
import math
import numbers
import shutil
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from orion.artifacts import Artifact
from orion.errors import ToolFailed
from orion.run import JSON
from orion.tools import Look, Param, Tool, as_tool

SNIFF_BYTES = 4096
MARK = "\ue0f0{}\ue0f1"
"""Stands for the id of file number `{}` (private-use characters: no tool writes them by itself)."""


def run_call(payload: Mapping[str, JSON]) -> dict[str, JSON]:
    """Worker entry: run one tool on bound arguments.

    `payload`: `target` (`module:function`), `arguments`, `files` (id → `{"path", "original", "artifact"}`) and
    `scratch`, a folder for files that is made when the first one comes. Returns what `dump` returns.
    """
    tool = as_tool(_resolve(payload["target"]))
    arguments = load(tool, payload["arguments"], payload["files"])
    return dump(tool, tool.function(**arguments), payload["arguments"], Path(payload["scratch"]))


def run_look(payload: Mapping[str, JSON]) -> dict[str, JSON]:
    """Worker entry: the first look of a toolset at one medium; see `orion.tools.Toolset.look`."""
    look: Callable[..., Look] = _resolve(payload["target"])
    seen = look(Path(payload["path"]), payload["meta"], payload["budget_chars"], payload["text_only"])
    return {"text": seen.text, "covers": list(seen.covers), "whole": seen.whole}


def load(tool: Tool, arguments: Mapping[str, JSON], files: Mapping[str, JSON]) -> dict[str, Any]:
    """Bound JSON arguments → the values the function takes."""
    values: dict[str, Any] = {}
    for param in tool.params():
        if param.name not in arguments:
            continue
        value = arguments[param.name]
        if param.ref is None:
            values[param.name] = param.adapter().validate_python(value)
        elif isinstance(value, list):
            values[param.name] = [_open(param, files[item]) for item in value]
        else:
            values[param.name] = _open(param, files[value])
    return values


def _open(param: Param, file: Mapping[str, JSON]) -> Any:
    if param.takes == "artifact":
        return Artifact.model_validate(file["artifact"])
    if param.takes == "image":
        from orion.media import open_image

        return open_image(Path(file["path"]))
    original = param.ref is not None and param.ref.kind == "image"
    return Path(file["original" if original else "path"])


def dump(tool: Tool, value: Any, arguments: Mapping[str, JSON], scratch: Path) -> dict[str, JSON]:
    """A tool's result → `{"text", "value", "files"}`, all JSON; images and paths become files in `scratch`.

    Raises `ToolFailed` when the result is nothing a tool may return.
    """
    out = _Out(scratch, _parents(tool, arguments))
    plain = out.plain(value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes) and len(value) == 0:
        text = (tool.empty or f"{tool.name} found nothing.").format_map({**_defaults(tool), **arguments})
    else:
        text = out.text(value)
    return {"text": text, "value": plain, "files": out.files}


class _Out:
    """Walks one result once for its JSON and once for its text, storing each image or file a single time."""

    def __init__(self, scratch: Path, parents: Sequence[str]) -> None:
        self.scratch = scratch
        self.parents = parents
        self.files: list[JSON] = []
        self._seen: dict[int, tuple[str, object]] = {}  # the object is kept, so that its id() stays taken

    def plain(self, value: Any) -> JSON:
        if value is None or isinstance(value, str | bool):
            return value
        if isinstance(value, numbers.Number) or type(value).__module__ == "numpy":
            return _number(value)
        if isinstance(value, Path) or _is_image(value):
            return self.mark(value)
        if isinstance(value, BaseModel):
            return {name: self.plain(getattr(value, name)) for name in type(value).model_fields}
        if isinstance(value, Mapping):
            return {str(key): self.plain(item) for key, item in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
            return [self.plain(item) for item in value]
        raise ToolFailed(f"the tool returned a {type(value).__name__}, which is no result a tool may have")

    def text(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        if value is None:
            return "Done; there is no result."
        if isinstance(value, Path) or _is_image(value):
            return self._line(value)
        if isinstance(value, BaseModel) and hasattr(value, "for_model"):
            return self._marked(value, cast(str, value.for_model()))
        if isinstance(value, Sequence):
            return "\n".join(f"- {self.text(item)}" for item in value)
        from orion.types import encode

        return encode(self.plain(value)).decode()

    def mark(self, value: Any) -> str:
        if id(value) not in self._seen:
            mark = MARK.format(len(self.files))
            self.files.append(self._file(value))
            self._seen[id(value)] = (mark, value)
        return self._seen[id(value)][0]

    def _line(self, value: Any) -> str:
        mark = self.mark(value)
        if _is_image(value):
            return f"{mark} (image, {value.width}x{value.height} px)"
        return f"{mark} (file {value.name})"

    def _marked(self, model: BaseModel, text: str) -> str:
        """The model's own words, with the files it holds named behind them."""
        held = [getattr(model, name) for name in type(model).model_fields]
        lines = [self._line(item) for item in held if isinstance(item, Path) or _is_image(item)]
        return "\n".join([text, *lines])

    def _file(self, value: Any) -> dict[str, JSON]:
        if _is_image(value):
            from orion.media import save_image

            self.scratch.mkdir(mode=0o700, exist_ok=True)
            path, media_type = save_image(value, self.scratch)
            return {
                "path": str(path),
                "kind": "image",
                "media_type": media_type,
                "width": value.width,
                "height": value.height,
                "parent": self.parents[0] if len(self.parents) == 1 else None,
                "transform": value.info.get("transform"),
            }
        from orion.media import sniff

        if not value.is_file():
            raise ToolFailed(f"the tool returned the path {value.name!r}, which is no file")
        with value.open("rb") as file:
            kind, media_type = sniff(file.read(SNIFF_BYTES), value.name)
        self.scratch.mkdir(mode=0o700, exist_ok=True)
        path = self.scratch / f"{len(self.files)}-{value.name}"
        shutil.copyfile(value, path)
        return {"path": str(path), "kind": kind, "media_type": media_type, "name": value.name}


def _number(value: Any) -> JSON:
    item = getattr(value, "item", None)  # numpy scalars are not JSON
    if callable(item) and getattr(value, "shape", ()) != ():
        raise ToolFailed(f"the tool returned a {type(value).__name__}, which is no result a tool may have")
    plain = item() if callable(item) else value
    if isinstance(plain, Decimal | Fraction):
        plain = float(plain)
    if isinstance(plain, int):
        return plain
    if isinstance(plain, float) and math.isfinite(plain):
        return plain
    raise ToolFailed(f"the tool returned {value!r}, which is not a finite number")


def _is_image(value: Any) -> bool:
    return any(base.__module__ == "PIL.Image" and base.__name__ == "Image" for base in type(value).__mro__)


def _parents(tool: Tool, arguments: Mapping[str, JSON]) -> list[str]:
    """Ids of the artifacts the tool was given: what a new image was made from."""
    found: list[str] = []
    for param in tool.params():
        ids = arguments.get(param.name) if param.ref is not None else None
        if ids is not None:
            found.extend(ids if isinstance(ids, list) else [ids])
    return found


def _defaults(tool: Tool) -> dict[str, JSON]:
    return {param.name: param.default for param in tool.params()}


def _resolve(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)
