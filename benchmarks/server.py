"""One model server for a whole benchmark: a URL that is given, or the embedded engine, as Orion's users have it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orion.engine import shared_engine
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
    """The server; while it lives, the environment makes `Orion()` use it.

    The embedded engine is the one of this process, so that Orion binds it as it does for its users (one-line JSON),
    and everybody else reaches the same engine by URL.
    """
    if options.url:
        server = Server(options.url, options.name, os.environ.get("ORION_MODEL_KEY", ""))
        with _environment(ORION_MODEL_URL=server.url, ORION_MODEL=server.name, ORION_MODEL_KEY=server.key):
            yield server
        return
    settings = Settings.from_env()
    gguf = options.gguf or model_path(next(iter(catalogue())), settings.cache_dir)
    threads = options.threads or settings.engine_threads
    engine = shared_engine(gguf, context=options.context, threads=threads)
    try:
        engine.wait()
        with _environment(
            ORION_MODEL_URL="",
            ORION_MODEL=str(gguf),
            ORION_ENGINE_CONTEXT=str(options.context),
            ORION_ENGINE_THREADS=str(threads),
        ):
            yield Server(engine.url, engine.name, engine.key)
    finally:
        engine.close()


@contextmanager
def _environment(**names: str) -> Iterator[None]:
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
