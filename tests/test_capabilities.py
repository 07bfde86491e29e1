from __future__ import annotations

import asyncio
import json
import logging
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

import orion.capabilities
import orion.patience
from orion.capabilities import Capabilities, _png, probe
from orion.errors import ModelError, ModelTimeout
from orion.model import OpenAIModel
from orion.profiles import profile_for
from orion.run import JSON
from orion.scripted import ScriptedModel
from tests.fakeserver import FakeServer, Request, Response, answer, error, tool_call, usage_of

GOOD = [
    answer('{"q7x":"vu3"}'),
    answer("", calls=[tool_call("get_weather", '{"city":"Paris"}')]),
    answer("Red", usage=usage_of(prompt=280)),
]
SERVED: list[JSON] = [{"id": "m", "max_model_len": 4096}]


def ask(server: FakeServer, cache: Path | None = None) -> Capabilities:
    async def go() -> Capabilities:
        model = OpenAIModel(server.url, "m", None, profile_for("m"), context=8192)
        try:
            return await probe(model, cache)
        finally:
            await model.close()

    return asyncio.run(go())


def test_a_server_that_can_do_all() -> None:
    with FakeServer(GOOD, models=SERVED) as server:
        assert ask(server) == Capabilities(schema=True, tools=True, images=True, context=4096)
    schema, tools, images = (request.json for request in server.chats)
    assert schema["response_format"]["json_schema"]["strict"] is True
    assert tools["tool_choice"] == "auto"
    assert images["messages"][0]["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")
    assert all(request["max_tokens"] <= 64 for request in (schema, tools, images))


@pytest.mark.parametrize(
    ("place", "response", "lost"),
    [
        (0, answer("Hello!"), "schema"),
        (0, answer('{"hello":"x"}'), "schema"),
        (0, error(400, "response_format is not supported"), "schema"),
        (0, answer(" " * 2000), "schema"),
        (1, answer('```json\n{"name":"get_weather"}\n```'), "tools"),
        (1, answer("", calls=[tool_call("get_weather", '{"city":')]), "tools"),
        (1, answer("", calls=[tool_call("get_weather", "7")]), "tools"),
        (1, error(400, "auto needs --enable-auto-tool-choice"), "tools"),
        (2, error(500, "image input is not supported - hint: provide the mmproj"), "images"),
        (2, error(400, "is not a multimodal model"), "images"),
        (2, answer("I see nothing", usage=usage_of(prompt=31)), "images"),
    ],
)
def test_what_a_server_cannot_do(place: int, response: Response, lost: str) -> None:
    good = {"schema": True, "tools": True, "images": True}

    def script(request: Request) -> Response:
        kind = 0 if "response_format" in request.json else 1 if "tools" in request.json else 2
        step = response if kind == place else GOOD[kind]
        return step(request) if callable(step) else step

    with FakeServer(script, models=SERVED) as server:
        assert ask(server) == Capabilities(**{**good, lost: False}, context=4096)


@pytest.mark.parametrize("response", [error(401, "no key"), error(404, "no such model"), Response(reset=True)])
def test_a_server_that_cannot_be_asked_is_no_answer(
    response: Response, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orion.patience, "BACKOFF_SECONDS", 0.01)
    with FakeServer(lambda _request: response, models=SERVED) as server, pytest.raises(ModelError):
        ask(server, tmp_path)
    assert list(tmp_path.rglob("*.json")) == []


def test_asked_once_per_server_and_model(tmp_path: Path) -> None:
    with FakeServer(GOOD, models=SERVED) as server:
        first = ask(server, tmp_path)
        assert ask(server, tmp_path) == first
        assert len(server.chats) == 3
    with FakeServer([GOOD[0], answer("no"), answer("no")], models=SERVED) as other:
        assert ask(other, tmp_path) != first
    assert len(list(tmp_path.rglob("*.json"))) == 2
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".json"] == []


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        '{"capabilities":{}}',
        '{"asked":0,"capabilities":{"schema":1,"tools":1,"images":1,"context":"x"}}',
    ],
)
def test_a_corrupt_cache_is_said_and_rewritten(damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with FakeServer(GOOD * 2, models=SERVED) as server:
        first = ask(server, tmp_path)
        (path,) = tmp_path.rglob("*.json")
        path.write_text(damage)
        with caplog.at_level(logging.WARNING, "orion"):
            assert ask(server, tmp_path) == first
        assert "cannot be read" in caplog.text
        assert json.loads(path.read_text())["capabilities"]["schema"] is True
        assert len(server.chats) == 6


def test_an_old_answer_is_asked_for_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer(GOOD * 2, models=SERVED) as server:
        ask(server, tmp_path)
        monkeypatch.setattr(orion.capabilities, "CACHE_SECONDS", -1.0)
        ask(server, tmp_path)
    assert len(server.chats) == 6


def test_a_cache_that_cannot_be_written_costs_nothing_but_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "capabilities").write_text("a file where the folder should be")
    with FakeServer(GOOD, models=SERVED) as server:
        assert ask(server, tmp_path).schema
    assert "cannot be cached" in caplog.text


def test_other_models_are_asked_too() -> None:
    model = ScriptedModel(['{"q7x":"vu3"}', [("get_weather", {"city": "Paris"})], "Red"], context=1234)
    found = asyncio.run(probe(model))
    assert (found.schema, found.tools, found.context) == (True, True, 1234)


def test_the_picture_is_a_png() -> None:
    picture = Image.open(BytesIO(_png(5, (1, 2, 3))))
    assert (picture.size, picture.mode, picture.getpixel((4, 4))) == ((5, 5), "RGB", (1, 2, 3))


def test_the_probe_keeps_within_the_seconds_it_is_given() -> None:
    async def go(url: str) -> None:
        model = OpenAIModel(url, "m", None, profile_for("m"), context=8192)
        try:
            await probe(model, seconds=0.3)
        finally:
            await model.close()

    with FakeServer(lambda _request: Response(before=30), models=SERVED) as server, pytest.raises(ModelTimeout):
        asyncio.run(go(server.url))
