"""What the agent can do: the actor asks the model for an action, reads its turn, and turns calls into observations."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from typing import Any

from orion import prompts
from orion.errors import NotConfigured, OrionError, SchemaError, ToolFailed, ToolRetry
from orion.events import ToolEnded, ToolStarted
from orion.job import Job
from orion.lenient import whole_characters
from orion.run import JSON, Call, Observation, Turn
from orion.salvage import Missing, find_calls, find_final, parse_json, split_think
from orion.toolkit import ADD_TOOLSET, offer, summaries, usable, waiting
from orion.toolrun import run_tool
from orion.types import Message
from orion.wire import CUT, Ask, Reply
from orion.worker import WorkerDied, WorkerError, WorkerTimeout

ARGUMENT_CHARS = 400
"""Longest text argument a grammar lets a model write; unbounded text is where small models run away."""
ARGUMENT_ITEMS = 32
REQUEST_CHARS = 400
"""Characters of the request that are repeated with each observation."""
READY = "ready"
"""Stands for the answer in an action schema that cannot hold the answer's own."""
CUT_SHOWN = 200
"""Characters of a turn that was cut off which stay in the transcript."""
FIXABLE = frozenset({"retry", "bad_arguments", "unknown_tool"})
"""Errors of a call which the model can put right by itself."""
TRUNCATED = "Your reply was cut off at the token limit, so nothing was done. Reply again, shorter."
NO_ACTION = "Your reply held no action."
UNREAD = "Nothing was seen of the attached files yet. Call a tool first."
UNCORRECTED = "Your last call was wrong and brought nothing. Correct it first."


class CallTools:
    """Orion-1: the model names a tool and its arguments, Orion runs it.

    An action is asked for in one of two ways. `native=False`: a JSON schema of this step's tools and ids binds the
    reply. `native=True`: the server's own tool calls. In both, calls found in plain text are salvaged.
    """

    def __init__(self, job: Job, *, native: bool, sees: bool) -> None:
        self.job = job
        self.native = native
        self.sees = sees
        """Whether the model takes images."""
        self.answer_inline = not native
        """Whether the answer's own schema is one arm of the action schema; off when a server refuses that."""

    def system(self) -> str:
        """The system prompt: the action space in words."""
        if self.native:
            return prompts.render("act_native")
        # With files the first look mostly settles it; without, a small model would rather guess than call a tool.
        name = "act_files" if self.job.run.inputs else "act_plain"
        return prompts.render(name, tools="\n".join(self._lines()))

    def _lines(self) -> list[str]:
        lines = [tool.line() for tool in self.job.offered()]
        more = waiting(self.job)
        if more:
            lines.append(f"{ADD_TOOLSET}(name: {'|'.join(more)}): Get more tools: {summaries(self.job, more)}")
        return lines

    # ---- asking -----------------------------------------------------------------------------------------------

    def ask(self, without: str | None = None) -> Ask:
        """The request for the next action; `without` names a tool that is not on offer this time (schema mode)."""
        limits, messages = self.job.run.limits, self.job.transcript.messages()
        if self.native:
            tools = self.wire()
            choice: Any = "auto" if tools else None
            return Ask(messages, max_tokens=limits.answer_tokens, tools=tools, tool_choice=choice)
        schema = self.action_schema(without)
        inline = self.answer_inline and self.may_answer()
        return Ask(messages, max_tokens=limits.answer_tokens if inline else limits.action_tokens, schema=schema)

    def wire(self) -> list[dict[str, JSON]]:
        """The tools in OpenAI form, sorted by name; the same for every call until a toolset is added."""
        tools = [tool.wire() for tool in sorted(self.job.tools.values(), key=lambda tool: tool.name)]
        more = waiting(self.job)
        if more:
            tools.append(_add_toolset_wire(self.job, more))
        return tools

    def action_schema(self, without: str | None = None) -> dict[str, JSON]:
        """`anyOf {final} | {tool: const, arguments}` for this step, with the ids that exist as enums."""
        arms: list[JSON] = []
        defs: dict[str, JSON] = {}
        if self.may_answer():
            final, defs = self._final_arm()
            arms.append(_object({"final": final}))
        offered = self.job.offered()
        others = [tool for tool in offered if tool.name != without]
        for tool in others if others or arms else offered:
            arguments = bounded(tool.schema(self.job.ids_for(tool)))
            arms.append(_object({"tool": {"const": tool.name}, "arguments": arguments}))
        more = waiting(self.job)
        if more:
            name = _object({"name": {"type": "string", "enum": more}})
            arms.append(_object({"tool": {"const": ADD_TOOLSET}, "arguments": name}))
        schema: dict[str, JSON] = arms[0] if len(arms) == 1 else {"anyOf": arms}
        return {**schema, "$defs": defs} if defs else schema

    def may_answer(self) -> bool:
        """Whether an answer is on offer.

        Not before the attached media were read, by the first look or by a tool; and not right after a call that was
        wrong, which a small model would rather talk about than correct. Native models are trusted to know.
        """
        if self.native:
            return True
        steps = self.job.run.steps
        if steps and steps[-1].observations and all(seen.error in FIXABLE for seen in steps[-1].observations):
            before = steps[-2].observations if len(steps) > 1 else []
            return bool(before) and all(seen.error in FIXABLE for seen in before)
        return not self.job.unread or any(step.observations for step in steps)

    def repeated(self, turn: Turn) -> str | None:
        """The tool of a turn that asks again for what an earlier call already brought (schema mode)."""
        if self.native or len(turn.calls) != 1:
            return None
        call = turn.calls[0]
        for step in self.job.run.steps:
            for earlier, seen in zip(step.turn.calls, step.observations, strict=False):
                if seen.error is None and earlier.tool == call.tool and earlier.arguments == call.arguments:
                    return call.tool
        return None

    def _final_arm(self) -> tuple[JSON, dict[str, JSON]]:
        if self.job.output is None:
            return {"type": "string"}, {}
        if not self.answer_inline:
            return {"const": READY}, {}
        try:
            grammar = dict(self.job.current_output().grammar)
        except SchemaError:  # it wants the id of a kind this run has none of yet: a tool may still make one
            return {"const": READY}, {}
        return grammar, grammar.pop("$defs", {})

    # ---- reading ----------------------------------------------------------------------------------------------

    def read(self, reply: Reply) -> Turn:
        """The model's reply as a turn: calls, or an answer, or why it is neither."""
        text, thought = split_think(reply.text)
        turn = Turn(
            text=text,
            reasoning=whole_characters(reply.reasoning) or thought,
            finish_reason=reply.finish_reason,
            usage=reply.usage,
            seconds=reply.seconds,
        )
        if reply.finish_reason in CUT:
            self._cut_off(turn)
        elif reply.calls:
            self._native_calls(turn, reply)
        else:
            self._salvage(turn)
        return turn

    def _cut_off(self, turn: Turn) -> None:
        """A turn that is not whole is never acted upon. One that was an answer goes to the output phase."""
        if re.match(r'\s*\{\s*"final"', turn.text) or (self.native and not turn.calls and self.may_answer()):
            turn.final = READY
        else:
            turn.problem = TRUNCATED

    def _native_calls(self, turn: Turn, reply: Reply) -> None:
        for position, native in enumerate(reply.calls):
            arguments = parse_json(native.arguments or "{}", want="object")
            name = whole_characters(native.name)
            if isinstance(arguments, Missing) or not isinstance(arguments, dict):
                turn.problem = f"The arguments of {name[:80]} are not a JSON object."
                turn.calls.clear()
                return
            name = name or self._guess(arguments)
            call_id = whole_characters(native.id) or f"call_{len(self.job.run.steps)}_{position}"
            turn.calls.append(Call(tool=name, arguments=arguments, id=call_id))

    def _guess(self, arguments: dict[str, JSON]) -> str:
        """A lost tool name, when exactly one tool on offer takes these arguments."""
        fits = [tool.name for tool in self.job.offered() if set(arguments) <= {param.name for param in tool.params()}]
        return fits[0] if len(fits) == 1 else ""

    def _salvage(self, turn: Turn) -> None:
        action = parse_json(turn.text)
        if isinstance(action, dict) and action.keys() == {"final"}:
            turn.final = action["final"]
        elif found := find_calls(turn.text, turn.reasoning, known=[*self.job.tools, ADD_TOOLSET]).calls:
            turn.calls = found
            turn.salvaged = self.native
        elif turn.text.strip():
            final = find_final(turn.text)
            turn.final = turn.text.strip() if isinstance(final, Missing) else final
        else:
            turn.problem = NO_ACTION
        if turn.final is None and not turn.calls:  # also `null`, which may be right: the output phase finds out
            turn.final, turn.problem = (READY, None) if self.job.output is not None and turn.text else (None, NO_ACTION)
        if turn.final is not None and not self.may_answer():
            turn.final = None
            turn.problem = UNREAD if not any(step.observations for step in self.job.run.steps) else UNCORRECTED

    # ---- acting -----------------------------------------------------------------------------------------------

    def said(self, turn: Turn) -> Message:
        """The turn as the assistant message of the transcript."""
        if self.native and turn.calls and not turn.salvaged:
            return Message.assistant(turn.text, turn.calls)
        text = turn.text if turn.finish_reason not in CUT else f"{turn.text[:CUT_SHOWN]} …"
        return Message.assistant(text or turn.reasoning[:CUT_SHOWN] or "(nothing)")

    async def act(self, turn: Turn) -> list[Observation]:
        """Run the turn's calls, at most `Limits.parallel_tools` at once; observations in the order of the calls."""
        gate = asyncio.Semaphore(self.job.run.limits.parallel_tools)

        async def one(call: Call) -> Observation:
            async with gate:
                return await self._observe(call)

        return list(await asyncio.gather(*map(one, turn.calls)))

    def observed(self, turn: Turn, observations: Sequence[Observation]) -> list[tuple[Message, str]]:
        """The observations as messages, each with the stub that may replace it later."""
        native = self.native and not turn.salvaged
        messages = []
        for call, seen in zip(turn.calls, observations, strict=True):
            stub = f"[the result of {call.tool} was left out to save room; call it again if you need it]"
            words = prompts.defused(seen.text)
            text = words if native else self._observation(call, words)
            messages.append((Message.tool(call.id, text) if native else Message.text("user", text), stub))
        return messages

    def _observation(self, call: Call, words: str) -> str:
        """An observation with the request repeated: a small model loses sight of it after a long text."""
        request = self.job.run.prompt[:REQUEST_CHARS]
        return prompts.render("observed", tool=call.tool, text=words, request=request)

    async def _observe(self, call: Call) -> Observation:
        index = len(self.job.run.steps) - 1
        self.job.emit(ToolStarted(index, call))
        began = time.monotonic()
        observation = await self._attempt(call)
        if observation.error is not None:  # words of a tool may be anything and any number
            observation.text = whole_characters(observation.text)[: self.job.run.limits.observation_chars]
        observation.tool = call.tool
        observation.seconds = round(time.monotonic() - began, 4)
        self.job.emit(ToolEnded(index, call, observation))
        return observation

    async def _attempt(self, call: Call) -> Observation:
        """One call, with every way it can fail put into words for the model."""
        if call.tool == ADD_TOOLSET:
            return self._add_toolset(call)
        tool = self.job.tools.get(call.tool)
        if tool is None:
            known = ", ".join(made.name for made in self.job.offered())
            return Observation(text=f"There is no tool {call.tool!r}. Tools: {known}.", error="unknown_tool")
        try:
            arguments = tool.bind(call.arguments, self.job.ids, self.job.names)
        except ToolRetry as error:
            return Observation(text=f"Error: {error}", error="bad_arguments")
        try:
            return await run_tool(self.job, tool, arguments)
        except ToolRetry as error:
            return Observation(text=f"Error: {error}", error="retry")
        except WorkerTimeout as error:
            return Observation(text=f"Error: {tool.name} gave {error}; it was stopped.", error="timeout")
        except (WorkerDied, WorkerError, ToolFailed, NotConfigured, OrionError) as error:
            return Observation(text=f"Error: {tool.name} failed: {error}", error="failed")

    def _add_toolset(self, call: Call) -> Observation:
        name = str(call.arguments.get("name", "")).strip().lower().replace("_", "-")
        more = waiting(self.job)
        if name not in more:
            return Observation(
                text=f"Error: there is no toolset {name!r} to add. Known: {more}.", error="bad_arguments"
            )
        offer(self.job, [name])
        lines = "\n".join(tool.line() for tool in usable(self.job.catalogue[name]))
        return Observation(text=f"Added {name}. More tools:\n{lines}")


def _object(properties: dict[str, JSON]) -> dict[str, JSON]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def bounded(schema: JSON) -> JSON:
    """A tool's argument schema with text and lists bounded, so that a reply under a grammar must end.

    >>> bounded({"type": "string"})
    {'type': 'string', 'maxLength': 400}
    """
    if isinstance(schema, list):
        return [bounded(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    walked: dict[str, JSON] = {}
    for key, value in schema.items():
        if key == "properties":  # what is in here are names, not keywords
            walked[key] = {name: bounded(field) for name, field in value.items()}
        elif key != "default":
            walked[key] = value if key in ("enum", "const") else bounded(value)
    if walked.get("type") == "string" and "enum" not in walked:
        walked.setdefault("maxLength", ARGUMENT_CHARS)
    if walked.get("type") == "array":
        walked.setdefault("maxItems", ARGUMENT_ITEMS)
    return walked


def _add_toolset_wire(job: Job, more: list[str]) -> dict[str, JSON]:
    parameters = _object({"name": {"type": "string", "enum": more}})
    description = f"Get more tools. {summaries(job, more)}"
    return {"type": "function", "function": {"name": ADD_TOOLSET, "description": description, "parameters": parameters}}
