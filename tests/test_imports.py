"""Who may import whom: layers that only look down, no cycles, toolsets that know the tool side only."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "orion"

LAYERS: dict[str, str] = {
    "ways in": (
        "api cli cli_model cli_run cli_show cli_tools console demo doctor doctor_model live notebook request result"
    ),
    "loop": "loop",
    "parts of a run": "actors context job look output sight toolrun",
    "model and machinery": (
        "capabilities engine engine_child events litellm_model marshal model openai_model patience runaway salvage "
        "salvage_json schema schema_coerce schema_formats schema_grammar schema_outline schema_patterns "
        "schema_refuse scripted stream toolkit trace worker worker_child worker_process"
    ),
    "toolsets": "toolsets.*",
    "values and tools": (
        "artifacts binding fetch media parameters pixels profiles sniff sources tools weight_sources weights"
    ),
    "plain data": "data errors geometry lenient prompts run sandbox settings toolsets types wire words",
}
"""Layers from the top down: a module imports from its own layer or from those below, never from above."""

UPWARD_WHEN_CALLED = {("artifacts", "notebook")}
"""An artifact shows itself in a notebook. Nothing else looks up, not even inside a function."""

TOOLSETS_MAY_USE = {"artifacts", "errors", "geometry", "media", "pixels", "tools"}
"""What a toolset may import of Orion, besides the files of other toolsets."""


@dataclass(frozen=True)
class Import:
    importer: str
    imported: str
    at_import: bool
    """False inside a function: it happens later, or never."""
    line: int


def module_name(path: Path) -> str:
    """`orion/toolsets/ocr.py` → "toolsets.ocr"; a package is named like its folder, Orion itself is ""."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# Links are followed: the top-level folders `toolsets` and `sandbox` are packages of Orion.
FOLDERS = os.walk(PACKAGE, followlinks=True)
FILES = {
    module_name(Path(folder, file)): Path(folder, file)
    for folder, _, names in FOLDERS
    for file in sorted(names)
    if file.endswith(".py")
}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in FILES.items()}


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def nodes(tree: ast.AST, at_import: bool = True) -> Iterator[tuple[ast.AST, bool]]:
    """Every node that is not under `if TYPE_CHECKING:`, and whether it runs when the module is imported."""
    for child in ast.iter_child_nodes(tree):
        if is_type_checking(child):
            assert isinstance(child, ast.If)
            for other in child.orelse:
                yield other, at_import
                yield from nodes(other, at_import)
            continue
        inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield child, at_import
        yield from nodes(child, at_import and not inside)


def imports_of(name: str) -> Iterator[Import]:
    for node, at_import in nodes(TREES[name]):
        if isinstance(node, ast.Import):
            full = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            assert node.level == 0, f"{name}:{node.lineno} imports relatively"
            assert all(alias.name != "*" for alias in node.names), f"{name}:{node.lineno} imports *"
            full = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for target in full:
            if target != "orion" and not target.startswith("orion."):
                continue
            inner = target.removeprefix("orion").removeprefix(".")
            while inner and inner not in FILES:
                inner = inner.rpartition(".")[0]
            yield Import(name, inner, at_import, node.lineno)


IMPORTS = [found for name in FILES for found in imports_of(name)]


def layer_of(name: str) -> int:
    """0 is the top."""
    for index, members in enumerate(LAYERS.values()):
        for member in members.split():
            if name == member or (member.endswith(".*") and name.startswith(member[:-1])):
                return index
    raise AssertionError(f"orion/{name.replace('.', '/')}.py stands in no layer: add it to LAYERS in {__file__}")


def test_every_file_has_its_layer() -> None:
    listed = [name for members in LAYERS.values() for name in members.split() if not name.endswith(".*")]
    assert len(listed) == len(set(listed))
    assert set(listed) <= set(FILES)
    for name in FILES:
        assert name == "" or layer_of(name) >= 0


def test_imports_only_look_down() -> None:
    wrong = [
        f"{found.importer}:{found.line} imports {found.imported}, which is above it"
        for found in IMPORTS
        if found.importer and found.imported and layer_of(found.imported) < layer_of(found.importer)
        if found.at_import or (found.importer, found.imported) not in UPWARD_WHEN_CALLED
    ]
    assert wrong == []


def test_toolsets_know_only_the_tool_side() -> None:
    wrong = [
        f"{found.importer}:{found.line} imports {found.imported}"
        for found in IMPORTS
        if found.importer.startswith("toolsets.")
        and not found.imported.startswith("toolsets")
        and found.imported not in TOOLSETS_MAY_USE
    ]
    assert wrong == []


def test_no_cycles_at_import_time() -> None:
    graph = {
        name: {found.imported for found in IMPORTS if found.importer == name and found.at_import} for name in FILES
    }
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " → ".join((*path[path.index(name) :], name))
        if name in done:
            return
        for imported in sorted(graph[name] - {name}):
            visit(imported, (*path, name))
        done.add(name)

    for name in FILES:
        visit(name, ())


def test_nothing_is_imported_from_the_front_door() -> None:
    """`orion/__init__.py` loads its names on demand; modules of Orion import from where things are."""
    assert [found for found in IMPORTS if found.imported == ""] == []
    assert not [found for found in IMPORTS if found.importer == "" and found.at_import]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import orion.api\nelse:\n    import orion.run",
            ["run"],
        ),
        ("def f():\n    from orion import errors", ["errors"]),
        ("from orion.toolsets import ocr, BUILTIN", ["toolsets.ocr", "toolsets"]),
        ("import os, orion.run", ["run"]),
        ("try:\n    import orion.wire\nexcept ImportError:\n    pass", ["wire"]),
    ],
)
def test_the_test_itself_sees_imports(source: str, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TREES, "probe", ast.parse(source))
    assert [found.imported for found in imports_of("probe")] == expected
    monkeypatch.setitem(TREES, "probe", ast.parse("from orion.run import *"))
    with pytest.raises(AssertionError, match="imports \\*"):
        list(imports_of("probe"))
