"""Every `ORION_*` environment setting, in one class."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from orion.errors import UserError

PREFIX = "ORION_"
USER = re.compile(r"//[^/@]*@")
"""User name and password in a URL."""
NOT_SETTINGS = "ORION_TEST_"
"""Names that begin so belong to the project's own tests and are passed over."""


def _default_threads() -> int:
    # One core stays free: a decode whose threads all spin collapses when anything else takes one of its cores.
    return max(1, (os.cpu_count() or 2) - 1)


def _cache_dir() -> Path:
    return Path(platformdirs.user_cache_dir("orion", appauthor=False))


def _store_dir() -> Path:
    return Path(platformdirs.user_data_dir("orion", appauthor=False))


class Settings(BaseModel):
    """What the environment says. Every field is one variable; an empty variable counts as unset.

    >>> settings = Settings.from_env({"ORION_MODEL": "qwen2.5-coder-1.5b", "ORION_ENGINE_CONTEXT": "4096"})
    >>> settings.model, settings.engine_context, settings.model_url
    ('qwen2.5-coder-1.5b', 4096, None)
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, hide_input_in_errors=True)

    model_url: str | None = Field(
        default=None, validation_alias="ORION_MODEL_URL", pattern=r"^https?://[^\s]+$", repr=False
    )
    """Base URL of an OpenAI-compatible server, with its `/v1`. Unset: `model` decides what runs."""
    model: str | None = Field(default=None, validation_alias="ORION_MODEL")
    """With `model_url`: the name served there. Else a catalogue name, a path ending in `.gguf`, or `provider/model`
    (through litellm). Unset: the first model of the catalogue on the embedded engine."""
    model_key: SecretStr | None = Field(default=None, validation_alias="ORION_MODEL_KEY")
    """Key sent to `model_url` or to the provider. Never printed, never logged."""
    connect_seconds: float = Field(default=10.0, gt=0, le=300, validation_alias="ORION_CONNECT_SECONDS")
    """Longest wait for a connection to the model server."""
    read_seconds: float = Field(default=300.0, gt=0, le=3600, validation_alias="ORION_READ_SECONDS")
    """Longest silence of the model server within one answer (reading the prompt counts)."""
    model_seconds: float = Field(default=600.0, gt=0, le=86400, validation_alias="ORION_MODEL_SECONDS")
    """Longest whole answer of the model server."""

    cache_dir: Path = Field(default_factory=_cache_dir, validation_alias="ORION_CACHE")
    """Weights, engine logs and what was learned about models. May be deleted at any time."""
    store_dir: Path = Field(default_factory=_store_dir, validation_alias="ORION_STORE")
    """Runs and artifacts. Orion never deletes anything here by itself."""

    engine_threads: int = Field(
        default_factory=_default_threads, ge=1, le=1024, validation_alias="ORION_ENGINE_THREADS"
    )
    """Threads of the embedded engine; by default one less than the machine has cores."""
    engine_context: int = Field(default=8192, ge=512, le=1_048_576, validation_alias="ORION_ENGINE_CONTEXT")
    """Context of the embedded engine in tokens."""
    engine_start_seconds: float = Field(default=120.0, gt=0, le=3600, validation_alias="ORION_ENGINE_START_SECONDS")
    """Longest wait for the embedded engine to load its model."""

    fetch_ports: tuple[int, ...] = Field(default=(80, 443), min_length=1, validation_alias="ORION_FETCH_PORTS")
    """Ports a user's URL may name, as a comma-separated list."""
    fetch_private: bool = Field(default=False, validation_alias="ORION_FETCH_PRIVATE")
    """Whether a user's URL may lead into a private, loopback or link-local network."""
    fetch_mb: int = Field(default=100, ge=1, le=10_000, validation_alias="ORION_FETCH_MB")
    """Largest file fetched from a URL, in megabytes."""

    workers: int = Field(default=2, ge=1, le=64, validation_alias="ORION_WORKERS")
    """Processes that decode media and run tools."""
    worker_memory_mb: int = Field(default=4096, ge=256, validation_alias="ORION_WORKER_MEMORY_MB")
    """Memory of one of these processes, in megabytes."""

    @field_validator("fetch_ports", mode="before")
    @classmethod
    def _split_ports(cls, value: object) -> object:
        return [part.strip() for part in value.split(",")] if isinstance(value, str) else value

    @field_validator("fetch_ports")
    @classmethod
    def _port_range(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        for port in value:
            if not 1 <= port <= 65535:
                raise ValueError(f"{port} is not a port (1 to 65535)")
        return value

    @field_validator("model_key")
    @classmethod
    def _header_text(cls, value: SecretStr | None) -> SecretStr | None:
        # It is sent in an HTTP header. What cannot be sent is refused here, because the HTTP library's own error
        # would show the whole header.
        if value is not None and not re.fullmatch(r"[!-~]+", value.get_secret_value()):
            raise ValueError("a key has only visible ASCII characters, without blanks or line ends")
        return value

    @field_validator("cache_dir", "store_dir")
    @classmethod
    def _home(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> Settings:
        """Read the `ORION_*` variables of `environ`.

        Raises `UserError` whose `param` is the variable: an unknown name (with the nearest known one), a bad value.
        """
        found = {name: text for name, text in environ.items() if name.startswith(PREFIX) and text.strip()}
        found = {name: text for name, text in found.items() if not name.startswith(NOT_SETTINGS)}
        known = cls.names()
        for name in sorted(found):
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
                raise UserError("unknown setting", param=name, fix=f"Did you mean {near}?")
        try:
            return cls.model_validate(found)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            name = str(first["loc"][0])
            # The value itself is left out for a secret only; everywhere else it is what the reader looks for.
            shown = "" if name == "ORION_MODEL_KEY" else f" {re.sub(USER, '//…@', found[name])!r}"
            raise UserError(f"bad value{shown}: {first['msg'].removeprefix('Value error, ')}", param=name) from error

    @classmethod
    def names(cls) -> list[str]:
        """All setting names, in the order of the fields.

        >>> Settings.names()[:3]
        ['ORION_MODEL_URL', 'ORION_MODEL', 'ORION_MODEL_KEY']
        """
        return [str(field.validation_alias) for field in cls.model_fields.values()]
