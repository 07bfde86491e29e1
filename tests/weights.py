"""Where the tests' real model lies."""

from __future__ import annotations

import os
from pathlib import Path

from orion.settings import Settings
from orion.weights import catalogue, default_model, model_path, state


def embedded_gguf(*, smallest: bool = False) -> Path:
    """The GGUF of ORION_TEST_GGUF, or the catalogue's: the default model, or the smallest one that was pulled.

    Raises `WeightsError`, which says how to pull it: tests of the real model fail without one, `-m "not model"` leaves
    them out.
    """
    if given := os.environ.get("ORION_TEST_GGUF"):
        return Path(given)
    cache = Settings.from_env().cache_dir
    ready = [entry for entry in catalogue().values() if state(entry, cache) == "ready"]
    if smallest and ready:
        return model_path(min(ready, key=lambda entry: entry.size).name, cache)
    return model_path(default_model(), cache)
