"""Toolsets: groups of plain typed functions the agent may call. A toolset's module is imported when it is wanted."""

from __future__ import annotations

BUILTIN: dict[str, str] = {
    "core": "orion.toolsets.core",
    "image": "orion.toolsets.image",
    "document": "orion.toolsets.document",
}
"""Toolset name → module that holds its `TOOLSET`."""
