"""What a model meant, from what it wrote: JSON values, tool calls, a final answer. Pure functions that never raise.

Weak models write calls as prose, in fences, in the wrong syntax or cut short. Nothing here guesses at content: only
the wrapping is forgiven. Whether a turn may be acted on at all (`finish_reason == "length"`) is the caller's decision.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from orion.lenient import Found, Reader, Unreadable, candidates, strict_json, whole, whole_characters
from orion.run import JSON, Call

MAX_CALLS = 32
"""Different calls taken from one turn; a looping model writes more, and none of those matters."""


class Missing:
    """The type of `MISSING`: there is no value. JSON's null is a value, so None cannot say it."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()


@dataclass(slots=True)
class Salvaged:
    """Calls found in a turn, and the text that is left without them."""

    calls: list[Call] = field(default_factory=list)
    rest: str = ""


_THINK = re.compile(r"<(/?)think(?:ing)?>")
_FENCED = re.compile(r"```[ \t]*[\w+-]{0,20}[ \t]*\r?\n?\s{0,64}\Z")
_ALONE_BEFORE = re.compile(r"(?:\A|[\n:=]|```[\w+-]{0,20})\s{0,64}\Z")
_ALONE_AFTER = re.compile(r"[ \t]{0,64}(?:\r?\n|\Z|```)")


def split_think(text: str) -> tuple[str, str]:
    """`(answer, thoughts)`: the text outside and inside `<think>` tags. An unclosed tag thinks to the end.

    >>> split_think("<think>A crop?</think>No.")
    ('No.', 'A crop?')
    >>> split_think("the template opened the tag</think>42")
    ('42', 'the template opened the tag')
    """
    text = whole_characters(text)
    outside: list[str] = []
    inside: list[str] = []
    position, thinking = 0, False
    for tag in _THINK.finditer(text):
        piece = text[position : tag.start()]
        closes = bool(tag.group(1))
        # A closing tag without an opening one: the chat template had already opened it.
        if closes and not thinking and not inside:
            inside.extend([*outside, piece])
            outside.clear()
        else:
            (inside if thinking else outside).append(piece)
        thinking, position = not closes, tag.end()
    (inside if thinking else outside).append(text[position:])
    return "".join(outside).strip(), "".join(inside).strip()


def parse_json(text: str, *, want: Literal["object", "array"] | None = None) -> JSON | Missing:
    """The JSON value that best looks like the answer in `text`; `MISSING` when there is none.

    Complete values win over cut ones, fenced over bare ones, objects over lists of plain values, later over earlier
    ones; text outside `<think>` over text inside. `want` says what the schema asks for: with "array" a single object
    becomes a list of one, with "object" a list of one object becomes that object.

    >>> parse_json('Sure!\\n```json\\n{"total": 12.50, "paid": true,}\\n```')
    {'total': 12.5, 'paid': True}
    >>> parse_json("{'lines': [('pen', 2), ('ink', None)")
    {'lines': [['pen', 2], ['ink', None]]}
    >>> parse_json("I could not find it.")
    MISSING
    """
    strict = strict_json(text)
    if strict is not None:
        return _wanted(strict[0], want)
    answer, thoughts = split_think(text)
    for part in (answer, thoughts):
        value = _best(part, want)
        if not isinstance(value, Missing):
            return _wanted(value, want)
    return MISSING


def _best(text: str, want: Literal["object", "array"] | None) -> JSON | Missing:
    alone = whole(_unfence(text))
    if alone is not None and alone.complete and not alone.rough:
        return alone.value
    ranked = [(_rank(text, found, want), found.value) for found in _groups(text, want)]
    ranked = [entry for entry in ranked if entry[0] is not None]
    if not ranked:
        return alone.value if alone is not None and not alone.rough else MISSING
    best = ranked[0]
    for entry in ranked[1:]:
        if entry[0] >= best[0]:  # type: ignore[operator]  # the Nones are gone
            best = entry
    return best[1]


def _unfence(text: str) -> str:
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and len(text) >= 6 and "\n" in text:
        return text[text.index("\n") + 1 : -3]
    return text


def _groups(text: str, want: Literal["object", "array"] | None) -> Iterator[Found]:
    """Candidates, with objects that only commas part (or, when a list is asked, blanks) joined into a list."""
    group: list[Found] = []
    for found in candidates(text):
        if group:
            gap = text[group[-1].end : found.start].strip()
            joins = gap == "," or (not gap and want == "array")
            if joins and isinstance(found.value, dict) and isinstance(group[0].value, dict):
                group.append(found)
                continue
            yield _joined(group)
        group = [found]
    if group:
        yield _joined(group)


def _joined(group: list[Found]) -> Found:
    if len(group) == 1:
        return group[0]
    values = [found.value for found in group]
    complete = all(found.complete for found in group)
    return Found(values, group[0].start, group[-1].end, complete, any(found.rough for found in group))


def _rank(text: str, found: Found, want: Literal["object", "array"] | None) -> tuple[int, ...] | None:
    value = found.value
    before = text[max(0, found.start - 100) : found.start]
    fenced = "```" in before and bool(_FENCED.search(before))
    records = isinstance(value, dict) or any(isinstance(item, dict) for item in value)
    # "[1]" within a sentence is a footnote, on its own it is a list.
    alone = records or fenced or (_ALONE_BEFORE.search(before) and _ALONE_AFTER.match(text, found.end))
    if not alone:
        return None
    asked = want is None or isinstance(value, dict if want == "object" else list)
    is_schema = isinstance(value, dict) and (
        "$schema" in value or (value.get("type") == "object" and "properties" in value)
    )
    return (not is_schema, bool(value), records or want == "array", found.complete, asked, not found.rough, fenced)


def _wanted(value: JSON, want: Literal["object", "array"] | None) -> JSON:
    if want is not None and isinstance(value, str):
        inner = whole(value)
        if inner is not None and isinstance(inner.value, dict | list):
            value = inner.value
    if want == "array" and isinstance(value, dict):
        return [value]
    if want == "object" and isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        return value[0]
    return value


def find_final(text: str) -> JSON | Missing:
    """The answer of a turn without calls: the value of a `{"final": …}` action, else the text outside `<think>`.

    >>> find_final('<think>easy</think>```json\\n{"final": "Two pages."}\\n```')
    'Two pages.'
    >>> find_final("It has two pages.")
    'It has two pages.'
    """
    answer, _thoughts = split_think(text)
    if not answer:
        return MISSING
    value = parse_json(answer)
    if isinstance(value, dict):
        said = [key for key in value if key in ("final", "answer", "final_answer")]
        if len(said) == 1 and all(key in (*said, "thought", "thoughts", "reasoning") for key in value):
            return value[said[0]]
    return answer


# --- calls ---------------------------------------------------------------------------------------------------------

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
