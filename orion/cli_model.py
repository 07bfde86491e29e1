"""`orion model pull|list|path`."""

from __future__ import annotations

import sys
from pathlib import Path

from orion import weights
from orion.console import Pen, ProgressBar, print_json
from orion.settings import Settings
from orion.words import size_words

_STATES = {"ready": "here", "changed": "to be checked", "partial": "partly here", "absent": "not here"}


def model(action: str, name: str | None, *, as_json: bool) -> int:
    """One action of `orion model`; returns the exit code. Raises `UserError` and `WeightsError`."""
    settings = Settings.from_env()
    chosen = name or next(iter(weights.catalogue()))
    if action == "list":
        _list(settings.cache_dir, as_json=as_json)
    elif action == "path":
        print(weights.model_path(chosen, settings.cache_dir))
    else:
        print(pull(chosen, settings.cache_dir))
    return 0


def pull(name: str, cache_dir: Path) -> Path:
    """Fetch weights with a progress bar on standard error."""
    bar = ProgressBar(sys.stderr, name)
    try:
        return weights.pull(name, cache_dir, bar)
    finally:
        bar.close()


def pull_configured() -> None:
    """Fetch the weights a run would use, unless the settings name a server, a provider or a file."""
    settings = Settings.from_env()
    known = weights.catalogue()
    name = settings.model or next(iter(known))
    if settings.model_url is None and name in known and weights.state(known[name], settings.cache_dir) != "ready":
        pull(name, settings.cache_dir)


def _list(cache_dir: Path, *, as_json: bool) -> None:
    rows = [(entry, weights.state(entry, cache_dir)) for entry in weights.catalogue().values()]
    paths = {entry.name: str(cache_dir / "models" / entry.name / entry.file) for entry, _state in rows}
    if as_json:
        keys = {"name", "title", "licence", "size", "sha256"}
        print_json(
            [
                {
                    **entry.model_dump(include=keys),
                    "state": state,
                    "path": paths[entry.name] if state == "ready" else None,
                }
                for entry, state in rows
            ],
            sys.stdout,
        )
        return
    pen = Pen(sys.stdout)
    for entry, state in rows:
        here = pen.green(_STATES[state]) if state == "ready" else pen.yellow(_STATES[state])
        print(f"{pen.bold(entry.name)}  {entry.title}  {entry.licence}  {size_words(entry.size)}  {here}")
        print(f"  {paths[entry.name] if state == 'ready' else f'orion model pull {entry.name}'}")
