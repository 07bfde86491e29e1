"""`trace.jsonl`: one line per event, written as the run goes; read back as a `Run`, or replayed without a model."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from orion.artifacts import disk_errors
from orion.errors import UserError
from orion.run import JSON, Observation, Run, Step, Usage
from orion.types import encode
from orion.wire import NativeCall, Reply

log = logging.getLogger(__name__)

FORMAT = 1
Purpose = Literal["select", "turn", "answer"]
"""What a model call was for."""


class TraceWriter:
    """Appends to one trace file. Every line is flushed, so that a killed run leaves all it did."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with disk_errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered: what a full disk did not take must not come again when the file is closed.
            self._file = path.open("ab", buffering=0)

    def start(self, run: Run) -> None:
        """The request, before anything happened."""
        self._line({"event": "start", "format": FORMAT, "run": run.model_dump(mode="json")})

    def looks(self, run: Run) -> None:
        """The first looks and the toolsets chosen."""
        looks = [look.model_dump(mode="json", exclude_defaults=True) for look in run.looks]
        self._line({"event": "looks", "looks": looks, "toolsets": run.toolsets, "inputs": run.inputs})

    def reply(self, purpose: Purpose, reply: Reply) -> None:
        """What the model said, word for word: enough to replay the run."""
        calls = [[call.id, call.name, call.arguments] for call in reply.calls]
        line = {"event": "reply", "purpose": purpose, "text": reply.text, "reasoning": reply.reasoning, "calls": calls}
        usage = reply.usage.model_dump(mode="json")
        self._line({**line, "finish_reason": reply.finish_reason, "usage": usage, "seconds": round(reply.seconds, 4)})

    def step(self, step: Step) -> None:
        """A turn and its observations."""
        self._line({"event": "step", "step": step.model_dump(mode="json", exclude_defaults=True)})

    def end(self, run: Run) -> None:
        """How the run ended."""
        self._line({"event": "end", "run": run.model_dump(mode="json", exclude={"steps", "looks"})})

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _line(self, value: dict[str, JSON]) -> None:
        line = memoryview(encode(value) + b"\n")
        with disk_errors():
            while line:
                line = line[self._file.write(line) :]


def read_trace(path: Path) -> Run:
    """The run a trace file tells of. A file cut at the end (`kill -9`) gives what was done until then.

    Raises:
        UserError: the file is missing or is no trace.
    """
    run: Run | None = None
    try:
        for line in _lines(path):
            match line["event"]:
                case "start":
                    run = Run.model_validate(line["run"])
                case "looks" if run is not None:
                    run.looks = [Observation.model_validate(look) for look in line["looks"]]
                    run.toolsets, run.inputs = line["toolsets"], line["inputs"]
                case "step" if run is not None:
                    run.steps.append(Step.model_validate(line["step"]))
                case "end" if run is not None:
                    run = Run.model_validate({**line["run"], "steps": run.steps, "looks": run.looks})
    except (ValidationError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not a trace of Orion: {error}", param="trace") from error
    if run is None:
        raise UserError(f"{path} is not a trace of Orion", param="trace", fix="Give a trace.jsonl.")
    return run


def read_replies(path: Path) -> list[Reply]:
    """What the model said in a run, in order: `orion.scripted.ScriptedModel` says it again, without a model.

    Raises:
        UserError: the file is missing or is no trace.
    """
    try:
        return [
            Reply(
                text=line["text"],
                reasoning=line["reasoning"],
                calls=[NativeCall(*call) for call in line["calls"]],
                finish_reason=line["finish_reason"],
                usage=Usage.model_validate(line["usage"]),
                seconds=line["seconds"],
            )
            for line in _lines(path)
            if line["event"] == "reply"
        ]
    except (ValidationError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not a trace of Orion: {error}", param="trace") from error


def _lines(path: Path) -> Iterator[dict[str, JSON]]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", param="trace") from error
    *whole, rest = data.split(b"\n")
    if rest:
        log.warning("the last line of %s is incomplete and was left out", path.name)
    for number, raw in enumerate(whole, 1):
        try:
            line = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise UserError(f"line {number} of {path} is not JSON", param="trace") from error
        if not isinstance(line, dict) or "event" not in line:
            raise UserError(f"line {number} of {path} is no event of a trace", param="trace")
        yield line
