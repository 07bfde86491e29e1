"""What a run brings back: the answer, what was made, what it cost; it shows itself in a notebook."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orion.artifacts import Artifact, ArtifactStore
from orion.errors import StopReason
from orion.run import JSON, Run, Step, Usage

REPR_CHARS = 200
"""Characters of the answer in `repr(result)`."""


@dataclass(frozen=True, repr=False)
class Result:
    """The end of a run. `run` has everything as plain data; the rest is for convenience."""

    run: Run
    store: ArtifactStore
    trace: Path
    """The run's `trace.jsonl`."""
    output: Any = None
    """The answer: an object of the asked type, a JSON value, or text; None when there is none (see `stop`)."""
    made: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The answer as text: JSON when it is not text already, empty when there is none."""
        value: JSON = self.run.output
        if value is None:
            return ""
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    @property
    def artifacts(self) -> list[Artifact]:
        """What the run made, in order; the inputs are in `inputs`."""
        return [self.store.get(id_) for id_ in self.made]

    @property
    def inputs(self) -> list[Artifact]:
        """The attached files."""
        return [self.store.get(id_) for id_ in self.run.inputs]

    @property
    def steps(self) -> list[Step]:
        """Turns and observations."""
        return self.run.steps

    @property
    def usage(self) -> Usage:
        """Tokens and model calls."""
        return self.run.usage

    @property
    def stop(self) -> StopReason | None:
        """Why the run ended; "answered" when all went well."""
        return self.run.stop

    def save(self, folder: str | Path) -> Path:
        """Write `answer.json` (or `.txt`), `trace.jsonl` and the artifacts the run made into a folder; returns it."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        if isinstance(self.run.output, str):
            (folder / "answer.txt").write_text(self.run.output + "\n", encoding="utf-8")
        elif self.run.output is not None:
            answer = json.dumps(self.run.output, ensure_ascii=False, indent=2)
            (folder / "answer.json").write_text(answer + "\n", encoding="utf-8")
        shutil.copyfile(self.trace, folder / "trace.jsonl")
        for artifact in self.artifacts:
            shutil.copyfile(self.store.path(artifact.id), folder / file_name(artifact))
        return folder

    def __repr__(self) -> str:
        """One line: the whole run would be pages; it is in `run`."""
        text = self.text if len(self.text) <= REPR_CHARS else f"{self.text[:REPR_CHARS]}…"
        counted = f"{self.usage.calls} calls, {self.usage.total_tokens} tokens, {self.run.seconds:g} s"
        return f"<Result {self.stop}: {text!r} ({counted})>"

    def _repr_html_(self) -> str:
        from orion.notebook import run_html

        return run_html(self.run, self.store)


def file_name(artifact: Artifact) -> str:
    """A file name for an artifact: its id and the ending of its type.

    >>> file_name(Artifact(id="img_0a1b2c", kind="image", media_type="image/png", size=1, sha256=""))
    'img_0a1b2c.png'
    """
    import mimetypes

    return artifact.id + (mimetypes.guess_extension(artifact.media_type) or "")
