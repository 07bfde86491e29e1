"""The loop: ask for an action, act, observe, until there is an answer or a limit."""

from __future__ import annotations

import json
from collections import Counter

from orion.actors import READY, CallTools
from orion.errors import ContextOverflow, ModelError, OrionError, SchemaError, Stop
from orion.events import Compacted, TurnEnded
from orion.job import Job
from orion.output import accept
from orion.run import Observation, Step, Turn
from orion.sight import shown
from orion.types import Message
from orion.wire import CUT, Reply

HINT_AT, STOP_AT = 2, 3
"""How often the same action may bring the same observation: then a hint, then the end."""
HINT = "\nYou already have this result. Use it, or do something else."


async def loop(job: Job, actor: CallTools) -> None:
    """Run turns until `Run.stop` is set. The model's failures and all limits end in a reason, never in an exception."""
    seen: Counter[str] = Counter()
    invalid = 0
    try:
        while job.run.stop is None:
            _check_limits(job)
            turn = await think(job, actor)
            job.emit(TurnEnded(len(job.run.steps), turn))
            step = Step(turn=turn)
            job.run.steps.append(step)
            try:
                await _follow(job, actor, step, seen)
            finally:  # also the step that ends the run, or is cancelled midway, belongs into the trace
                job.trace.step(step)
            invalid = invalid + 1 if turn.problem else 0
            if invalid >= job.run.limits.invalid_turns:
                raise Stop("invalid_turns", turn.problem or "")
    except Stop as stop:
        job.run.stop, job.run.detail = stop.reason, stop.detail
    except ContextOverflow as error:
        job.run.stop, job.run.detail = "context_full", str(error)
    except ModelError as error:
        job.run.stop, job.run.detail = "model_failed", str(error)


def _check_limits(job: Job) -> None:
    run, limits = job.run, job.run.limits
    if len(run.steps) >= limits.steps:
        raise Stop("steps", f"{limits.steps} turns were used")
    if run.usage.total_tokens >= limits.tokens:
        raise Stop("tokens", f"{run.usage.total_tokens} of {limits.tokens} tokens were used")
    if job.seconds_left() <= 0:
        raise Stop("wall_clock", f"{limits.seconds:g} s passed")


async def think(job: Job, actor: CallTools) -> Turn:
    """The model's next turn. One that only repeats an earlier call is asked for once more, with that tool left out:
    a small model often asks for what it just got, and bound to the other actions it moves on.
    """
    turn = actor.read(await _reply(job, actor))
    repeated = actor.repeated(turn)
    if repeated is None:
        return turn
    second = actor.read(await _reply(job, actor, without=repeated))
    second.usage = turn.usage + second.usage
    second.seconds += turn.seconds
    return second


async def _reply(job: Job, actor: CallTools, without: str | None = None) -> Reply:
    """The model's next reply."""
    removed = job.transcript.compact(job.run.limits.answer_tokens)
    if removed:
        job.emit(Compacted(removed))
    try:
        reply = await job.ask("turn", actor.ask(without), seconds=max(job.seconds_left(), 0.1))
    except ModelError as error:
        overflow = isinstance(error, ContextOverflow)
        if error.status == 400 and not overflow and actor.answer_inline and job.output is not None:
            actor.answer_inline = False  # a grammar this server cannot build: the answer gets a call of its own
            return await _reply(job, actor, without)
        if job.seconds_left() <= 0:
            raise Stop("wall_clock", f"{job.run.limits.seconds:g} s passed") from error
        raise
    return reply


async def _follow(job: Job, actor: CallTools, step: Step, seen: Counter[str]) -> None:
    """What comes of a turn: an answer, observations, or a word to the model about what was wrong."""
    turn, transcript = step.turn, job.transcript
    transcript.add(actor.said(turn))
    if turn.problem is not None:
        transcript.add(Message.text("user", f"{turn.problem} Reply with one action or the answer."))
    elif turn.final is not None:
        _finish(job, turn)
    else:
        step.observations = await actor.act(turn)
        repeats = _repeats(seen, turn, step.observations)
        for message, stub in actor.observed(turn, step.observations):
            transcript.add(message, stub=stub)
        images = [id_ for observation in step.observations for id_ in observation.show]
        if images and actor.sees:
            transcript.add(await _picture(job, images), stub=f"[{', '.join(images)} was shown here]")
        if repeats >= STOP_AT:
            raise Stop("no_progress", f"the same action brought the same result {repeats} times")


async def _picture(job: Job, images: list[str]) -> Message:
    try:
        return await shown(job, images)
    except OrionError as error:
        return Message.text("user", f"{', '.join(images)} cannot be shown: {error}")


def _finish(job: Job, turn: Turn) -> None:
    """Take the turn's answer when it is valid; otherwise the output phase asks for it."""
    job.run.stop = "answered"
    if turn.final == READY and (job.output is not None or turn.finish_reason in CUT):
        return
    try:
        value, problems = accept(job, turn.final)
    except SchemaError:  # the schema wants an artifact that was never made; the output phase says so
        return
    if not problems:
        job.run.output = value


def _repeats(seen: Counter[str], turn: Turn, observations: list[Observation]) -> int:
    """How often the most repeated action of this turn brought the same; the second time the model gets a hint."""
    most = 0
    for call, observation in zip(turn.calls, observations, strict=True):
        key = json.dumps([call.tool, call.arguments, observation.text], sort_keys=True)
        seen[key] += 1
        most = max(most, seen[key])
        if seen[key] == HINT_AT:
            observation.text += HINT
    return most
