"""The embedded engine on a real GGUF: start, serve, fail with a reason, end with its parent."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from orion import engine as engine_module
from orion.engine import Engine, shared_engine
from orion.errors import ModelError, ModelTimeout, NotConfigured, UserError
from tests.weights import embedded_gguf

WAIT_SECONDS = 120.0
needs_model = pytest.mark.model


@pytest.fixture(scope="module")
def gguf() -> Path:
    """The model of ORION_TEST_GGUF, or the smallest catalogue model that was pulled."""
    return embedded_gguf(smallest=True)


@pytest.fixture(scope="module")
def running(gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine.start(gguf, context=2048, threads=1, cache_dir=tmp_path_factory.mktemp("cache")) as engine:
        yield engine.wait(WAIT_SECONDS)


def _client(engine: Engine, key: str | None = None) -> httpx.Client:
    return httpx.Client(
        base_url=engine.url, headers={"Authorization": f"Bearer {key or engine.key}"}, timeout=WAIT_SECONDS
    )


def _eventually(true: Callable[[], bool], seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.05)
    return False


def _gone(pid: int) -> bool:
    try:
        state_line = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state_line == "Z"  # dead; whoever inherited it has not looked yet


@needs_model
def test_it_serves_the_model_on_loopback(running: Engine) -> None:
    assert running.url.startswith("http://127.0.0.1:")
    assert running.url.endswith("/v1")
    with _client(running) as client:
        served = client.get("/models").json()["data"][0]
        assert served["id"] == running.name
        assert served["meta"]["n_ctx"] == 2048
        body = {"messages": [{"role": "user", "content": "Say hi."}], "max_tokens": 4, "temperature": 0}
        first = client.post("/chat/completions", json=body).json()
        again = client.post("/chat/completions", json=body).json()
    assert first["usage"]["completion_tokens"] >= 1
    assert again["choices"][0]["message"] == first["choices"][0]["message"]
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


@needs_model
def test_a_schema_is_honoured(running: Engine) -> None:
    schema = {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "green"]}},
        "required": ["colour"],
        "additionalProperties": False,
    }
    body = {
        "messages": [{"role": "user", "content": "Pick a colour."}],
        "max_tokens": 40,
        "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": {"name": "pick", "strict": True, "schema": schema}},
    }
    with _client(running) as client:
        answer = client.post("/chat/completions", json=body).json()["choices"][0]["message"]["content"]
    assert json.loads(answer)["colour"] in ("red", "green")


@needs_model
def test_without_the_key_nothing_is_served(running: Engine) -> None:
    with _client(running, key="guess") as client:
        assert client.get("/models").status_code == 401
        assert client.post("/chat/completions", json={"messages": []}).status_code == 401


@needs_model
def test_the_key_is_in_no_command_line_and_no_log(running: Engine) -> None:
    with _client(running) as client:
        client.get("/models")
    assert running.key not in running.log.read_text()
    if Path("/proc").is_dir():
        assert running.key.encode() not in Path(f"/proc/{running.pid}/cmdline").read_bytes()


@needs_model
def test_a_vanished_client_stops_its_generation(running: Engine) -> None:
    body = {
        "messages": [{"role": "user", "content": "Count from 1 to 10000."}],
        "max_tokens": 1900,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
    }
    slots = running.url.removesuffix("/v1") + "/slots"
    with _client(running) as client, _client(running) as other:
        with client.stream("POST", "/chat/completions", json=body) as response:
            lines = response.iter_lines()  # kept: dropping the iterator would close the connection already
            for _ in range(6):
                next(lines)
            assert other.get(slots).json()[0]["is_processing"]
        assert _eventually(lambda: not other.get(slots).json()[0]["is_processing"])
        done = other.get(slots).json()[0]["next_token"]
    assert done[0]["n_decoded"] < 1900, "it had simply finished"


@needs_model
def test_a_client_that_leaves_before_the_first_token_stops_the_work(running: Engine) -> None:
    body = {
        "messages": [{"role": "user", "content": "word " * 1000}],
        "max_tokens": 900,
        "temperature": 0,
        "ignore_eos": True,
    }
    before = running.log.stat().st_size
    with _client(running) as client, pytest.raises(httpx.ReadTimeout):
        client.post("/chat/completions", json=body, timeout=0.2)
    # The log tells, and not /slots: the server looks for vanished clients only in a second without other results.
    released = re.compile(rb"cancel task.*release: .*n_tokens = (\d+)", re.DOTALL)
    assert _eventually(lambda: released.search(running.log.read_bytes()[before:]) is not None)
    found = released.search(running.log.read_bytes()[before:])
    assert found
    assert int(found[1]) < 1900


@needs_model
def test_ready_waits_in_async_code(gguf: Path, tmp_path: Path) -> None:
    async def main() -> int:
        with Engine.start(gguf, context=512, threads=1, cache_dir=tmp_path) as engine:
            await engine.ready(WAIT_SECONDS)
            async with httpx.AsyncClient(timeout=WAIT_SECONDS) as client:
                return (await client.get(engine.url.removesuffix("/v1") + "/health")).status_code

    assert asyncio.run(main()) == 200


@needs_model
def test_close_ends_the_process(gguf: Path, tmp_path: Path) -> None:
    engine = Engine.start(gguf, context=512, threads=1, cache_dir=tmp_path)
    pid = engine.pid
    engine.close()  # while it is loading
    assert not engine.alive
    assert _gone(pid)
    engine.close()
    with pytest.raises(ModelError):
        engine.wait(5)


@needs_model
def test_too_little_time_is_a_named_timeout(gguf: Path, tmp_path: Path) -> None:
    engine = Engine.start(gguf, context=512, threads=1, cache_dir=tmp_path)
    with pytest.raises(ModelTimeout, match="ORION_ENGINE_START_SECONDS"):
        engine.wait(0.0)
    assert not engine.alive


@needs_model
def test_one_engine_a_file_until_its_last_user_lets_go(gguf: Path, tmp_path: Path) -> None:
    results: list[Engine] = []

    def take() -> None:
        results.append(shared_engine(gguf, context=1024, threads=1, cache_dir=tmp_path))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    assert len({id(engine) for engine in results}) == 1
    engine = results[0]
    with pytest.raises(UserError, match="already loaded"):
        shared_engine(gguf, context=4096, cache_dir=tmp_path)
    for _ in range(3):
        engine.close()
    assert engine.alive
    engine.close()
    assert not engine.alive
    fresh = shared_engine(gguf, context=512, threads=1, cache_dir=tmp_path)
    assert fresh is not engine
    fresh.close()


@needs_model
def test_a_dead_shared_engine_is_replaced(gguf: Path, tmp_path: Path) -> None:
    first = shared_engine(gguf, context=512, threads=1, cache_dir=tmp_path).wait(WAIT_SECONDS)
    os.kill(first.pid, signal.SIGKILL)
    assert _eventually(lambda: not first.alive)
    with pytest.raises(ModelError, match="SIGKILL"):
        first.wait(5)
    second = shared_engine(gguf, context=512, threads=1, cache_dir=tmp_path)
    assert second is not first
    first.close()
    assert second.alive
    second.close()


PARENT = """
import sys, time
from pathlib import Path
from orion.engine import Engine
engine = Engine.start(Path(sys.argv[1]), context=512, threads=1, cache_dir=Path(sys.argv[2]))
if sys.argv[3] == "loaded":
    engine.wait()
print(engine.pid, flush=True)
if sys.argv[4] == "stay":
    time.sleep(600)
"""


@needs_model
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks into /proc")
@pytest.mark.parametrize("when", ["loading", "loaded"])
def test_kill_9_of_the_parent_ends_the_child(gguf: Path, tmp_path: Path, when: str) -> None:
    command = [sys.executable, "-c", PARENT, str(gguf), str(tmp_path), when, "stay"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        assert not _gone(child)
        parent.kill()
        parent.wait(WAIT_SECONDS)
    assert _eventually(lambda: _gone(child))


@needs_model
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks into /proc")
def test_a_parent_that_ends_without_closing_leaves_no_child(gguf: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(gguf), str(tmp_path), "loaded", "go"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True)
    assert done.stderr == ""
    assert _eventually(lambda: _gone(int(done.stdout)))


@needs_model
def test_a_cut_gguf_is_an_error_with_the_engines_words(gguf: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    with gguf.open("rb") as whole:
        cut.write_bytes(whole.read(200_000))
    engine = Engine.start(cut, threads=1, cache_dir=tmp_path)
    with pytest.raises(ModelError) as caught:
        engine.wait(WAIT_SECONDS)
    assert "could not load the model (cut.gguf, exit code 1)" in str(caught.value)
    assert "failed to load model" in str(caught.value)
    assert str(engine.log) in str(caught.value)
    engine.close()


@pytest.mark.parametrize("content", [b"", b"GG", b"\x89PNG\r\n\x1a\n"])
def test_no_gguf_is_refused_before_anything_starts(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(UserError, match="is not a GGUF file"):
        Engine.start(path, cache_dir=tmp_path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.gguf", tmp_path):
        with pytest.raises(UserError, match="cannot read the model file"):
            Engine.start(path, cache_dir=tmp_path)


def test_without_the_extra_the_error_says_what_to_install(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")
    # -S leaves site-packages out; what Orion itself needs is put back by hand, xllamacpp is not.
    needed = tmp_path / "needed"
    needed.mkdir()
    for name in ("pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"):
        spec = __import__(name).__spec__
        origin = Path(spec.origin)
        source = origin if origin.name != "__init__.py" else origin.parent
        (needed / source.name).symlink_to(source)
    import platformdirs

    (needed / "platformdirs").symlink_to(Path(platformdirs.__file__).parent)
    root = Path(engine_module.__file__).parent.parent
    code = "import sys; from pathlib import Path; from orion.engine import Engine; Engine.start(Path(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, str(model)],
        env={**os.environ, "PYTHONPATH": f"{needed}{os.pathsep}{root}"},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    last = done.stderr.strip().splitlines()[-1]
    assert NotConfigured.__name__ in last
    assert 'pip install "orion-visual-agent[local]"' in last


@needs_model
def test_the_log_is_bounded_and_only_a_few_are_kept(running: Engine, tmp_path: Path) -> None:
    with running.log.open("ab") as log:
        log.write(b"x" * (4 << 20) + b"x")
    assert _eventually(lambda: running.log.stat().st_size < 1 << 20)
    with _client(running) as client:  # it goes on writing
        body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
        client.post("/chat/completions", json=body).raise_for_status()
    assert _eventually(lambda: b"print_timing" in running.log.read_bytes())
    for _ in range(engine_module.LOGS_KEPT + 5):
        engine_module._new_log(tmp_path / "logs")
    assert len(list((tmp_path / "logs").iterdir())) == engine_module.LOGS_KEPT
