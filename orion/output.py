"""The final answer: taken from the last turn when it is valid, else one tool-free call, validated and repaired."""

from __future__ import annotations

from orion import prompts
from orion.actors import CUT_SHOWN, CallTools
from orion.errors import ContextOverflow, ModelError, SchemaError, Stop, StopReason
from orion.events import Answering
from orion.job import Job
from orion.run import JSON
from orion.salvage import Missing, find_final, parse_json, split_think
from orion.schema import OutputSchema
from orion.types import Message
from orion.wire import CUT, Ask, Reply

GRACE_SECONDS = 60.0
"""Time for the answer of a run that already used up its own."""
NO_ANSWER_AFTER = frozenset({"cancelled", "model_failed", "context_full"})
"""Stop reasons after which the model is not asked again."""
CUT_OFF = "Your last answer went on without end. Give only what was asked, list each thing once, then stop."
LOOP_PENALTY = 0.4
"""`frequency_penalty` of the try after an answer that ran to its token limit: such answers mostly repeat themselves."""


def accept(job: Job, value: JSON) -> tuple[JSON, list[str]]:
    """An answer put right where that is safe, and what is still wrong with it. JSON within text is found."""
    if job.output is None:
        text = value if isinstance(value, str) else prompts.plain(value)
        action = parse_json(text, want="object")
        if isinstance(action, dict) and action.keys() == {"tool", "arguments"}:
            return None, ["that is a tool call; no tool can be called any more, so answer in plain words"]
        return text, [] if text.strip() else ["the answer is empty"]
    output = job.current_output()
    fixed = output.coerce(value)
    problems = output.problems(fixed)
    if problems and isinstance(value, str) and not isinstance(inner := parse_json(value), Missing):
        unwrapped = output.coerce(inner)
        of_inner = output.problems(unwrapped)
        if not of_inner or not isinstance(inner, str):
            fixed, problems = unwrapped, of_inner
    return fixed, problems or _refused(job, fixed)


def _refused(job: Job, value: JSON) -> list[str]:
    """What the asked Python type's own validators say against a value that fits its schema."""
    try:
        if job.format is not None:
            job.format.load(value)
    except SchemaError as error:
        return [error.message]
    return []


async def answer(job: Job, actor: CallTools) -> None:
    """Fill `Run.output` by asking for it, at most `1 + Limits.repairs` times.

    Never leaves an invalid value: when no try is valid, the run stops with `schema_unsatisfied` and no output.
    """
    run = job.run
    if run.output is not None or run.stop in NO_ANSWER_AFTER:
        return
    try:
        output = job.current_output() if job.output else None
    except SchemaError as error:
        run.stop, run.detail = "schema_unsatisfied", str(error)
        return
    if output is not None:
        run.unchecked_by_grammar = list(output.unchecked)
    fields = f"Its fields:\n{output.outline()}" if output else ""
    was_cut = bool(run.steps) and run.steps[-1].turn.finish_reason in CUT
    text = prompts.render("answer", fields=fields).rstrip()
    message = Message.text("user", f"{text}\n{CUT_OFF}" if was_cut else text)
    extra: dict[str, JSON] = {"frequency_penalty": LOOP_PENALTY} if was_cut else {}
    problems: list[str] = []
    for attempt in range(1, run.limits.repairs + 2):
        job.transcript.add(message)
        job.emit(Answering(attempt))
        reply = await _ask(job, actor, output, extra)
        if reply is None:
            return
        value, problems = _judge(job, reply)
        said = reply.text if reply.finish_reason not in CUT else f"{reply.text[:CUT_SHOWN]} …"
        job.transcript.add(Message.assistant(said or "(nothing)"))
        if not problems:
            run.output = value
            run.stop = run.stop or "answered"
            return
        extra = {"frequency_penalty": LOOP_PENALTY} if reply.finish_reason in CUT else {}
        message = Message.text("user", prompts.render("repair", problems="\n".join(f"- {line}" for line in problems)))
    run.stop = run.stop if run.stop not in (None, "answered") else "schema_unsatisfied"
    run.detail = run.detail or "; ".join(problems)


async def _ask(job: Job, actor: CallTools, output: OutputSchema | None, extra: dict[str, JSON]) -> Reply | None:
    """One try. None when the model can no longer answer; the run then says why."""
    limits = job.run.limits
    try:
        job.transcript.compact(limits.answer_tokens)
        ask = Ask(
            job.transcript.messages(),
            max_tokens=limits.answer_tokens,
            schema=output.grammar if output else None,
            # The same tools, switched off: leaving them out would change the prompt's start and lose its cache.
            tools=actor.wire() if actor.native else (),
            tool_choice="none" if actor.native and actor.wire() else None,
            extra=extra,
        )
        reply = await job.ask("answer", ask, seconds=max(job.seconds_left(), GRACE_SECONDS))
    except Stop as stop:
        _stopped(job, stop.reason, stop.detail)
        return None
    except ModelError as error:
        _stopped(job, "context_full" if isinstance(error, ContextOverflow) else "model_failed", str(error))
        return None
    return reply


def _stopped(job: Job, reason: StopReason, detail: str) -> None:
    """Keep the first reason a run ended for: a limit stays the reason even when the answer then fails too."""
    if job.run.stop in (None, "answered"):
        job.run.stop, job.run.detail = reason, detail


def _judge(job: Job, reply: Reply) -> tuple[JSON, list[str]]:
    text, _thought = split_think(reply.text)
    if job.output is None:
        if reply.finish_reason in CUT and text.strip():
            return text.strip(), []  # a long text that was cut is still the best there is
        said = find_final(text)  # a model that was told to answer {"final": …} may still do so
        return accept(job, text.strip() if isinstance(said, Missing) else said)
    # With thinking switched off some servers put the constrained answer into the reasoning field.
    value = parse_json(text) if text.strip() else parse_json(reply.reasoning)
    if reply.finish_reason in CUT:
        return None, [CUT_OFF]
    if isinstance(value, Missing):
        return None, ["it is not JSON"]
    return accept(job, value)
