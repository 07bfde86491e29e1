"""What a model meant, from what it wrote: JSON values, tool calls, a final answer. Pure functions that never raise.

Weak models write calls as prose, in fences, in the wrong syntax or cut short. Nothing here guesses at content: only
the wrapping is forgiven. Whether a turn may be acted on at all (`finish_reason == "length"`) is the caller's decision.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from orion.lenient import Reader, Unreadable, candidates, whole, whole_characters
from orion.run import JSON, Call
from orion.salvage_json import MISSING, Missing, parse_json, split_think

__all__ = ["MAX_CALLS", "MISSING", "Missing", "Salvaged", "find_calls", "find_final", "parse_json", "split_think"]

MAX_CALLS = 32
"""Different calls taken from one turn; a looping model writes more, and none of those matters."""


@dataclass(slots=True)
class Salvaged:
    """Calls found in a turn, and the text that is left without them."""

    calls: list[Call] = field(default_factory=list)
    rest: str = ""


def find_final(text: str) -> JSON | Missing:
    """The value of a `{"final": …}` (or "answer", "final_answer") action outside `<think>`; any other text has none.

    A thought may stand beside the answer, other fields may not: then the object is data, not an action.

    >>> find_final('<think>easy</think>```json\\n{"final": "Two pages."}\\n```')
    'Two pages.'
    >>> find_final("It has two pages.")
    MISSING
    """
    value = parse_json(split_think(text)[0])
    if isinstance(value, dict):
        said = [key for key in value if key in _FINALS]
        if len(said) == 1 and all(key in (*said, *_THOUGHTS) for key in value):
            return value[said[0]]
    return MISSING


_FINALS = ("final", "answer", "final_answer")
_THOUGHTS = ("thought", "thoughts", "reasoning")
_TAG = re.compile(r"<(tool_calls?|tools|function_calls?)>|<function=|\[TOOL_CALLS\]")
_CLOSERS = {tag: f"</{tag}>" for tag in ("tool_call", "tool_calls", "tools", "function_call", "function_calls")}
_FUNCTION = re.compile(r"<function=[\"']?([^>\s\"']{1,200})[\"']?\s{0,8}>")
_PARAMETER = re.compile(r"<parameter=[\"']?([^>\s\"']{1,200})[\"']?\s{0,8}>")
_VALUE_END = re.compile(r"</parameter>|<parameter=|</function>|</tool_call>|\Z")
_NAMES = ("tool", "name", "function")
_ARGUMENTS = ("arguments", "parameters", "args", "input")
_EMPTY_FENCE = re.compile(r"```[\w+-]{0,20}\s*+```")


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    end: int
    calls: list[Call]


def find_calls(text: str, reasoning: str = "", known: Collection[str] = ()) -> Salvaged:
    """Tool calls written into the text of a turn, in the order written, repeats dropped.

    Understood are `<tool_call>` and `<tools>` tags, Qwen's `<function=…>`, JSON bare or fenced (also OpenAI's
    `tool_calls`), and a line that is a Python call of a known tool. A name that is not in `known` counts only inside
    a tag or as `{"tool": …}`, so that the caller can answer "unknown tool". The reasoning is read only when the
    content gave no call; beside an answer, only explicit tags in it count.

    >>> find_calls('Let me look.\\n<tool_call>{"name": "crop", "arguments": {"x": 0.1}}', known=["crop"]).calls
    [Call(tool='crop', arguments={'x': 0.1}, id='')]
    >>> find_calls("You could use crop(x=0.1) here.", known=["crop"]).calls
    []
    """
    answer, thoughts = split_think(text)
    spans = list(_tagged(answer, known)) or list(_written(answer, known)) or list(_python(answer, known))
    if spans:
        return Salvaged(_distinct(spans), _without(answer, spans))
    for thought in (thoughts, whole_characters(reasoning)):
        spans = list(_tagged(thought, known))
        if not spans and not answer:
            spans = list(_written(thought, known)) or list(_python(thought, known))
        if spans:
            return Salvaged(_distinct(spans), answer)
    return Salvaged([], answer)


def _distinct(spans: list[_Span]) -> list[Call]:
    calls: list[Call] = []
    seen: set[str] = set()
    for call in (call for span in spans for call in span.calls):
        key = call.tool + "\0" + json.dumps(call.arguments, sort_keys=True)
        if key not in seen and len(calls) < MAX_CALLS:
            seen.add(key)
            calls.append(call)
    return calls


def _without(text: str, spans: list[_Span]) -> str:
    pieces, position = [], 0
    for span in spans:
        pieces.append(text[position : span.start])
        position = max(position, span.end)
    pieces.append(text[position:])
    return _EMPTY_FENCE.sub("", "".join(pieces)).strip()


def _tagged(text: str, known: Collection[str]) -> Iterator[_Span]:
    position = 0
    while tag := _TAG.search(text, position):
        if tag.group().startswith("<function="):
            call, position = _xml(text, tag.start())
            calls = [call] if call else []
        else:
            closer = _CLOSERS.get(tag.group(1) or "", "\n\n")
            end = text.find(closer, tag.end())
            following = _TAG.search(text, tag.end()) if closer != "\n\n" else None
            inner_xml = following is not None and following.group().startswith("<function=")
            if following and not inner_xml and (end < 0 or following.start() < end):
                end, position = following.start(), following.start()  # the closing tag is missing
            else:
                position = len(text) if end < 0 else end + len(closer)
            end = len(text) if end < 0 else end
            calls = list(_inside(text[tag.end() : end], known))
        if calls:
            yield _Span(tag.start(), position, calls)


def _inside(body: str, known: Collection[str]) -> Iterator[Call]:
    """The calls between explicit tags: XML, JSON or Python calls."""
    position = 0
    while function := _FUNCTION.search(body, position):
        call, position = _xml(body, function.start())
        if call:
            yield call
    if position:
        return
    found = [call for item in candidates(body) for call in _calls_of(item.value, known, explicit=True)]
    yield from found or [call for span in _python(body, known) for call in span.calls]


def _xml(text: str, position: int) -> tuple[Call | None, int]:
    """One `<function=name>` block and the position after it. Values stay text: only the tool knows their types."""
    function = _FUNCTION.match(text, position)
    if not function:
        return None, position + len("<function=")
    arguments: dict[str, JSON] = {}
    position = function.end()
    while True:
        blank = len(text) - len(text[position:].lstrip()) if text[position : position + 1].isspace() else position
        parameter = _PARAMETER.match(text, blank)
        if not parameter:
            break
        end = _VALUE_END.search(text, parameter.end())
        stop = end.start() if end else len(text)
        arguments[parameter.group(1)] = _parameter_text(text[parameter.end() : stop])
        position = end.end() if end and end.group() == "</parameter>" else stop
    for closer in ("</function>", "</tool_call>"):
        after = re.compile(r"\s{0,64}" + closer).match(text, position)
        position = after.end() if after else position
    return Call(tool=function.group(1), arguments=arguments), position


def _parameter_text(value: str) -> str:
    """A parameter's text without the one line break that the syntax puts on either side."""
    return value.removeprefix("\r").removeprefix("\n").removesuffix("\n").removesuffix("\r")


def _written(text: str, known: Collection[str]) -> Iterator[_Span]:
    for found in candidates(text):
        calls = list(_calls_of(found.value, known, explicit=False))
        if calls:
            yield _Span(found.start, found.end, calls)


def _calls_of(value: JSON, known: Collection[str], *, explicit: bool) -> Iterator[Call]:
    if isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                yield from _calls_of(item, known, explicit=explicit)
        return
    if not isinstance(value, dict):
        return
    several = value.get("tool_calls")
    if isinstance(several, list | dict):
        yield from _calls_of(several, known, explicit=True)
        return
    if isinstance(value.get("function"), dict):
        yield from _calls_of(value["function"], known, explicit=explicit)
        return
    call = _call_of(value, known, explicit=explicit)
    if call is not None:
        yield call


def _call_of(value: dict[str, JSON], known: Collection[str], *, explicit: bool) -> Call | None:
    name_key = next((key for key in _NAMES if isinstance(value.get(key), str)), None)
    if name_key is None:
        return None
    name = value[name_key].strip()
    argument_key = next((key for key in _ARGUMENTS if key in value), None)
    if not name or not (name in known or explicit or name_key == "tool"):
        return None
    if argument_key is not None:
        return Call(tool=name, arguments=_arguments(value[argument_key]))
    others = {key: item for key, item in value.items() if key not in (name_key, "thought", "type", "id")}
    # {"name": "crop", "price": 3} is data about something called crop; {"tool": "crop", "x": 0.1} is a call.
    if others and name_key != "tool" and not explicit:
        return None
    return Call(tool=name, arguments=others)


def _arguments(value: JSON) -> dict[str, JSON]:
    if isinstance(value, str) and value.strip():
        inner = whole(value)
        value = inner.value if inner is not None and isinstance(inner.value, dict) else value
    if isinstance(value, dict):
        return value
    # Not named: the tool's own error then tells the model which names there are.
    return {"arguments": value} if value not in (None, "", []) else {}


_ASSIGNED = r"^[ \t>`*+\-]{0,16}(?:[A-Za-z_]\w{0,63}[ \t]{0,4}=[ \t]{0,4})?(?:print\()?\[?"
_KEYWORD = re.compile(r"\s*+([A-Za-z_]\w{0,63})\s*+=")
_LINE_END = re.compile(r"[ \t)\];`]{0,16}(?:\r?\n|\Z|#)")
_COMMA = re.compile(r"\s*+,\s*+")


def _python(text: str, known: Collection[str]) -> Iterator[_Span]:
    """Lines that are a call with named arguments, alone or in a list; a call within a sentence is a mention."""
    names = "|".join(re.escape(name) for name in sorted(known, key=lambda name: (-len(name), name)))
    if not names:
        return
    begin = re.compile(_ASSIGNED + rf"({names})\(", re.MULTILINE)
    again = re.compile(rf"\s*+,\s*+({names})\(")
    position = 0
    while opening := begin.search(text, position):
        calls: list[Call] = []
        step: re.Match[str] | None = opening
        position = opening.end()
        while step is not None:
            arguments, position = _keywords(text, step.end())
            if arguments is None:
                calls.clear()
                break
            calls.append(Call(tool=step.group(1), arguments=arguments))
            step = again.match(text, position)
        if calls and _LINE_END.match(text, position):
            yield _Span(opening.start(), position, calls)


def _keywords(text: str, position: int) -> tuple[dict[str, JSON] | None, int]:
    """The arguments up to the closing bracket, None when they are not all named or the call is not closed."""
    arguments: dict[str, JSON] = {}
    reader = Reader(text)
    while True:
        keyword = _KEYWORD.match(text, position)
        if keyword:
            try:
                arguments[keyword.group(1)], position = reader.argument(keyword.end())
            except Unreadable as failure:
                return None, failure.position
            comma = _COMMA.match(text, position)
            position = comma.end() if comma else position
        position = reader.skip(position)
        if text.startswith(")", position):
            return arguments, position + 1
        if not keyword or not comma:
            return None, position
