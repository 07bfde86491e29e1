"""The steps of a run on a terminal, one line each, as they happen."""

from __future__ import annotations

import time
from typing import TextIO

from orion import events as ev
from orion.console import Pen, StatusLine
from orion.run import Observation, Run
from orion.words import artifact_words, call_words, count, harmless, shorten

RESULT_CHARS = 100
"""Characters shown of what an action brought back."""


class LiveSteps:
    """Writes one line an event to `stream`; `tick()` keeps the seconds of the last line moving."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._pen = Pen(stream)
        self._status = StatusLine(stream)
        self._doing = "starting"
        self._since = time.monotonic()
        self._names: dict[str, str] = {}
        self._thought: dict[int, float] = {}  # seconds of the model in a step, until shown
        self._written = 0

    def show(self, event: ev.Event) -> None:
        """Show one event of `Orion.stream`."""
        match event:
            case ev.Started():
                self._print(self._pen.dim(f"{event.model} · run {event.run_id}"))
                self._do("reading the files")
            case ev.Attached():
                self._attached(event)
            case ev.Looked():
                name = self._names.get(event.artifact_id, event.artifact_id)
                self._step("look", name, event.observation, 0.0)
            case ev.Selected():
                by = " (chosen by the model)" if event.asked_model else ""
                self._print(f"{'tools':>5}  {', '.join(event.toolsets) or 'none'}{self._pen.dim(by)}")
                self._do("thinking")
            case ev.TurnEnded():
                self._turn(event)
            case ev.ToolStarted():
                self._do(call_words(event.call, self._names))
            case ev.ToolEnded():
                thought = self._thought.pop(event.index, 0.0)
                self._step(str(event.index + 1), call_words(event.call, self._names), event.observation, thought)
                self._do("thinking")
            case ev.Compacted():
                self._print(self._pen.dim(f"{'':>5}  {count(event.messages, 'old message')} left out to make room"))
            case ev.Answering():
                self._written = 0
                self._do("writing the answer" if event.attempt == 1 else f"writing the answer, try {event.attempt}")
            case ev.TextDelta():
                self._written += len(event.text)
            case ev.Finished():
                self._status.clear()
                self.summary(event.result.run)

    def tick(self) -> None:
        """Show what is going on, and for how long."""
        written = f" · {self._written:,} characters" if self._written else ""
        self._status.show(f"{'…':>5}  {harmless(self._doing)} {time.monotonic() - self._since:.0f} s{written}")

    def close(self) -> None:
        """Leave a clean line behind, however the run ended."""
        self._status.clear()

    def summary(self, run: Run) -> None:
        """The last line: how the run ended and what it cost."""
        self._print(summary_line(run, self._pen))

    def _attached(self, event: ev.Attached) -> None:
        artifact = event.artifact
        name = shorten(artifact.name or artifact.id, 60)
        self._names[artifact.id] = name
        self._print(f"{'file':>5}  {name}  {self._pen.dim(f'{artifact_words(artifact)} · {artifact.id}')}")

    def _turn(self, event: ev.TurnEnded) -> None:
        self._thought[event.index] = event.turn.seconds
        self._written = 0
        if event.turn.problem:
            problem = shorten(event.turn.problem, RESULT_CHARS)
            self._print(f"{event.index + 1:>5}  {self._pen.yellow('no usable action')} {problem}")
        self._do("thinking")

    def _step(self, mark: str, what: str, observation: Observation, thought: float) -> None:
        text = shorten(observation.text, RESULT_CHARS)
        if observation.error:
            text = self._pen.red(f"{observation.error}: ") + text
        seconds = self._pen.dim(f"{thought + observation.seconds:.1f} s")
        self._print(f"{mark:>5}  {self._pen.bold(what)} → {text}  {seconds}")

    def _do(self, what: str) -> None:
        self._doing, self._since = what, time.monotonic()
        self.tick()

    def _print(self, line: str) -> None:
        self._status.clear()
        print(line, file=self._stream, flush=True)


def summary_line(run: Run, pen: Pen) -> str:
    """How a run ended and what it cost, in one line.

    >>> import io
    >>> summary_line(Run(id="run_1", prompt="hi", stop="answered", seconds=1.25), Pen(io.StringIO()))
    '    ✓  answered · 0 steps · 0 model calls · 0 tokens · 1.2 s'
    """
    facts = [
        count(len(run.steps), "step"),
        count(run.usage.calls, "model call"),
        count(run.usage.total_tokens, "token"),
        f"{run.seconds:.1f} s",
    ]
    if run.stop == "answered":
        return f"    {pen.green('✓')}  answered · {' · '.join(facts)}"
    return f"    {pen.yellow('!')}  {pen.yellow(run.stop or 'running')} · {' · '.join(facts)}"
