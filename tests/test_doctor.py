"""The doctor finds what is there and what is missing; each finding names the command that helps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from orion.doctor_model import Check, model_check
from orion.settings import Settings
from orion.weights import catalogue
from tests.fakeserver import FakeServer, answer
from tests.terminal import environment, orion
from tests.test_cli import acting


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer(models=[{"id": "qwen", "object": "model"}]) as running:
        yield running


def check_model(folder: Path, **env: str) -> Check:
    given = {"ORION_CACHE": str(folder / "cache"), "ORION_STORE": str(folder / "store"), **env}
    return model_check(Settings.from_env(given), {})


def diagnose(env: Mapping[str, str], *options: str) -> tuple[int, dict[str, dict[str, Any]]]:
    done = orion("doctor", "--json", *options, env=env)
    report = json.loads(done.out)
    assert report["able"] == (done.code == 0)
    return done.code, {check["name"]: check for check in report["checks"]}


def test_everything_is_looked_at_and_a_reachable_server_is_enough(tmp_path: Path, server: FakeServer) -> None:
    code, checks = diagnose(environment(tmp_path, ORION_MODEL_URL=server.url))
    assert code == 0
    assert {"python", "orion", "machine", "cache", "store", "image", "document", "opencv", "model", "docker"} <= set(
        checks
    )
    assert checks["model"]["state"] == "ok"
    assert "qwen" in checks["model"]["text"]
    assert not server.chats  # nothing is asked of the model itself without --probe


def test_text_report_fits_one_screen_and_has_no_colour_in_a_pipe(tmp_path: Path, server: FakeServer) -> None:
    done = orion("doctor", env=environment(tmp_path, ORION_MODEL_URL=server.url))
    assert done.out.endswith("A run can work.\n")
    assert "\x1b" not in done.out
    assert len(done.out.splitlines()) <= 40


def test_missing_weights_are_named_with_the_pull_line(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    code, checks = diagnose(environment(tmp_path))
    assert code == 1
    assert checks["model"]["state"] == "missing"
    assert checks["model"]["fix"] == f"orion model pull {next(iter(catalogue()))}"


def test_a_wrong_setting_is_a_finding_and_the_rest_is_still_checked(tmp_path: Path) -> None:
    code, checks = diagnose(environment(tmp_path, ORION_MODLE="x"))
    assert code == 1
    assert checks["settings"]["state"] == "bad"
    assert "ORION_MODEL" in checks["settings"]["fix"]
    assert "python" in checks


def test_two_opencv_distributions_are_found(tmp_path: Path, server: FakeServer) -> None:
    for name in ("opencv-python", "opencv-contrib-python"):
        info = tmp_path / "site" / f"{name.replace('-', '_')}-4.9.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 4.9.0\n")
    env = environment(tmp_path, ORION_MODEL_URL=server.url, PYTHONPATH=str(tmp_path / "site"))
    _code, checks = diagnose(env)
    assert checks["opencv"]["state"] == "bad"
    assert "pip uninstall -y opencv-python" in checks["opencv"]["fix"]


def test_a_library_that_does_not_import_is_found(tmp_path: Path, server: FakeServer) -> None:
    pytest.importorskip("zxingcpp")
    (tmp_path / "zxingcpp.py").write_text("raise ImportError('libmissing.so.1: cannot open shared object file')\n")
    _code, checks = diagnose(environment(tmp_path, ORION_MODEL_URL=server.url, PYTHONPATH=str(tmp_path)))
    assert checks["image"]["state"] == "bad"
    assert "libmissing.so.1" in checks["image"]["text"]


def test_no_server_at_the_url(tmp_path: Path) -> None:
    check = check_model(tmp_path, ORION_MODEL_URL="http://127.0.0.1:9/v1")
    assert (check.state, check.vital) == ("bad", True)
    assert "does not answer" in check.text
    assert check.fix is not None
    assert "ORION_MODEL_URL" in check.fix


def test_the_password_of_a_url_is_not_shown(tmp_path: Path) -> None:
    check = check_model(tmp_path, ORION_MODEL_URL="http://me:hush@127.0.0.1:9/v1")
    assert "hush" not in check.text


def test_a_name_the_server_does_not_serve(tmp_path: Path, server: FakeServer) -> None:
    check = check_model(tmp_path, ORION_MODEL_URL=server.url, ORION_MODEL="llama")
    assert check.state == "bad"
    assert "serves qwen, not llama" in check.text


def test_a_url_that_is_no_api(tmp_path: Path, server: FakeServer) -> None:
    with FakeServer(models=["not a model"]) as other:
        check = check_model(tmp_path, ORION_MODEL_URL=other.url)
    assert check.state == "bad"
    assert "/v1" in str(check.fix)


@pytest.mark.parametrize(
    ("name", "state", "word"),
    [
        ("no-such-model", "bad", "orion model list"),
        ("missing.gguf", "bad", "ORION_MODEL=FILE.gguf"),
    ],
)
def test_models_that_do_not_exist(tmp_path: Path, name: str, state: str, word: str) -> None:
    pytest.importorskip("xllamacpp")
    check = check_model(tmp_path, ORION_MODEL=name)
    assert check.state == state
    assert word in str(check.fix)


def test_a_gguf_file_is_enough(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF" + hashlib.sha256(b"").digest())
    assert check_model(tmp_path, ORION_MODEL=str(file)).state == "ok"


def test_probe_of_a_dead_server_is_a_finding(tmp_path: Path) -> None:
    code, checks = diagnose(environment(tmp_path, ORION_MODEL_URL="http://127.0.0.1:9/v1"), "--probe")
    assert code == 1
    assert checks["probe"]["state"] == "bad"
    assert checks["probe"]["fix"]


def test_probe_tells_what_the_model_can_do(tmp_path: Path) -> None:
    with FakeServer(acting(None)) as server:
        code, checks = diagnose(environment(tmp_path, ORION_MODEL_URL=server.url), "--probe")
        assert len(server.chats) >= 2
    assert code == 0
    assert checks["probe"]["state"] == "ok"
    assert "answers bound to a schema yes, parsed tool calls no" in checks["probe"]["text"]


def test_probe_of_a_server_that_heeds_nothing_names_the_flags(tmp_path: Path) -> None:
    with FakeServer(answer("Hello!")) as server:
        code, checks = diagnose(environment(tmp_path, ORION_MODEL_URL=server.url), "--probe")
    assert code == 0  # calls in plain text are found too
    assert checks["probe"]["state"] == "bad"
    assert "--tool-call-parser" in checks["probe"]["fix"]
