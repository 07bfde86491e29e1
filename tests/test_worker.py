from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from orion import errors, worker
from orion.errors import MediaError, ModelError, NotConfigured, OrionError, ToolFailed, ToolRetry, UserError
from orion.worker import WorkerBusy, WorkerDied, WorkerError, WorkerPool, WorkerTimeout
from orion.worker_child import HEADER, MAX_FRAME

TASKS = """
import ctypes, os, subprocess, sys, time
from orion.errors import MediaError, ModelUnreachable, NotConfigured, ToolFailed, ToolRetry

class MyRetry(ToolRetry):
    pass

def who(payload):
    return {"pid": os.getpid(), "group": os.getpgrp()}

def environment(payload):
    return dict(os.environ)

def noisy(payload):
    print("to stdout"); sys.stdout.flush()
    os.write(1, b"raw bytes to fd 1\\n" * 5000)
    os.system("echo from a shell; echo and its stderr >&2; cat")
    return {"read": sys.stdin.read()}

def sleep(payload):
    time.sleep(payload["seconds"])
    return {}

def sleep_with_child(payload):
    child = subprocess.Popen(["sleep", "300"])
    open(payload["file"], "w").write(f"{os.getpid()} {child.pid}")
    time.sleep(300)

def crash(payload):
    ctypes.string_at(0)

def leave(payload):
    os._exit(payload["code"])

def polite_exit(payload):
    sys.exit("bye")

def eat(payload):
    parts = []
    while True:
        parts.append(bytearray(16 * 1024 * 1024))

def abort(payload):
    os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\\n")
    os.abort()

def big(payload):
    return {"text": "x" * payload["size"]}

def not_json(payload):
    return payload["what"] == "nan" and {"x": float("nan")} or {"x": object()}

def retry(payload): raise MyRetry("page 9 of 3", param="page", fix="Pages are 1 to 3.")
def failed(payload): raise ToolFailed("no text found")
def media(payload): raise MediaError("corrupt_file", "cut", param="files[0]", fix="Send it again.")
def missing(payload): raise NotConfigured("no OCR", setting="pip install x")
def unreachable(payload): raise ModelUnreachable("gone", status=503, retryable=True)
def value_error(payload): raise ValueError("odd" + "!" * payload.get("more", 0))
def forge(payload):
    # A child that was taken over writes what it likes onto the link.
    for fd in range(3, 16):
        try:
            os.write(fd, bytes.fromhex(payload["hex"]))
        except OSError:
            pass
    time.sleep(300)
"""


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "orion_test_tasks.py").write_text(TASKS)
    monkeypatch.syspath_prepend(tmp_path)
    return "orion_test_tasks"


def run(main: Callable[[WorkerPool], Awaitable[Any]], **options: Any) -> Any:
    async def whole() -> Any:
        async with WorkerPool(**{"size": 1, **options}) as pool:
            return await main(pool)

    return asyncio.run(asyncio.wait_for(whole(), 120))


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def all_gone_soon(pids: Iterable[int | str]) -> bool:
    deadline = time.monotonic() + 20
    left = [int(pid) for pid in pids]
    while (left := [pid for pid in left if alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not left


async def written(note: Path) -> None:
    """Wait until a child has left its note."""

    def poll() -> None:
        deadline = time.monotonic() + 60
        while not (note.exists() and note.read_text()) and time.monotonic() < deadline:
            time.sleep(0.02)

    await asyncio.to_thread(poll)


def test_answers_and_keeps_its_child(tasks: str) -> None:
    async def main(pool: WorkerPool) -> None:
        first = await pool.call(f"{tasks}:who", {}, seconds=60)
        assert await pool.call("orion.worker:echo", {"é": [1, None, {"deep": True}]}, seconds=60) == {
            "é": [1, None, {"deep": True}]
        }
        assert await pool.call(f"{tasks}:who", {}, seconds=60) == first
        assert first["pid"] != os.getpid()
        assert first["group"] == first["pid"]

    run(main)


def test_printing_does_not_break_the_link(tasks: str) -> None:
    assert run(lambda pool: pool.call(f"{tasks}:noisy", {}, seconds=60)) == {"read": ""}


def test_secrets_stay_with_the_parent(tasks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORION_API_KEY", "sk-1")
    monkeypatch.setenv("HF_TOKEN", "hf-1")
    monkeypatch.setenv("DATABASE_URL", "db://user:hunter2@127.0.0.1/x")
    monkeypatch.setenv("ORION_FOLDER", "kept")
    seen = run(lambda pool: pool.call(f"{tasks}:environment", {}, seconds=60))
    assert "ORION_API_KEY" not in seen
    assert "HF_TOKEN" not in seen
    assert "DATABASE_URL" not in seen
    assert seen["ORION_FOLDER"] == "kept"


def test_a_child_killed_while_idle_costs_the_next_call_nothing(tasks: str) -> None:
    async def main(pool: WorkerPool) -> None:
        first = (await pool.call(f"{tasks}:who", {}, seconds=60))["pid"]
        os.kill(first, signal.SIGKILL)
        async with asyncio.timeout(20):
            while not pool._idle[0].ended:  # noqa: ASYNC110 - the process tells nobody
                await asyncio.sleep(0.01)
        assert (await pool.call(f"{tasks}:who", {}, seconds=60))["pid"] != first

    run(main)


def test_timeout_kills_the_whole_group(tasks: str, tmp_path: Path) -> None:
    note = tmp_path / "pids"

    async def main(pool: WorkerPool) -> None:
        await pool.call(f"{tasks}:who", {}, seconds=60)  # the module is loaded: what follows is the nap alone
        with pytest.raises(WorkerTimeout, match="within 2 s"):
            await pool.call(f"{tasks}:sleep_with_child", {"file": str(note)}, seconds=2)
        assert await pool.call("orion.worker:echo", {"still": "works"}, seconds=60) == {"still": "works"}

    run(main)
    assert all_gone_soon(note.read_text().split())


def test_cancellation_kills_the_child(tasks: str, tmp_path: Path) -> None:
    note = tmp_path / "pids"

    async def main(pool: WorkerPool) -> None:
        call = asyncio.create_task(pool.call(f"{tasks}:sleep_with_child", {"file": str(note)}, seconds=200))
        await written(note)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await asyncio.to_thread(all_gone_soon, note.read_text().split())
        assert await pool.call("orion.worker:echo", {}, seconds=60) == {}

    run(main)


@pytest.mark.parametrize(
    ("task", "payload", "code", "message"),
    [
        ("crash", {}, "died", "signal 11"),
        ("leave", {"code": 7}, "died", "exit code 7"),
        ("eat", {}, "out_of_memory", "out of memory: more than 300 MB"),
        ("abort", {}, "out_of_memory", "out of memory"),
        ("forge", {"hex": "ffffffff"}, "died", "4294967295 bytes"),
        ("forge", {"hex": HEADER.pack(3).hex() + b"[1]".hex()}, "died", "not an answer"),
        ("forge", {"hex": HEADER.pack(3).hex() + b"}{!".hex()}, "died", "not an answer"),
        ("forge", {"hex": HEADER.pack(40000).hex() + (b"[" * 40000).hex()}, "died", "not an answer"),
        ("forge", {"hex": HEADER.pack(13).hex() + b'{"error": {}}'.hex()}, "died", "not an answer"),
    ],
)
def test_deaths_are_named_and_the_pool_goes_on(tasks: str, task: str, payload: Any, code: str, message: str) -> None:
    async def main(pool: WorkerPool) -> None:
        with pytest.raises(WorkerDied, match=message) as caught:
            await pool.call(f"{tasks}:{task}", payload, seconds=60)
        assert caught.value.code == code
        assert await pool.call("orion.worker:echo", {}, seconds=60) == {}

    run(main, memory_mb=300)


@pytest.mark.parametrize(
    ("task", "kind", "fields"),
    [
        ("retry", ToolRetry, {"message": "page 9 of 3", "param": "page", "fix": "Pages are 1 to 3."}),
        ("failed", ToolFailed, {"message": "no text found", "param": None, "fix": None}),
        ("media", MediaError, {"code": "corrupt_file", "param": "files[0]", "fix": "Send it again."}),
        ("missing", NotConfigured, {"setting": "pip install x"}),
        ("unreachable", errors.ModelUnreachable, {"status": 503, "retryable": True}),
        ("value_error", WorkerError, {"message": "ValueError: odd"}),
        ("polite_exit", WorkerError, {"message": "SystemExit: the tool called exit('bye')"}),
        ("no_such_function", WorkerError, {}),
    ],
)
def test_errors_cross_with_type_and_fields(tasks: str, task: str, kind: type[OrionError], fields: Any) -> None:
    async def main(pool: WorkerPool) -> None:
        with pytest.raises(kind) as caught:
            await pool.call(f"{tasks}:{task}", {}, seconds=60)
        assert type(caught.value) is kind
        assert {name: getattr(caught.value, name) for name in fields} == fields
        assert caught.value.args == (caught.value.message,)
        assert "Traceback" not in str(caught.value)

    run(main)


def test_trace_goes_to_the_log_and_messages_are_bounded(tasks: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="orion.worker")
    with pytest.raises(WorkerError) as caught:
        run(lambda pool: pool.call(f"{tasks}:value_error", {"more": 100_000}, seconds=60))
    assert len(str(caught.value)) < 1100
    assert "Traceback" in caplog.text


def test_a_forged_error_cannot_become_any_class(tasks: str) -> None:
    body = b'{"error":{"type":"SystemExit","fields":{"message":"x","__class__":"y","code":[1]},"trace":""}}'
    with pytest.raises(WorkerError) as caught:
        run(lambda pool: pool.call(f"{tasks}:forge", {"hex": (HEADER.pack(len(body)) + body).hex()}, seconds=60))
    assert vars(caught.value) == {"message": "x", "param": None, "fix": None}


def test_rebuilt_model_errors_have_all_their_fields() -> None:
    rebuilt = worker._rebuild("ModelError", {"message": "m"})
    assert vars(rebuilt) == vars(ModelError("m"))


@pytest.mark.parametrize("what", ["nan", "object"])
def test_answers_must_be_json(tasks: str, what: str) -> None:
    with pytest.raises(WorkerError, match="JSON"):
        run(lambda pool: pool.call(f"{tasks}:not_json", {"what": what}, seconds=60))


def test_sizes_are_bounded_both_ways(tasks: str) -> None:
    async def main(pool: WorkerPool) -> None:
        assert len((await pool.call(f"{tasks}:big", {"size": 10_000_000}, seconds=60))["text"]) == 10_000_000
        with pytest.raises(WorkerError, match="return a file"):
            await pool.call(f"{tasks}:big", {"size": MAX_FRAME}, seconds=60)
        with pytest.raises(UserError, match="pass a file"):
            await pool.call("orion.worker:echo", {"text": "x" * MAX_FRAME}, seconds=60)

    run(main)


def test_two_at_a_time_and_all_get_a_turn(tasks: str) -> None:
    async def main(pool: WorkerPool) -> None:
        answers = await asyncio.gather(*(pool.call(f"{tasks}:who", {}, seconds=60) for _ in range(20)))
        assert len({answer["pid"] for answer in answers}) <= 2

    run(main, size=2)


def test_the_child_that_has_the_module_is_preferred(tasks: str) -> None:
    async def main(pool: WorkerPool) -> None:
        nap = asyncio.create_task(pool.call(f"{tasks}:sleep", {"seconds": 1}, seconds=60))
        await asyncio.sleep(0)
        await pool.call("orion.worker:echo", {}, seconds=60)
        await nap
        warm = await pool.call(f"{tasks}:who", {}, seconds=60)
        await pool.call("orion.worker:echo", {}, seconds=60)
        assert await pool.call(f"{tasks}:who", {}, seconds=60) == warm

    run(main, size=2)


def test_the_queue_is_bounded(tasks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MAX_WAITING", 1)
    monkeypatch.setattr(worker, "QUEUE_SECONDS", 0.3)

    async def main(pool: WorkerPool) -> None:
        await pool.call("orion.worker:echo", {}, seconds=60)
        nap = asyncio.create_task(pool.call(f"{tasks}:sleep", {"seconds": 2}, seconds=60))
        await asyncio.sleep(0)
        second = asyncio.create_task(pool.call("orion.worker:echo", {}, seconds=60))
        await asyncio.sleep(0)
        with pytest.raises(WorkerBusy, match="already wait"):
            await pool.call("orion.worker:echo", {}, seconds=60)
        with pytest.raises(WorkerBusy, match="no worker became free"):
            await second
        await nap
        assert await pool.call("orion.worker:echo", {}, seconds=60) == {}

    run(main)


def test_idle_children_end(tasks: str) -> None:
    async def main(pool: WorkerPool) -> None:
        first = await pool.call(f"{tasks}:who", {}, seconds=60)
        await asyncio.sleep(0.5)
        assert await asyncio.to_thread(all_gone_soon, [first["pid"]])
        assert await pool.call(f"{tasks}:who", {}, seconds=60) != first

    run(main, idle_seconds=0.1)


def test_close_ends_all_even_a_running_one(tasks: str, tmp_path: Path) -> None:
    note = tmp_path / "pids"

    async def main() -> None:
        pool = WorkerPool(size=2)
        idle = (await pool.call(f"{tasks}:who", {}, seconds=60))["pid"]
        call = asyncio.create_task(pool.call(f"{tasks}:sleep_with_child", {"file": str(note)}, seconds=200))
        await written(note)
        await pool.close()
        with pytest.raises(WorkerDied):
            await call
        assert await asyncio.to_thread(all_gone_soon, [idle, *note.read_text().split()])
        with pytest.raises(UserError, match="closed"):
            await pool.call("orion.worker:echo", {}, seconds=60)

    asyncio.run(asyncio.wait_for(main(), 120))


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_children_end_with_a_killed_parent(tasks: str) -> None:
    """kill -9 of the parent while one child is idle and one is busy."""
    script = textwrap.dedent(f"""
        import asyncio
        from orion.worker import WorkerPool
        async def main():
            pool = WorkerPool(size=2)
            nap = asyncio.create_task(pool.call("{tasks}:sleep", {{"seconds": 300}}, seconds=300))
            await asyncio.sleep(0)
            await pool.call("{tasks}:who", {{}}, seconds=60)
            while len(pool._busy) + len(pool._idle) < 2:  # the busy one may still be starting
                await asyncio.sleep(0.05)
            print(*[child.pid for child in [*pool._busy, *pool._idle]], flush=True)
            await nap
        asyncio.run(main())
    """)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(alive(pid) for pid in pids)
        parent.send_signal(signal.SIGKILL)
        parent.wait(10)
    assert all_gone_soon(pids)


def test_one_pool_one_loop() -> None:
    pool = WorkerPool(size=1)

    async def main() -> None:
        await pool.call("orion.worker:echo", {}, seconds=60)

    async def both() -> None:
        await main()
        with pytest.raises(UserError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, main())
        await pool.close()

    asyncio.run(both())


def test_works_off_the_main_thread(tasks: str) -> None:
    async def outer() -> Any:
        return await asyncio.to_thread(run, lambda pool: pool.call("orion.worker:echo", {"a": 1}, seconds=60))

    assert asyncio.run(outer()) == {"a": 1}


def test_a_module_of_the_current_folder_shadows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('shadowed')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    assert run(lambda pool: pool.call("orion.worker:echo", {"a": 1}, seconds=60)) == {"a": 1}


@pytest.mark.parametrize("options", [{"size": 0}, {"memory_mb": 1}])
def test_nonsense_sizes_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(UserError):
        WorkerPool(**options)


@pytest.mark.parametrize("program", ["/bin/false", "/nowhere/python"])
def test_a_worker_that_cannot_start_says_so(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(sys, "executable", program)

    async def main(pool: WorkerPool) -> None:
        for _ in range(2):  # the second call is not stuck behind the first one's failure
            with pytest.raises(WorkerDied, match="could not start"):
                await pool.call("orion.worker:echo", {}, seconds=60)
        monkeypatch.undo()
        assert await pool.call("orion.worker:echo", {}, seconds=60) == {}

    run(main)
