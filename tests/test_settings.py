"""The environment settings: names, values, and what a mistake is answered with."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from orion.errors import UserError
from orion.settings import Settings


def test_nothing_set_gives_working_defaults() -> None:
    settings = Settings.from_env({"PATH": "/bin"})
    assert settings.model_url is None
    assert settings.model is None
    assert settings.cache_dir.is_absolute()
    assert settings.store_dir != settings.cache_dir
    assert settings.engine_threads >= 1
    assert settings.fetch_ports == (80, 443)
    assert not settings.fetch_private


def test_every_setting_is_read(tmp_path: Path) -> None:
    values = {
        "ORION_MODEL_URL": "http://127.0.0.1:8000/v1",
        "ORION_MODEL": "some-model",
        "ORION_MODEL_KEY": "k",
        "ORION_CONNECT_SECONDS": "1.5",
        "ORION_READ_SECONDS": "2",
        "ORION_MODEL_SECONDS": "3",
        "ORION_CACHE": str(tmp_path / "cache"),
        "ORION_STORE": str(tmp_path / "store"),
        "ORION_ENGINE_THREADS": "3",
        "ORION_ENGINE_CONTEXT": "4096",
        "ORION_ENGINE_START_SECONDS": "9",
        "ORION_FETCH_PORTS": "80, 8443",
        "ORION_FETCH_PRIVATE": "yes",
        "ORION_FETCH_MB": "5",
        "ORION_WORKERS": "4",
        "ORION_WORKER_MEMORY_MB": "512",
    }
    assert sorted(values) == sorted(Settings.names()), "a setting this test does not know"
    settings = Settings.from_env(values)
    default = Settings.from_env({})
    for field in Settings.model_fields:
        assert getattr(settings, field) != getattr(default, field) or field == "engine_threads", field
    assert settings.engine_threads == 3
    assert settings.fetch_ports == (80, 8443)
    assert settings.cache_dir == tmp_path / "cache"


def test_the_key_is_never_shown() -> None:
    settings = Settings.from_env({"ORION_MODEL_KEY": "sesame-123"})
    assert settings.model_key is not None
    assert settings.model_key.get_secret_value() == "sesame-123"
    assert "sesame" not in repr(settings) + str(settings) + settings.model_dump_json()


def test_empty_variables_count_as_unset() -> None:
    assert Settings.from_env({"ORION_MODEL_URL": "", "ORION_WORKERS": " "}) == Settings.from_env({})


def test_names_of_the_tests_are_passed_over() -> None:
    assert Settings.from_env({"ORION_TEST_GGUF": "x.gguf"}) == Settings.from_env({})


def test_field_names_work_from_python() -> None:
    assert Settings(model="m", workers=1).workers == 1


@pytest.mark.parametrize(
    ("name", "near"),
    [("ORION_MODEL_ULR", "ORION_MODEL_URL"), ("ORION_CACHE_DIR", "ORION_CACHE"), ("ORION_WORKER", "ORION_WORKERS")],
)
def test_an_unknown_name_is_refused_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(UserError) as caught:
        Settings.from_env({name: "x"})
    assert caught.value.param == name
    assert f"Did you mean {near}?" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ORION_MODEL_URL", "localhost:8000"),
        ("ORION_MODEL_URL", "ftp://host/v1"),
        ("ORION_CONNECT_SECONDS", "0"),
        ("ORION_CONNECT_SECONDS", "nan"),
        ("ORION_READ_SECONDS", "soon"),
        ("ORION_ENGINE_THREADS", "-1"),
        ("ORION_ENGINE_CONTEXT", "12"),
        ("ORION_FETCH_PORTS", "80,a"),
        ("ORION_FETCH_PORTS", "80,70000"),
        ("ORION_FETCH_PRIVATE", "maybe"),
        ("ORION_WORKERS", "two"),
        ("ORION_WORKER_MEMORY_MB", "1"),
    ],
)
def test_a_bad_value_names_its_variable(name: str, text: str) -> None:
    with pytest.raises(UserError) as caught:
        Settings.from_env({name: text})
    assert caught.value.param == name
    assert text in str(caught.value)


@pytest.mark.parametrize("key", ["sk-secret\nx", "sk-secret é", "sk secret"])
def test_a_key_that_no_header_can_hold_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(UserError) as caught:
        Settings.from_env({"ORION_MODEL_KEY": key})
    assert caught.value.param == "ORION_MODEL_KEY"
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_a_password_in_the_models_url_is_not_shown() -> None:
    with pytest.raises(UserError) as caught:
        Settings.from_env({"ORION_MODEL_URL": "ftp://ann:s3cret@gpu/v1"})
    assert "//…@gpu/v1" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in repr(Settings.from_env({"ORION_MODEL_URL": "http://ann:s3cret@gpu/v1"}))
