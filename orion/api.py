"""The Python way in: `Orion` runs requests, a `Result` is what comes back."""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from orion.artifacts import Artifact, ArtifactStore
from orion.capabilities import Capabilities, probe
from orion.errors import UserError
from orion.events import Event, Finished
from orion.model import Model, connect
from orion.request import Request, perform
from orion.result import Result
from orion.run import Limits
from orion.settings import Settings
from orion.toolkit import YOURS, discover
from orion.tools import Toolset, as_tool
from orion.worker import WorkerPool

if TYPE_CHECKING:
    from PIL import Image

    Source = str | os.PathLike[str] | bytes | Image.Image | Artifact

T = TypeVar("T")

CLOSE_SECONDS = 20.0


class Orion:
    """The agent. One object serves any number of runs, from any thread and from inside async code.

    Args:
        model: a model's name (catalogue name, `.gguf` path, `provider/model`), the base URL of an OpenAI-compatible
            server, or a `Model`. By default what the `ORION_MODEL*` settings say, else the embedded model.
        toolsets: names of the toolsets of every run; by default each run chooses its own.
        tools: your own typed functions with docstrings, offered in every run.
        limits: the bounds of every run.
        store: a folder (or store) for artifacts and traces; by default one folder a run under `ORION_STORE`.
        settings: by default those of the environment.

    >>> from orion.scripted import ScriptedModel
    >>> with Orion(ScriptedModel(['{"final": "4"}'])) as agent:
    ...     agent.run("What is 2 + 2?").text
    '4'
    """

    def __init__(
        self,
        model: str | Model | None = None,
        *,
        toolsets: Sequence[str] | None = None,
        tools: Sequence[Callable[..., Any]] = (),
        limits: Limits | None = None,
        store: str | os.PathLike[str] | ArtifactStore | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.settings = settings or Settings.from_env()
        if isinstance(model, str):
            named = {"model_url": model} if model.startswith(("http://", "https://")) else {"model": model}
            self.settings = self.settings.model_copy(update={"model_url": None, **named})
            model = None
        self.toolsets = toolsets
        self.limits = limits or Limits()
        self.catalogue = _catalogue(tools)
        self.store = store if isinstance(store, ArtifactStore) or store is None else ArtifactStore(store)
        self._given = model
        self._running: set[asyncio.Task[Result]] = set()
        self._begin_anew()
        _agents.add(self)

    def _begin_anew(self) -> None:
        """The state of an agent that was never used; see also `_after_fork`."""
        self._model: Model | None = None
        self._capabilities: Capabilities | None = None
        self._workers: WorkerPool | None = None
        self._thread: _LoopThread | None = None
        self._guard = threading.Lock()
        self._connecting = asyncio.Lock()

    # ---- running ----------------------------------------------------------------------------------------------

    def run(
        self,
        prompt: str,
        files: Sequence[Source] = (),
        *,
        response_format: Any = None,
        toolsets: Sequence[str] | None = None,
        limits: Limits | None = None,
        password: str | None = None,
    ) -> Result:
        """Answer one request.

        Args:
            prompt: what is asked.
            files: paths, URLs, data URIs, bytes, PIL images or artifacts.
            response_format: a pydantic model class (or any type pydantic knows), a JSON schema, or OpenAI's
                `response_format`; text by default.
            toolsets: names of toolsets for this run.
            limits: bounds of this run.
            password: opens encrypted PDFs among the files; it is kept nowhere, the opened PDF is in the store.

        Returns:
            The result. Limits and model failures end in `Result.stop` and `Result.detail`, not in an exception.

        Raises:
            UserError: a wrong argument; `SchemaError` and `MediaError` are kinds of it.
            NotConfigured, ModelUnreachable, WeightsError: no model can be had.
        """
        request = self._request(prompt, files, response_format, toolsets, limits, password)
        future = self._submit(self._perform(request, _ignore))
        try:
            return future.result()
        except BaseException:  # Ctrl-C while waiting: the run must not go on behind the caller's back
            future.cancel()
            raise

    async def arun(
        self,
        prompt: str,
        files: Sequence[Source] = (),
        *,
        response_format: Any = None,
        toolsets: Sequence[str] | None = None,
        limits: Limits | None = None,
        password: str | None = None,
    ) -> Result:
        """As `run`, awaitable. Cancelling it stops the run and the model."""
        request = self._request(prompt, files, response_format, toolsets, limits, password)
        return await asyncio.wrap_future(self._submit(self._perform(request, _ignore)))

    def stream(
        self,
        prompt: str,
        files: Sequence[Source] = (),
        *,
        response_format: Any = None,
        toolsets: Sequence[str] | None = None,
        limits: Limits | None = None,
        password: str | None = None,
    ) -> Iterator[Event]:
        """As `run`, giving every event as it happens; the last one is `Finished(result)`."""
        request = self._request(prompt, files, response_format, toolsets, limits, password)
        events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        future = self._submit(self._perform(request, events.put))
        future.add_done_callback(lambda _done: events.put(None))
        try:
            while (event := events.get()) is not None:
                yield event
            yield Finished(future.result())
        finally:
            future.cancel()

    async def astream(
        self,
        prompt: str,
        files: Sequence[Source] = (),
        *,
        response_format: Any = None,
        toolsets: Sequence[str] | None = None,
        limits: Limits | None = None,
        password: str | None = None,
    ) -> AsyncIterator[Event]:
        """As `stream`, for async code. Cancelled while it waits, it stops the run and ends with what there is."""
        request = self._request(prompt, files, response_format, toolsets, limits, password)
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        stop = asyncio.Event()

        def put(event: Event | None) -> None:
            loop.call_soon_threadsafe(events.put_nowait, event)

        future = self._submit(self._perform(request, put, stop))
        future.add_done_callback(lambda _done: put(None))
        try:
            while True:
                try:
                    event = await events.get()
                except asyncio.CancelledError:
                    if stop.is_set():
                        raise
                    self._loop().call(stop.set)
                    continue
                if event is None:
                    break
                yield event
            yield Finished(await asyncio.wrap_future(future))
        finally:
            future.cancel()

    # ---- parts ------------------------------------------------------------------------------------------------

    def _request(
        self,
        prompt: str,
        files: Sequence[Source],
        response_format: Any,
        toolsets: Sequence[str] | None,
        limits: Limits | None,
        password: str | None,
    ) -> Request:
        if isinstance(files, str | bytes) or not isinstance(files, Sequence):
            raise UserError("files must be a list", param="files", fix="Write files=[…], also for one file.")
        names = toolsets if toolsets is not None else self.toolsets
        return Request.check(
            prompt, files, response_format, names, limits or self.limits, self.catalogue, password=password
        )

    async def _perform(
        self, request: Request, emit: Callable[[Event], None], stop: asyncio.Event | None = None
    ) -> Result:
        task: asyncio.Task[Result] | None = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        async with self._connecting:
            if self._model is None:
                self._model = self._given or await connect(self.settings)
            if self._capabilities is None:
                given: Capabilities | None = getattr(self._model, "capabilities", None)
                self._capabilities = given or await probe(
                    self._model, self.settings.cache_dir, seconds=request.limits.seconds
                )
            if self._workers is None:
                self._workers = WorkerPool(self.settings.workers, self.settings.worker_memory_mb)
        return await perform(
            request,
            model=self._model,
            capabilities=self._capabilities,
            workers=self._workers,
            catalogue=self.catalogue,
            local=frozenset(as_tool(function).name for function in self.catalogue[YOURS].tools),
            store=self.store,
            settings=self.settings,
            emit=emit,
            stop=stop,
        )

    def _loop(self) -> _LoopThread:
        with self._guard:
            if self._thread is None:
                self._thread = _LoopThread()
            return self._thread

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return self._loop().submit(work)

    def close(self) -> None:
        """Stop what still runs and give back the model, the workers and the thread; a `with` block does it.

        Closing twice does nothing; a closed agent that is used again starts anew.
        """
        with self._guard:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop(self._aclose())

    def __del__(self) -> None:
        """An agent that nobody closed gives its worker processes back, too; it waits for nothing."""
        thread = getattr(self, "_thread", None)  # absent when `__init__` refused its arguments
        if thread is not None and not sys.is_finalizing():
            model = self._model if self._model is not self._given else None
            thread.end_after(_give_back(self._workers, model))

    async def _aclose(self) -> None:
        for run in list(self._running):
            run.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await _give_back(self._workers, self._model if self._model is not self._given else None)
        self._workers = self._model = self._capabilities = None
        self._connecting = asyncio.Lock()  # the old one belongs to the event loop that ends now

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def _give_back(workers: WorkerPool | None, model: Model | None) -> None:
    if workers is not None:
        await workers.close()
    if model is not None:
        await model.close()


_agents: weakref.WeakSet[Orion] = weakref.WeakSet()
_of_the_parent: list[object] = []


def _after_fork() -> None:
    """In a forked child no thread of the parent runs: its agents would wait for theirs for ever, so they begin anew."""
    for agent in list(_agents):
        # Kept, because their destructors would act on processes and connections that the parent goes on using.
        _of_the_parent.append((agent._thread, agent._model, agent._workers, agent._running, agent._guard))
        agent._running = set()
        agent._begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _ignore(_event: Event) -> None:
    return None


def _catalogue(tools: Sequence[Callable[..., Any]]) -> dict[str, Toolset]:
    known = discover()
    taken = {as_tool(function).name: f"the toolset {name}" for name, ts in known.items() for function in ts.tools}
    for function in tools:
        made = as_tool(function)
        made.wire()  # a tool that cannot be described is refused here, not in the middle of a run
        if made.name in taken:
            raise UserError(
                f"{taken[made.name]} has a tool named {made.name!r} already",
                param="tools",
                fix="Rename yours, or give it another name with @tool(name=…).",
            )
        taken[made.name] = "your list"
    return {**known, YOURS: Toolset(YOURS, "functions of this program", tuple(tools))}


class _LoopThread:
    """An event loop on a thread of its own: what makes the sync API work in scripts, notebooks and async code alike."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="orion", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, function: Callable[[], object]) -> None:
        """Call a plain function on the loop."""
        self._loop.call_soon_threadsafe(function)

    def stop(self, last: Coroutine[Any, Any, None]) -> None:
        """Do `last`, end the loop and the thread; waits at most `CLOSE_SECONDS`."""

        try:
            self.submit(last).result(CLOSE_SECONDS)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CLOSE_SECONDS)

    def end_after(self, last: Coroutine[Any, Any, None]) -> None:
        """Do `last` and end the loop and the thread, without waiting for it."""

        async def end() -> None:
            try:
                await last
            finally:
                self._loop.stop()

        self.submit(end())
