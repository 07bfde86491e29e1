"""The model: what the loop needs of one, and the way to the one the settings name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from orion.errors import ModelBroke, ModelUnreachable, NotConfigured, UserError
from orion.openai_model import OpenAIModel, Served
from orion.profiles import Capabilities, Profile, profile_for
from orion.wire import Ask, CallDelta, Delta, Dialect, NativeCall, OnText, Reply

if TYPE_CHECKING:
    from orion.engine import Engine
    from orion.settings import Settings

__all__ = ["Ask", "CallDelta", "Delta", "Model", "NativeCall", "OpenAIModel", "Reply", "Served", "connect"]

DEFAULT_CONTEXT = 8192
"""Context in tokens when the server does not tell."""


class Model(Protocol):
    """What the loop needs of a model. `context` is in tokens."""

    @property
    def name(self) -> str: ...
    @property
    def profile(self) -> Profile: ...
    @property
    def context(self) -> int: ...
    @property
    def dialect(self) -> Dialect: ...

    async def complete(self, ask: Ask, *, seconds: float | None = None, on_text: OnText | None = None) -> Reply:
        """The whole answer, within `seconds`; `on_text` sees it grow. Raises `ModelError` and its subclasses."""
        ...

    def stream(self, ask: Ask, *, seconds: float | None = None) -> AsyncGenerator[Delta, None]:
        """The answer as it comes. Closing the generator (`aclosing`) makes the server stop."""
        ...

    async def close(self) -> None:
        """Gives connections back; the model may not be used afterwards."""
        ...


async def connect(settings: Settings) -> Model:
    """The model the settings name; see `Settings.model_url` and `Settings.model`.

    A URL: that server, with the one model it serves when no name is set. `provider/model`: litellm. A GGUF path, a
    catalogue name or nothing: the embedded engine. Raises `NotConfigured`, `ModelUnreachable` or `WeightsError`.
    """
    name = settings.model
    if settings.model_url is not None:
        return await _connect_url(settings, settings.model_url)
    if name and "/" in name and not name.lower().endswith(".gguf"):
        if name.startswith(("/", "./", "../", "~")):
            raise UserError(
                f"{name} is a path, but no .gguf file", param="ORION_MODEL", fix="Name the .gguf file itself."
            )
        return await _connect_litellm(settings, name)
    return await _connect_engine(settings)


def _key(settings: Settings) -> str | None:
    return settings.model_key.get_secret_value() if settings.model_key is not None else None


async def _connect_url(settings: Settings, url: str) -> OpenAIModel:
    model = OpenAIModel(
        url,
        settings.model or "",
        _key(settings),
        profile_for(settings.model or ""),
        context=DEFAULT_CONTEXT,
        connect_seconds=settings.connect_seconds,
        read_seconds=settings.read_seconds,
        total_seconds=settings.model_seconds,
    )
    try:
        await _introduce(model)
    except BaseException:
        await model.close()
        raise
    return model


async def _introduce(model: OpenAIModel) -> None:
    """Learns name, family and context from the server."""
    served = await model.served()
    names = [entry.name for entry in served]
    if not model.name:
        if len(served) != 1:
            known = ", ".join(names) or "none"
            raise NotConfigured(
                f"the server at {model.url} serves {len(served)} models: {known}",
                setting="ORION_MODEL",
                fix="Set ORION_MODEL to one of them.",
            )
        model.name = names[0]
    mine = next((entry for entry in served if entry.name == model.name), None)
    # Not listed is no error: some servers serve aliases that /models keeps to itself; a wrong name is a 404 later.
    if mine is not None:
        model.profile = next((p for p in map(profile_for, (mine.name, mine.root)) if p.match), model.profile)
    model.context = await model.server_context() or DEFAULT_CONTEXT


async def _connect_litellm(settings: Settings, name: str) -> Model:
    from orion.litellm_model import LiteLLMModel, context_of

    return LiteLLMModel(
        name,
        _key(settings),
        profile_for(name),
        context=await context_of(name),
        read_seconds=settings.read_seconds,
        total_seconds=settings.model_seconds,
    )


class _EmbeddedModel(OpenAIModel):
    """The model of the embedded engine; lets go of it when closed."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        super().__init__(
            engine.url,
            engine.name,
            engine.key,
            profile_for(engine.name),
            context=engine.context,
            connect_seconds=settings.connect_seconds,
            read_seconds=settings.read_seconds,
            total_seconds=settings.model_seconds,
        )
        self.engine = engine
        self.dialect = "llguidance"
        # Known, so that the first start need not ask: the engine binds schemas, its tool calls are not dependable,
        # and no model of the catalogue sees images.
        self.capabilities = Capabilities(schema=True, tools=False, images=False, context=engine.context)
        self.identity = f"embedded {version('xllamacpp')} {engine.gguf} {engine.context}"

    async def complete(self, ask: Ask, *, seconds: float | None = None, on_text: OnText | None = None) -> Reply:
        try:
            return await super().complete(ask, seconds=seconds, on_text=on_text)
        except (ModelUnreachable, ModelBroke):
            self._check()
            raise

    async def stream(self, ask: Ask, *, seconds: float | None = None) -> AsyncGenerator[Delta, None]:
        try:
            async with aclosing(super().stream(ask, seconds=seconds)) as deltas:
                async for delta in deltas:
                    yield delta
        except (ModelUnreachable, ModelBroke):
            self._check()
            raise

    def _check(self) -> None:
        """Raises `ModelError` with the engine's last words when its process has ended."""
        if not self.engine.alive:
            self.engine.wait(0)

    async def close(self) -> None:
        await super().close()
        await asyncio.to_thread(self.engine.close)


async def _connect_engine(settings: Settings) -> _EmbeddedModel:
    from orion.engine import shared_engine
    from orion.weights import catalogue, model_path

    name = settings.model or next(iter(catalogue()))
    if name.lower().endswith(".gguf"):
        gguf = Path(name)
    else:
        gguf = await asyncio.to_thread(model_path, name, settings.cache_dir)  # may hash a gigabyte
    engine = await asyncio.to_thread(
        shared_engine,
        gguf,
        context=settings.engine_context,
        threads=settings.engine_threads,
        cache_dir=settings.cache_dir,
    )
    try:
        await engine.ready(settings.engine_start_seconds)
        return _EmbeddedModel(engine, settings)
    except BaseException:
        await asyncio.to_thread(engine.close)
        raise
