"""The embedded model under the grammar: what it writes is valid, or the keyword was reported as unchecked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from orion.engine import Engine
from orion.salvage import MISSING, parse_json
from orion.schema import OutputSchema
from tests.test_schema import LINKED, nested, obj
from tests.weights import embedded_gguf

pytestmark = pytest.mark.model

TABLE: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "recursion": ("The chain 1 -> 2 -> 3 as nested nodes.", LINKED, ()),
    "anyOf at the top": (
        "The error: code 404.",
        {"anyOf": [obj(result={"type": "string"}), obj(code={"type": "integer"})]},
        (),
    ),
    "enum of mixed types": ("Is it paid? Yes.", obj(paid={"enum": ["yes", "no", None, 0]}), ()),
    "const": ("A cat.", obj(kind={"const": "animal"}, name={"type": "string", "maxLength": 20}), ()),
    "date pattern": (
        "Invoice of March 4th, 2026.",
        obj(date={"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"}),
        (),
    ),
    "date and time": ("It is 2026-03-04, half past nine UTC.", obj(at={"type": "string", "format": "date-time"}), ()),
    "integer bounds": ("The month is 77.", obj(month={"type": "integer", "minimum": 1, "maximum": 12}), ()),
    "number bounds": ("The share is 0.5.", obj(share={"type": "number", "maximum": 1}), ("/properties/share/maximum",)),
    "item count": (
        "Red, green, blue, white.",
        obj(colours={"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 2, "maxItems": 3}),
        (),
    ),
    "20 deep": ("The number seven, in all the wrappers.", nested(20), ()),
    "unicode keys": ("Größe 5, 价格 2.5.", obj(größe={"type": "integer"}, 价格={"type": "number"}), ()),
    "array at the top": ("1, 2 and 3.", {"type": "array", "items": {"type": "integer"}, "maxItems": 3}, ()),
    "length": ("Paris", obj(city={"type": "string", "minLength": 2, "maxLength": 4}), ()),
    "email": (
        "Write to ada@example.com.",
        obj(to={"type": "string", "format": "email", "maxLength": 40}),
        ("/properties/to/format",),
    ),
    "folded allOf": ("Five.", obj(n={"allOf": [{"type": "integer"}, {"maximum": 9}]}), ()),
    "reference": ("The second photo.", obj(photo={"type": "string", "pattern": r"^img_\w{6}$"}), ()),
}
IDS = {"image": ["img_1a2b3c", "img_00ff00"]}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine.start(embedded_gguf(), context=2048, threads=1, cache_dir=tmp_path_factory.mktemp("cache")) as started:
        yield started.wait()


def ask(engine: Engine, text: str, grammar: dict[str, Any]) -> str:
    body = {
        "messages": [{"role": "user", "content": f"{text} Answer as compact JSON."}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": grammar}},
        "max_tokens": 250,
        "temperature": 0,
    }
    headers = {"Authorization": f"Bearer {engine.key}"}
    reply = httpx.post(f"{engine.url}/chat/completions", json=body, headers=headers, timeout=110)
    assert reply.status_code == 200, reply.text
    content = reply.json()["choices"][0]["message"]["content"]
    assert isinstance(content, str)
    return content


@pytest.mark.parametrize("name", TABLE)
def test_the_answer_is_valid_or_the_keyword_was_reported(name: str, engine: Engine) -> None:
    text, schema, unchecked = TABLE[name]
    asked = OutputSchema.prepare(schema, ids=IDS)
    assert asked.unchecked == unchecked
    content = ask(engine, text, asked.grammar)
    answer = json.loads(content)
    assert answer == parse_json(content) is not MISSING
    problems = asked.problems(asked.coerce(answer))
    assert not problems or unchecked, content
