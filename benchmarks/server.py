"""One model server for a whole benchmark: a URL that is given, or the embedded engine."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orion.engine import Engine
from orion.settings import Settings
from orion.weights import catalogue, model_path


@dataclass(frozen=True)
class Server:
    """Where the model answers, and under which name and key."""

    url: str
    name: str
    key: str


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that say which model is measured."""
    parser.add_argument("--url", help="an OpenAI-compatible server; with --name and ORION_MODEL_KEY")
    parser.add_argument("--name", default="", help="the model's name at --url")
    parser.add_argument(
        "--gguf", type=Path, help="weights for the embedded engine; the first of the catalogue by default"
    )
    parser.add_argument("--threads", type=int, help="threads of the embedded engine")
    parser.add_argument("--context", type=int, default=8192, help="its context in tokens")


@contextmanager
def serving(options: argparse.Namespace) -> Iterator[Server]:
    """The server; while it lives, the environment makes `Orion()` use it."""
    if options.url:
        server = Server(options.url, options.name, os.environ.get("ORION_MODEL_KEY", ""))
        with _environment(server):
            yield server
        return
    gguf = options.gguf or model_path(next(iter(catalogue())), Settings.from_env().cache_dir)
    with Engine.start(gguf, context=options.context, threads=options.threads) as engine:
        engine.wait()
        server = Server(engine.url, engine.name, engine.key)
        with _environment(server):
            yield server


@contextmanager
def _environment(server: Server) -> Iterator[None]:
    names = {"ORION_MODEL_URL": server.url, "ORION_MODEL": server.name, "ORION_MODEL_KEY": server.key}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
