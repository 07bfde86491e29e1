"""The model a run would use: is its server there, are its weights, what can it do. For `orion doctor`."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from orion.cli import DISTRIBUTION
from orion.errors import OrionError
from orion.settings import Settings
from orion.words import size_words

CONNECT_SECONDS = 5.0
PROBE_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Check:
    """One line. `missing` is fine until it is needed, `bad` should be repaired; `fix` is the command that does it."""

    group: Literal["system", "libraries", "model", "more"]
    name: str
    state: Literal["ok", "missing", "bad"]
    text: str
    fix: str | None = None
    vital: bool = False
    """True when no run can work before this is repaired."""


def installed(name: str) -> str | None:
    """The version of an installed distribution, None when it is not there."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def model_check(settings: Settings, failed_imports: dict[str, str]) -> Check:
    """The model a run would use."""
    from orion import weights

    if settings.model_url:
        return _server(settings)
    known = weights.catalogue()
    name = settings.model or next(iter(known))
    if name not in known and not name.lower().endswith(".gguf"):
        return _provider(name)
    install = f'pip install "{DISTRIBUTION}[local]"'
    if installed("xllamacpp") is None or "xllamacpp" in failed_imports:
        text = f"{name}: the embedded engine is not installed or broken"
        return Check("model", "model", "missing", text, f"{install}, or set ORION_MODEL_URL", vital=True)
    if name.lower().endswith(".gguf"):
        if not Path(name).is_file():
            return Check(
                "model", "model", "bad", f"there is no file {name}", "export ORION_MODEL=FILE.gguf", vital=True
            )
        return Check("model", "model", "ok", f"{name} on the embedded engine")
    state = weights.state(known[name], settings.cache_dir)
    if state == "ready":
        return Check("model", "model", "ok", f"{name} on the embedded engine, weights verified", vital=True)
    text = {"absent": "not here", "partial": "partly here", "changed": "not verified"}[state]
    size = size_words(known[name].size)
    return Check(
        "model", "model", "missing", f"{name} ({size}): weights {text}", f"orion model pull {name}", vital=True
    )


def _provider(name: str) -> Check:
    if "/" not in name:
        fix = "`orion model list` shows the catalogue; or a .gguf file, or provider/model"
        return Check("model", "model", "bad", f"ORION_MODEL={name} is no known model", fix, vital=True)
    version = installed("litellm")
    if version is None:
        fix = f'pip install "{DISTRIBUTION}[litellm]"'
        return Check("model", "model", "missing", f"{name} needs litellm", fix, vital=True)
    return Check("model", "model", "ok", f"{name} through litellm {version} (not asked yet)")


def _server(settings: Settings) -> Check:
    """Whether a server answers at ORION_MODEL_URL, and whether it serves the model that is asked for."""
    import httpx

    url = f"{str(settings.model_url).rstrip('/')}/models"
    shown = re.sub(r"//[^/@]*@", "//", str(settings.model_url))  # a password in the URL stays out of the report
    key = settings.model_key.get_secret_value() if settings.model_key else None
    headers = {"Authorization": f"Bearer {key}"} if key else {}

    def bad(text: str, fix: str) -> Check:
        return Check("model", "model", "bad", f"{shown} {text}", fix, vital=True)

    try:
        response = httpx.get(url, headers=headers, timeout=CONNECT_SECONDS)
    except httpx.InvalidURL as error:
        return bad(f"is no URL: {error}", "export ORION_MODEL_URL=http://HOST:PORT/v1")
    except httpx.HTTPError as error:
        reason = str(error) or type(error).__name__
        return bad(f"does not answer: {reason}", "Start the server, or change ORION_MODEL_URL")
    if response.status_code in (401, 403):
        return bad(f"refuses the key (HTTP {response.status_code})", "export ORION_MODEL_KEY=KEY")
    try:
        served = [str(entry["id"]) for entry in response.raise_for_status().json()["data"]]
    except (httpx.HTTPStatusError, ValueError, KeyError, TypeError):
        return bad(f"is no OpenAI-compatible API (HTTP {response.status_code} at /models)", "Does the URL end in /v1?")
    if settings.model and settings.model not in served:
        return bad(f"serves {', '.join(served)}, not {settings.model}", "export ORION_MODEL=NAME")
    return Check("model", "model", "ok", f"{shown} serves {', '.join(served)}", vital=True)


def probe_check(settings: Settings) -> Check:
    """A tiny round trip: what the model and its server can do."""
    from orion.capabilities import probe
    from orion.model import connect

    async def ask() -> Check:
        model = await connect(settings)
        try:
            found = await asyncio.wait_for(probe(model), PROBE_SECONDS)
        finally:
            await model.close()
        abilities = {
            "answers bound to a schema": found.schema,
            "parsed tool calls": found.tools,
            "images": found.images,
        }
        told = ", ".join(f"{name} {'yes' if able else 'no'}" for name, able in abilities.items())
        text = f"{model.name}: {told}, context {found.context or 'untold'}"
        if found.schema or found.tools:
            return Check("model", "probe", "ok", text)
        fix = "vLLM: start it with --enable-auto-tool-choice --tool-call-parser NAME; other servers: look for the like"
        return Check("model", "probe", "bad", f"{text}; actions can only be guessed from its text", fix)

    try:
        return asyncio.run(ask())
    except TimeoutError:
        return Check("model", "probe", "bad", f"no answer within {PROBE_SECONDS:.0f} s", vital=True)
    except OrionError as error:
        return Check("model", "probe", "bad", error.message, error.fix, vital=True)
