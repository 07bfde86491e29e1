"""Orion: a self-hosted visual agent. Text, images and PDFs in, valid JSON out, on a local model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orion.api import Orion as Orion
    from orion.artifacts import Artifact as Artifact
    from orion.artifacts import ArtifactStore as ArtifactStore
    from orion.geometry import Box as Box
    from orion.result import Result as Result
    from orion.run import Limits as Limits
    from orion.run import Run as Run
    from orion.tools import Toolset as Toolset
    from orion.tools import tool as tool

# Where each public name lives. They are imported when first used: `import orion` itself costs next to nothing.
_HOMES = {
    "Orion": "orion.api",
    "Artifact": "orion.artifacts",
    "ArtifactStore": "orion.artifacts",
    "Box": "orion.geometry",
    "Result": "orion.result",
    "Limits": "orion.run",
    "Run": "orion.run",
    "Toolset": "orion.tools",
    "tool": "orion.tools",
}
__all__ = ["Artifact", "ArtifactStore", "Box", "Limits", "Orion", "Result", "Run", "Toolset", "tool"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'orion' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
