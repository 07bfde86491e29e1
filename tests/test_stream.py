from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion.errors import ContextOverflow, ModelBroke, ModelError
from orion.run import JSON, Usage
from orion.stream import EVENT_BYTES_MAX, EventSplitter, ReplyBuilder, StreamDecoder, ThinkSplitter, reply_of, usage_of
from orion.wire import Delta, NativeCall, Reply
from tests.fakeserver import chunk, sse, stream_events, tool_call
from tests.fakeserver import usage_of as fake_usage

TAGS = ("<think>", "</think>")


def decode(data: bytes, cuts: list[int] | None = None, tags: tuple[str, str] | None = TAGS) -> list[Delta]:
    """The deltas of `data` when it arrives in pieces that end at `cuts`."""
    decoder = StreamDecoder(tags)
    edges = [0, *sorted(cuts or []), len(data)]
    deltas = [delta for start, end in pairwise(edges) for delta in decoder.feed(data[start:end])]
    return deltas + decoder.finish()


def build(deltas: list[Delta], tags: tuple[str, str] | None = TAGS) -> Reply:
    builder = ReplyBuilder(tags)
    for delta in deltas:
        builder.add(delta)
    return builder.reply(0.0)


def streamed(events: list[JSON], done: bool = True) -> bytes:
    return b"".join(map(sse, events)) + (sse("[DONE]") if done else b"")


EVENTS = stream_events(
    "<think>hm, ünï</think>\n\nThe total is 12 € 😀.",
    [tool_call("image.crop", '{"image": "img_1a2b3c", "box": [0.1, 0.2]}')],
    "because",
    usage=fake_usage(),
)
STREAM = streamed(EVENTS).replace(b"\n\ndata", b"\n\n: keep-alive\n\ndata", 3).replace(b"\n\n", b"\r\n\r\n", 4)
WHOLE = decode(STREAM)


def test_a_stream_with_everything_in_it() -> None:
    assert build(WHOLE) == Reply(
        "The total is 12 € 😀.",
        "becausehm, ünï",
        [NativeCall("call_1", "image.crop", '{"image": "img_1a2b3c", "box": [0.1, 0.2]}')],
        "stop",
        Usage(calls=1, prompt_tokens=10, completion_tokens=5, cached_tokens=4),
        0.0,
    )


@given(st.lists(st.integers(0, len(STREAM)), max_size=40))
def test_deltas_do_not_depend_on_where_bytes_are_cut(cuts: list[int]) -> None:
    assert decode(STREAM, cuts) == WHOLE


def test_deltas_byte_by_byte() -> None:
    assert decode(STREAM, list(range(len(STREAM)))) == WHOLE


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\n", [b"a"]),
        (b": ping\n\ndata: a\n\n: ping\n\n", [b"a"]),
        (b"event: x\nid: 7\nretry: 10\ndata: a\n\n", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data: a", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"", []),
        (b"\n\n\n", []),
        (b'error: {"message":"m"}\n\n', [b'{"error": {"message":"m"}}']),
    ],
)
def test_event_splitting(data: bytes, events: list[bytes]) -> None:
    splitter = EventSplitter()
    assert splitter.feed(data) + splitter.finish() == events


def test_an_endless_line_is_refused() -> None:
    splitter = EventSplitter()
    with pytest.raises(ModelBroke, match="a line of more than"):
        splitter.feed(b"data: " + b"x" * EVENT_BYTES_MAX)


@given(st.lists(st.sampled_from(["<think>", "</think>", "<th", "ink>", "</", "think>", " ", "\n", "a<b", "ö"])))
def test_think_splitting_loses_nothing_and_ignores_cuts(parts: list[str]) -> None:
    def split(pieces: list[str]) -> tuple[str, str]:
        splitter = ThinkSplitter(TAGS)
        got = [*map(splitter.feed, pieces), splitter.finish()]
        return "".join(reasoning for reasoning, _text in got), "".join(text for _reasoning, text in got)

    whole = "".join(parts)
    reasoning, text = split([whole])
    assert split(parts) == split(list(whole)) == (reasoning, text)
    if not whole.lstrip().startswith("<think>"):
        assert (reasoning, text) == ("", whole)
    else:
        assert whole.lstrip().startswith("<think>" + reasoning)
        assert whole.endswith(text)


@pytest.mark.parametrize(
    ("content", "reasoning", "text"),
    [
        ("plain", "", "plain"),
        ("<think>a</think>b", "a", "b"),
        ("  <think>a</think>\n\n b", "a", "b"),
        ("<think>cut off", "cut off", ""),
        ("<think></think>b", "", "b"),
        ("opened in the prompt</think>\nb", "opened in the prompt", "b"),
        ("b <think>no</think>", "", "b <think>no</think>"),
        ("<", "", "<"),
        ("   ", "", "   "),
    ],
)
def test_thinking_in_content(content: str, reasoning: str, text: str) -> None:
    reply = build(decode(streamed(stream_events(content))))
    assert (reply.reasoning, reply.text) == (reasoning, text)
    body = json.dumps({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}).encode()
    assert reply_of(body, TAGS, 0.0) == reply


def test_without_tags_content_is_left_alone() -> None:
    assert build(decode(streamed(stream_events("<think>a</think>b")), tags=None), None).text == "<think>a</think>b"


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_both_reasoning_fields(field: str) -> None:
    assert build(decode(streamed(stream_events("b", reasoning="a", reasoning_field=field)))).reasoning == "a"


@pytest.mark.parametrize("tags", [TAGS, None])
def test_blanks_after_reasoning_are_dropped_however_it_was_split(tags: tuple[str, str] | None) -> None:
    assert build(decode(streamed(stream_events("\n\nb c", reasoning="a")), tags=tags), tags).text == "b c"
    assert build(decode(streamed(stream_events("\n\nb c")), tags=tags), tags).text == "\n\nb c"


@pytest.mark.parametrize("tags", [TAGS, None])
@pytest.mark.parametrize("reasoning", ["a", None])
def test_blanks_without_end_are_not_hidden(tags: tuple[str, str] | None, reasoning: str | None) -> None:
    reply = build(decode(streamed(stream_events(" " * 1000, reasoning=reasoning)), tags=tags), tags)
    assert len(reply.text) > 900


def test_both_reasoning_fields_at_once_are_one_reasoning() -> None:
    event = chunk({"reasoning": "a", "reasoning_content": "a"})
    assert build(decode(streamed([event]))).reasoning == "a"


def calls_of(*fragments: JSON) -> list[NativeCall]:
    return build(decode(streamed([chunk({"tool_calls": [part]}) for part in fragments]))).calls


def test_two_calls_by_index() -> None:
    assert calls_of(
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}},
        {"index": 1, "id": "b", "function": {"name": "g", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"x":'}},
        {"index": 1, "function": {"arguments": "{}"}},
        {"index": 0, "function": {"arguments": "1}"}},
    ) == [NativeCall("a", "f", '{"x":1}'), NativeCall("b", "g", "{}")]


def test_arguments_none_are_an_empty_object() -> None:
    assert calls_of({"index": 0, "id": "a", "function": {"name": "f", "arguments": None}}) == [
        NativeCall("a", "f", "{}")
    ]


def test_a_lost_name_is_empty() -> None:
    assert calls_of({"index": 0, "id": "a", "function": {"arguments": '{"x":1}'}}) == [NativeCall("a", "", '{"x":1}')]


def test_calls_without_index() -> None:
    assert calls_of(
        {"id": "a", "function": {"name": "f", "arguments": "{}"}},
        {"id": "b", "function": {"name": "g", "arguments": '{"y"'}},
        {"function": {"arguments": ":2}"}},
    ) == [NativeCall("a", "f", "{}"), NativeCall("b", "g", '{"y":2}')]


def test_a_new_id_for_each_fragment_is_still_one_call() -> None:
    assert calls_of(
        {"index": 0, "id": "a1", "function": {"name": "f"}},
        {"index": 0, "id": "a2", "function": {"arguments": "{}"}},
    ) == [NativeCall("a1", "f", "{}")]


def test_arguments_as_an_object_become_text() -> None:
    assert calls_of({"index": 0, "id": "a", "function": {"name": "f", "arguments": {"x": "é"}}}) == [
        NativeCall("a", "f", '{"x":"é"}')
    ]


def test_call_and_end_in_one_chunk() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    deltas = decode(streamed([chunk({"content": "x", "tool_calls": [call]}, "tool_calls", usage=fake_usage())]))
    assert [bool(delta.finish_reason) for delta in deltas] == [False, False, True]
    assert build(deltas).finish_reason == "tool_calls"
    assert build(deltas).usage.prompt_tokens == 10


def test_done_missing_after_a_finish_reason_is_fine() -> None:
    assert build(decode(streamed(stream_events("ok"), done=False))).text == "ok"


def test_finish_reason_missing_before_done_is_fine() -> None:
    reply = build(decode(streamed(stream_events("ok", finish_reason=None))))
    assert (reply.text, reply.finish_reason) == ("ok", None)


def test_both_missing_is_a_cut_stream() -> None:
    with pytest.raises(ModelBroke, match="midway"):
        decode(streamed(stream_events("ok", finish_reason=None), done=False))


def test_what_follows_done_is_not_read() -> None:
    assert build(decode(streamed(stream_events("ok")) + b"data: no json\n\n")).text == "ok"


@pytest.mark.parametrize(
    ("event", "kind", "words"),
    [
        (b'{"error":{"message":"CUDA out of memory","code":500}}', ModelBroke, "CUDA out of memory"),
        (b'{"object":"error","message":"gone","code":400}', ModelBroke, "gone"),
        (b'{"error":"plain"}', ModelBroke, "plain"),
        (b'{"error":{"message":"This exceeds the available context size"}}', ContextOverflow, "available context"),
        (b"[1]", ModelBroke, "no object"),
        (b"{broken", ModelBroke, "no JSON"),
    ],
)
def test_errors_inside_a_stream(event: bytes, kind: type[ModelError], words: str) -> None:
    with pytest.raises(kind, match=words):
        decode(streamed([chunk({"content": "a"})], done=False) + b"data: " + event + b"\n\n")


def test_half_a_surrogate_pair_survives() -> None:
    data = b'data: {"choices":[{"delta":{"content":"\\ud83d"},"finish_reason":"stop"}]}\n\n'
    assert build(decode(data)).text == "\ud83d"


@pytest.mark.parametrize(
    ("raw", "timings", "cached"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 8}}, None, 8),
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": None}, None, 0),
        ({"prompt_tokens": 9, "completion_tokens": 2}, {"cache_n": 7}, 7),
        ({"prompt_tokens": 9, "completion_tokens": 2}, None, 0),
    ],
)
def test_usage(raw: JSON, timings: JSON, cached: int) -> None:
    assert usage_of(raw, timings) == Usage(calls=1, prompt_tokens=9, completion_tokens=2, cached_tokens=cached)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ([{"type": "text", "text": "a"}, {"type": "thinking"}, {"type": "text", "text": "b"}], "ab"),
        ("", ""),
    ],
)
def test_contents_that_are_no_plain_text(content: JSON, text: str) -> None:
    body = json.dumps({"choices": [{"message": {"content": content}, "finish_reason": None}]}).encode()
    assert reply_of(body, None, 0.0).text == text


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"object":"list"}', b'{"choices":[]}'])
def test_answers_that_are_none(body: bytes) -> None:
    with pytest.raises(ModelBroke, match="the model server"):
        reply_of(body, None, 0.0)


@pytest.mark.parametrize(
    "event",
    [
        {"choices": "x"},
        {"choices": {"a": 1}},
        {"choices": [None]},
        {"choices": [{"delta": "x"}]},
        {"choices": [{"delta": {"reasoning": 5, "content": "a"}}]},
        {"choices": [{"delta": {"tool_calls": [None]}}]},
        {"choices": [{"delta": {"tool_calls": "x"}}]},
        {"choices": [], "usage": {"prompt_tokens": "a"}},
        {"choices": [], "usage": "x"},
    ],
    ids=str,
)
def test_chunks_of_other_types_are_a_broken_server(event: JSON) -> None:
    with pytest.raises(ModelBroke, match="the model server"):
        StreamDecoder().feed(b"data: " + json.dumps(event).encode() + b"\n\n")
