from __future__ import annotations

import asyncio
import base64
import socket
from pathlib import Path

import pytest

from orion.errors import ModelError, ModelUnreachable, NotConfigured, UserError, WeightsError
from orion.model import DEFAULT_CONTEXT, OpenAIModel, connect
from orion.run import JSON
from orion.settings import Settings
from tests.fakeserver import FakeServer


def settings(**values: str) -> Settings:
    return Settings.from_env({f"ORION_{name}": value for name, value in values.items()})


def connected(found: Settings) -> OpenAIModel:
    async def go() -> OpenAIModel:
        model = await connect(found)
        assert isinstance(model, OpenAIModel)
        await model.close()
        return model

    return asyncio.run(go())


def test_connect_asks_the_server_for_the_only_model() -> None:
    served = {"id": "orion", "root": "Qwen/Qwen2.5-VL-7B-Instruct", "max_model_len": 16384}
    with FakeServer(models=[served]) as server:
        model = connected(settings(MODEL_URL=server.url, MODEL_KEY="k", READ_SECONDS="7"))
    assert (model.name, model.profile.family, model.context) == ("orion", "qwen2.5-vl", 16384)
    assert model.read_seconds == 7
    assert server.requests[0].headers["authorization"] == "Bearer k"


def test_connect_reads_llama_cpps_context() -> None:
    served = {"id": "qwen2.5-coder", "meta": {"n_ctx_train": 32768}}
    with FakeServer(models=[served], props={"default_generation_settings": {"n_ctx": 4096}}) as server:
        assert connected(settings(MODEL_URL=server.url)).context == 4096
    with FakeServer(models=[served]) as server:
        assert connected(settings(MODEL_URL=server.url)).context == 32768


def test_connect_adds_the_missing_v1() -> None:
    with FakeServer() as server:
        assert connected(settings(MODEL_URL=server.url.removesuffix("/v1"))).url == server.url


@pytest.mark.parametrize("names", [[], ["a", "b"]])
def test_connect_needs_a_name_unless_one_is_served(names: list[str]) -> None:
    models: list[JSON] = [{"id": name} for name in names]
    with FakeServer(models=models) as server:
        with pytest.raises(NotConfigured) as caught:
            connected(settings(MODEL_URL=server.url))
        assert caught.value.setting == "ORION_MODEL"
        assert ", ".join(names) in str(caught.value)
        assert connected(settings(MODEL_URL=server.url, MODEL="b")).name == "b"


def test_connect_to_nobody() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
        with pytest.raises(ModelUnreachable, match="ORION_MODEL_URL"):
            connected(settings(MODEL_URL=url))


def test_connect_to_something_else() -> None:
    with FakeServer() as server, pytest.raises(ModelError, match="404"):
        connected(settings(MODEL_URL=server.url + "/wrong", MODEL="m"))


def test_connect_to_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read the model file"):
        asyncio.run(connect(settings(MODEL=str(tmp_path / "none.gguf"), CACHE=str(tmp_path))))


def test_connect_to_a_model_that_was_not_pulled(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="orion model pull"):
        asyncio.run(connect(settings(CACHE=str(tmp_path))))


def test_connect_to_an_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown model"):
        asyncio.run(connect(settings(MODEL="qwen9", CACHE=str(tmp_path))))


def test_a_path_that_is_no_gguf_file_is_not_taken_for_a_provider(tmp_path: Path) -> None:
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(b"")
    for name in (str(weights), str(tmp_path), "./weights", "~/models/x"):
        with pytest.raises(UserError, match=r"no \.gguf file") as caught:
            asyncio.run(connect(settings(MODEL=name, CACHE=str(tmp_path))))
        assert caught.value.param == "ORION_MODEL"


@pytest.mark.parametrize("nonsense", [0, -1])
def test_a_context_that_cannot_be_is_unknown(nonsense: int) -> None:
    served: JSON = {"id": "m", "max_model_len": nonsense, "meta": {"n_ctx": nonsense}}
    with FakeServer(models=[served], props={"default_generation_settings": {"n_ctx": nonsense}}) as server:
        assert connected(settings(MODEL_URL=server.url)).context == DEFAULT_CONTEXT


def test_a_password_in_the_url_is_sent_and_never_shown(tmp_path: Path) -> None:
    with FakeServer(models=[{"id": "m"}]) as server:
        model = connected(settings(MODEL_URL=server.url.replace("//", "//ann:s3cret@")))
    assert server.requests[0].headers["authorization"] == "Basic " + base64.b64encode(b"ann:s3cret").decode()
    assert "s3cret" not in f"{model.url} {model.identity}"
    with pytest.raises(ModelUnreachable) as caught:  # the server has ended
        connected(settings(MODEL_URL=server.url.replace("//", "//ann:s3cret@")))
    assert "s3cret" not in str(caught.value)
    with pytest.raises(UserError, match="one of them"):
        connected(settings(MODEL_URL="http://ann:s3cret@127.0.0.1:1/v1", MODEL_KEY="k"))
