"""Running one bound tool call: in a killable worker, in Orion's own process, or in a thread; then its results kept."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from orion.errors import OrionError, ToolFailed
from orion.job import Job
from orion.lenient import too_deep, whole_characters
from orion.marshal import MARK, dump, load
from orion.run import JSON, Observation
from orion.tools import Tool, ToolContext
from orion.types import encode
from orion.worker import WorkerTimeout

T = TypeVar("T")

VALUE_BYTES = 64 * 1024
"""A result larger than this as JSON is kept as text only."""
RESULT_CHARS = 8_000_000
"""Characters of text one tool may return; more is an error, not a longer transcript."""


async def run_tool(job: Job, tool: Tool, arguments: Mapping[str, JSON]) -> Observation:
    """Run `tool` on arguments that `Tool.bind` accepted; its images and files become artifacts of the run.

    A toolset's function runs in a worker process that is killed at its time limit. A function of the caller's own
    may live in a script or a notebook cell, where no other process finds it: it runs in a daemon thread, abandoned at
    the limit, or, when it is `async`, in the event loop.

    Raises the tool's own `ToolRetry` or `ToolFailed`, `WorkerTimeout` or `WorkerDied`.
    """
    tool.require()
    seconds = min(tool.seconds or job.run.limits.tool_seconds, max(job.seconds_left(), 0.1))
    with job.store.scratch(lazy=True) as scratch:
        files = _files(job, tool, arguments)
        if tool.host or tool.name in job.local:
            raw = await _here(job, tool, arguments, files, scratch, seconds)
        else:
            payload = {"target": tool.target, "arguments": arguments, "files": files, "scratch": str(scratch)}
            raw = await job.workers.call("orion.marshal:run_call", payload, seconds=seconds)
        try:
            return keep(job, raw, scratch)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ToolFailed(f"the tool's result cannot be kept: {type(error).__name__}: {error}") from error


def _files(job: Job, tool: Tool, arguments: Mapping[str, JSON]) -> dict[str, JSON]:
    found: dict[str, JSON] = {}
    for param in tool.params():
        value = arguments.get(param.name)
        if param.ref is None or value is None:
            continue
        for id_ in value if isinstance(value, list) else [value]:
            artifact = job.artifacts[id_]
            found[id_] = {
                "path": str(job.store.path(id_)),
                "original": str(job.store.original_path(id_)),
                "artifact": artifact.model_dump(mode="json"),
            }
    return found


async def _here(
    job: Job,
    tool: Tool,
    arguments: Mapping[str, JSON],
    files: Mapping[str, JSON],
    scratch: Path,
    seconds: float,
) -> dict[str, JSON]:
    def values() -> dict[str, Any]:
        context = {tool.context_param: ToolContext(job.model, job.store, job.run)} if tool.context_param else {}
        return {**load(tool, arguments, files), **context}

    if inspect.iscoroutinefunction(tool.function):
        result = await _typed(tool.function(**await asyncio.to_thread(values)), seconds)
        return dump(tool, result, arguments, scratch)
    return await _threaded(lambda: dump(tool, tool.function(**values()), arguments, scratch), seconds)


async def _threaded(work: Callable[[], dict[str, JSON]], seconds: float) -> dict[str, JSON]:
    """Run blocking work in a daemon thread, so that a hanging function cannot keep the program alive."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[dict[str, JSON]] = loop.create_future()

    def settle(result: dict[str, JSON] | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result or {})

    def body() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as caught:  # noqa: BLE001 - handed to the waiting task; nothing else ends this thread
            # A future takes neither StopIteration nor what is no Exception (an exit, a cancellation).
            plain = isinstance(caught, Exception) and not isinstance(caught, StopIteration)
            error = caught if plain else ToolFailed(_in_words(caught))
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    threading.Thread(target=body, name="orion-tool", daemon=True).start()
    return await _typed(done, seconds)


async def _typed(work: Awaitable[T], seconds: float) -> T:
    """The result within `seconds`; whatever a tool raises that is not Orion's own becomes `ToolFailed`.

    At the limit, and when the run is cancelled, the work is cancelled but not waited for: an async tool may swallow it.
    """

    async def contained() -> T:
        try:
            return await work
        except (SystemExit, KeyboardInterrupt) as error:  # raised out of a task, these would end the event loop
            raise ToolFailed(_in_words(error)) from error

    working = asyncio.create_task(contained())
    try:
        done, _ = await asyncio.wait({working}, timeout=seconds)
    finally:
        if not working.done():
            working.cancel()
            working.add_done_callback(_forget)
    if not done:
        raise WorkerTimeout(f"no result within {seconds:g} s")
    try:
        return working.result()
    except OrionError:
        raise
    except asyncio.CancelledError as error:  # the tool's own: nobody cancelled this run
        raise ToolFailed(_in_words(error)) from error
    except (Exception, GeneratorExit) as error:
        raise ToolFailed(_in_words(error)) from error


def _forget(abandoned: asyncio.Future[Any]) -> None:
    """Take the outcome of work nobody waits for any more, so that asyncio does not complain that it was lost."""
    if not abandoned.cancelled():
        abandoned.exception()


def _in_words(error: BaseException) -> str:
    """An error of somebody else's code, whose own words may fail, too."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as broken:  # noqa: BLE001 - said in the text that is returned
        return f"{type(error).__name__} (its text cannot be had: {type(broken).__name__})"


def keep(job: Job, raw: Mapping[str, JSON], scratch: Path) -> Observation:
    """Store a dumped result's files, put their ids into its text and JSON, and cut what is too long to show.

    A worker has seen hostile bytes: only plain files in `scratch` are taken over.
    """
    text, value = whole_characters(raw["text"]), raw["value"]
    made: list[str] = []
    if len(text) > RESULT_CHARS:
        raise ToolFailed(f"the result has {len(text)} characters, more than {RESULT_CHARS}")
    for number, file in enumerate(raw["files"]):
        path = scratch / Path(file["path"]).name
        if path.is_symlink() or not path.is_file():
            raise ToolFailed(f"the tool returned the path {file['path']!r}, which is no file of its own")
        artifact = job.store.add(
            path,
            move=True,
            kind=file["kind"],
            media_type=file["media_type"],
            name=file.get("name"),
            width=file.get("width"),
            height=file.get("height"),
            parent=file.get("parent"),
            transform=tuple(file["transform"]) if file.get("transform") else None,
        )
        job.artifacts[artifact.id] = artifact
        made.append(artifact.id)
        text = text.replace(MARK.format(number), artifact.id)
        value = _replace(value, MARK.format(number), artifact.id)
    if value is not None:
        plain = encode(value)  # without the halves of characters that no JSON text can hold
        value = json.loads(plain) if len(plain) <= VALUE_BYTES and not too_deep(value) else None
    shown, rest = cut(job, text)
    images = [id_ for id_ in made if job.artifacts[id_].kind == "image"]
    return Observation(text=shown, artifacts=[*made, *rest], show=images, value=value)


def cut(job: Job, text: str) -> tuple[str, list[str]]:
    """The text within `Limits.observation_chars`; a longer one is kept whole as an artifact to page through."""
    limit = job.run.limits.observation_chars
    if len(text) <= limit:
        return text, []
    artifact = job.store.add(text.encode(), kind="file", media_type="text/plain", name=None)
    job.artifacts[artifact.id] = artifact
    end = text.rfind("\n", limit // 2, limit)
    end = limit if end < 0 else end
    note = f"[{len(text) - end} more characters: read_more(file={artifact.id}, start={end})]"
    return f"{text[:end]}\n{note}", [artifact.id]


def _replace(value: JSON, mark: str, id_: str) -> JSON:
    if isinstance(value, str):
        return value.replace(mark, id_)
    if isinstance(value, list):
        return [_replace(item, mark, id_) for item in value]
    if isinstance(value, dict):
        return {key: _replace(item, mark, id_) for key, item in value.items()}
    return value
