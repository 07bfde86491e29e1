"""What one way of working answered, what it cost, and tables of both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.table import share, show
from benchmarks.task import Task
from benchmarks.tasks import scorer


@dataclass
class Answer:
    """One task done in one way."""

    id: str
    content: Any = None
    """The answer: a JSON value, or text."""
    calls: int = 0
    """Requests to the model."""
    prompt_tokens: int = 0
    first_prompt_tokens: int | None = None
    """Prompt tokens of the first request; None where they are not told."""
    completion_tokens: int = 0
    seconds: float = 0.0
    invalid: int = 0
    """Actions that could not be carried out as given: unknown tool, bad arguments, nothing usable."""
    dangling: int = 0
    """References to artifacts that do not exist, in actions and in the answer."""
    error: str = ""
    """Why there is no answer, or how the run stopped."""
    passed: bool = False
    fails: str = ""
    """The checks that failed."""

    @property
    def tokens(self) -> int:
        """Prompt plus completion tokens."""
        return self.prompt_tokens + self.completion_tokens

    def line(self) -> dict[str, Any]:
        """A line of `answers.jsonl`."""
        return {"id": self.id, "content": self.content, "seconds": round(self.seconds, 2), "error": self.error}


def graded(answer: Answer, task: Task) -> Answer:
    """The answer with `passed` and `fails` filled in by the public scorer; also prints a line about it."""
    if answer.content is None:
        answer.passed, answer.fails = False, "no answer"
    else:
        verdict = scorer()(task.line(), {"id": answer.id, "content": answer.content})
        state = [verdict["json"]] if verdict["json"] != "ok" else []
        answer.passed, answer.fails = verdict["ok"], "; ".join([*state, *verdict["fails"]])
    mark = "pass" if answer.passed else "FAIL"
    why = "" if answer.passed else f" {answer.error} {answer.fails}"
    print(f"  {mark} {task.id}: {answer.calls} calls, {answer.tokens} tokens, {answer.seconds:.0f} s{why}", flush=True)
    return answer


def save(path: Path, answers: Sequence[Answer]) -> None:
    """Writes `answers.jsonl` for the public scorer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(answer.line(), ensure_ascii=False) + "\n" for answer in answers), "utf8")


def show_each(answers: Sequence[Answer], title: str) -> None:
    """One row a task."""
    head = [
        "task",
        "passed",
        "calls",
        "first prompt",
        "prompt",
        "completion",
        "seconds",
        "invalid",
        "dangling",
        "why not",
    ]
    rows = [
        [
            a.id,
            a.passed,
            a.calls,
            a.first_prompt_tokens,
            a.prompt_tokens,
            a.completion_tokens,
            round(a.seconds, 1),
            a.invalid,
            a.dangling,
            "" if a.passed else " ".join(f"{a.error} {a.fails}".split())[:110],
        ]
        for a in answers
    ]
    show(head, rows, title)


def show_sums(ways: dict[str, Sequence[Answer]], title: str) -> None:
    """One row a way of working."""
    rows = []
    for name, answers in ways.items():
        right = sum(a.passed for a in answers)
        tokens = sum(a.tokens for a in answers)
        rows.append(
            [
                name,
                share(right, len(answers)),
                sum(a.calls for a in answers),
                sum(a.prompt_tokens for a in answers),
                sum(a.completion_tokens for a in answers),
                round(tokens / right) if right else None,
                round(sum(a.seconds for a in answers) / max(1, len(answers)), 1),
                sum(a.invalid for a in answers),
                sum(a.dangling for a in answers),
            ]
        )
    head = [
        "way",
        "passed",
        "calls",
        "prompt",
        "completion",
        "tokens a right answer",
        "s a task",
        "invalid",
        "dangling",
    ]
    show(head, rows, title)
