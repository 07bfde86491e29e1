"""Artifacts: typed values by reference. Bytes lie once in a folder; everything else holds six-digit ids."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import io
import logging
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from orion.errors import MediaError, UserError
from orion.geometry import IDENTITY, Box, Transform, compose, map_box
from orion.lenient import whole_characters
from orion.run import JSON

log = logging.getLogger(__name__)

Kind = Literal["image", "document", "video", "audio", "reconstruction", "array", "url", "file"]

PREFIX: Mapping[Kind, str] = {
    "image": "img_",
    "document": "doc_",
    "video": "vid_",
    "audio": "aud_",
    "reconstruction": "recon_",
    "array": "arr_",
    "url": "url_",
    "file": "file_",
}
ID_PATTERN = r"(?:img|doc|vid|aud|recon|arr|url|file)_[0-9a-f]{6}"

COPY_CHUNK = 1 << 20
NAMED_IDS = 20
"""Known ids listed in the error about an unknown one."""
STALE_SCRATCH_SECONDS = 24 * 3600.0
"""Age at which a scratch folder left by a killed process is removed."""


class Artifact(BaseModel):
    """One stored value: what it is, never its bytes.

    `transform` maps a pixel of this image to a pixel of `parent`, see `orion.geometry`. `meta` is plain JSON.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    kind: Kind
    media_type: str
    size: int
    """Bytes."""
    sha256: str
    name: str | None = None
    width: int | None = None
    height: int | None = None
    pages: int | None = None
    seconds: float | None = None
    parent: str | None = None
    transform: Transform | None = None
    meta: dict[str, JSON] = Field(default_factory=dict)
    _store: ArtifactStore | None = PrivateAttr(default=None)
    """The store it came from, so that it can show itself in a notebook; no part of its value."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Artifact) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((self.id, self.sha256))

    def _repr_html_(self) -> str:
        from orion.notebook import artifact_html

        return artifact_html(self, self._store)


class ArtifactStore:
    """Artifacts in a folder: `blobs/<sha256>` and one JSON line an artifact in `artifacts.jsonl`.

    Safe to use from several threads and from several processes on one folder. The same bytes of one kind always get
    the same id; adding them again returns the first record.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = ArtifactStore(folder)
    ...     note = store.add(b"hello", kind="file", media_type="text/plain", name="note.txt")
    ...     print(note.id, store.read(note.id), len(ArtifactStore(folder)))
    file_bfbbbd b'hello' 1
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._blobs = self.folder / "blobs"
        self._scratch = self.folder / "scratch"
        self._index = self.folder / "artifacts.jsonl"
        self._known: dict[str, Artifact] = {}
        self._read_to = 0  # bytes of the index already read
        self._lock = threading.RLock()
        try:
            with disk_errors():
                self._blobs.mkdir(parents=True, exist_ok=True)
                self._scratch.mkdir(exist_ok=True)
                self._index.touch()
        except OSError as error:
            what = f"the folder {self.folder} cannot be made or written: {error.strerror}"
            raise UserError(what, param="store", fix="Name another folder with store=… or ORION_STORE.") from error
        self._remove_stale_scratch()
        with self._lock:
            self._catch_up(opening=True)

    def add(
        self,
        data: bytes | os.PathLike[str],
        *,
        kind: Kind,
        media_type: str,
        name: str | None = None,
        width: int | None = None,
        height: int | None = None,
        pages: int | None = None,
        seconds: float | None = None,
        parent: str | None = None,
        transform: Transform | None = None,
        meta: Mapping[str, JSON] | None = None,
        move: bool = False,
    ) -> Artifact:
        """Store bytes or a file's content and give it an id.

        A file is copied, or, with `move=True`, taken over (it must lie in a folder of `scratch()` to be moved without
        copying). Raises `MediaError` with code `disk_full`, and `UserError` when `parent` is unknown.
        """
        if parent is not None:
            self.get(parent)
        sha256, size = self.keep(data, move=move)
        with self._lock, self._index_lock() as index:
            self._catch_up()
            artifact_id, taken = self._free_id(kind, sha256)
            if taken is not None:
                return taken
            artifact = Artifact(
                id=artifact_id,
                kind=kind,
                media_type=media_type,
                size=size,
                sha256=sha256,
                name=whole_characters(name) if name is not None else None,
                width=width,
                height=height,
                pages=pages,
                seconds=seconds,
                parent=parent,
                transform=transform,
                meta=dict(meta or {}),
            )
            self._append(index, artifact)
            self._catch_up()
            return self._known[artifact_id]

    def keep(self, data: bytes | os.PathLike[str], *, move: bool = False) -> tuple[str, int]:
        """Store bytes without an id, such as the original of a converted image: (sha256, size in bytes)."""
        with disk_errors():
            staged, sha256, size = self._stage(data, move)
            try:
                if (self._blobs / sha256).exists():
                    staged.unlink()
                else:
                    os.replace(staged, self._blobs / sha256)
            except BaseException:
                staged.unlink(missing_ok=True)
                raise
        return sha256, size

    def get(self, artifact_id: str) -> Artifact:
        """The artifact with this id; `UserError` naming the known ids when there is none."""
        with self._lock:
            if artifact_id not in self._known:
                self._catch_up()
            if artifact_id in self._known:
                return self._known[artifact_id]
            known = list(self._known)
        shown = ", ".join(known[-NAMED_IDS:]) or "none"
        more = f" and {len(known) - NAMED_IDS} older" if len(known) > NAMED_IDS else ""
        raise UserError(f"there is no artifact {artifact_id[:80]!r}", fix=f"Known ids: {shown}{more}.")

    def find(self, ref: str) -> Artifact:
        """The artifact a person or a model means: an id, or the file name of exactly one artifact."""
        ref = ref.strip()
        if ref in self:
            return self.get(ref)
        named = [artifact for artifact in self if artifact.name == ref]
        return named[0] if len(named) == 1 else self.get(ref)

    def path(self, artifact_id: str) -> Path:
        """The file with the artifact's bytes. Never write to it."""
        return self._blobs / self.get(artifact_id).sha256

    def original_path(self, artifact_id: str) -> Path:
        """The file as it came in, before intake converted it (all frames of a TIFF or GIF, for one)."""
        artifact = self.get(artifact_id)
        return self._blobs / str(artifact.meta.get("original", artifact.sha256))

    def read(self, artifact_id: str) -> bytes:
        """The artifact's bytes."""
        return self.path(artifact_id).read_bytes()

    def to_root(self, artifact_id: str, box: Box) -> tuple[str, Box]:
        """A box in an artifact as a box in the image it was first cut from.

        Follows `parent` as long as there is a `transform`: a crop of a rendered page leads to the page, not to the PDF.
        The result is the upright box around the mapped corners, and may reach out of the root (see `Box.inside`).
        """
        artifact = start = self.get(artifact_id)
        transform = IDENTITY
        while artifact.parent is not None and artifact.transform is not None:
            transform = compose(transform, artifact.transform)
            artifact = self.get(artifact.parent)
        if artifact.id != start.id:
            box = map_box(box, transform, _pixels(start), _pixels(artifact))
        return artifact.id, box.model_copy(update={"of": artifact.id})

    @contextlib.contextmanager
    def scratch(self, *, lazy: bool = False) -> Iterator[Path]:
        """A folder on the store's own file system that lasts as long as the `with` block.

        A `lazy` one is only a name until somebody makes it: most tool calls bring no files, and a folder made and
        removed for each would be the dearest part of a step.
        """
        folder = self._scratch / f"tmp{secrets.token_hex(8)}"
        with disk_errors():
            if not lazy:
                folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            if not lazy or folder.exists():
                shutil.rmtree(folder, ignore_errors=True)

    def __contains__(self, artifact_id: object) -> bool:
        with self._lock:
            if artifact_id not in self._known:
                self._catch_up()
            return artifact_id in self._known

    def __iter__(self) -> Iterator[Artifact]:
        with self._lock:
            self._catch_up()
            return iter(list(self._known.values()))

    def __len__(self) -> int:
        with self._lock:
            self._catch_up()
            return len(self._known)

    def _stage(self, data: bytes | os.PathLike[str], move: bool) -> tuple[Path, str, int]:
        """The content in a file of its own on this file system, safely on disk; with its hash and size."""
        if move and not isinstance(data, bytes):
            with open(data, "rb") as source:
                sha256 = hashlib.file_digest(source, "sha256").hexdigest()
                os.fsync(source.fileno())
                return Path(data), sha256, source.tell()
        digest = hashlib.sha256()
        handle, name = tempfile.mkstemp(dir=self._scratch)
        try:
            with (
                os.fdopen(handle, "wb") as out,
                io.BytesIO(data) if isinstance(data, bytes) else open(data, "rb") as source,
            ):
                while chunk := source.read(COPY_CHUNK):
                    digest.update(chunk)
                    out.write(chunk)
                size = out.tell()
                out.flush()
                os.fsync(out.fileno())
        except BaseException:
            os.unlink(name)
            raise
        return Path(name), digest.hexdigest(), size

    def _free_id(self, kind: Kind, sha256: str) -> tuple[str, Artifact | None]:
        """The id of this content, and its record when it is already stored."""
        counter = 0
        while True:
            seed = f"{kind}:{sha256}" + (f":{counter}" if counter else "")
            artifact_id = PREFIX[kind] + hashlib.sha256(seed.encode()).hexdigest()[:6]
            taken = self._known.get(artifact_id)
            if taken is None or taken.sha256 == sha256:
                return artifact_id, taken
            counter += 1  # other content has this id: one chance in 16.7 million for each artifact there is

    @contextlib.contextmanager
    def _index_lock(self) -> Iterator[int]:
        """The index opened for appending, locked against other processes."""
        with disk_errors():
            index = os.open(self._index, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            fcntl.flock(index, fcntl.LOCK_EX)
            yield index
        finally:
            os.close(index)  # also unlocks

    def _append(self, index: int, artifact: Artifact) -> None:
        line = artifact.model_dump_json(exclude_none=True).encode() + b"\n"
        size = os.fstat(index).st_size
        if size and os.pread(index, 1, size - 1) != b"\n":
            line = b"\n" + line  # close a line that a killed process left torn
        with disk_errors():
            written = os.write(index, line)
            if written != len(line):
                os.ftruncate(index, size)
                raise OSError(errno.ENOSPC, "short write to the artifact index")
            os.fsync(index)

    def _catch_up(self, *, opening: bool = False) -> None:
        """Read the lines added to the index since the last look, by this or another process."""
        if not opening and os.stat(self._index).st_size <= self._read_to:
            return
        with open(self._index, "rb") as index:
            index.seek(self._read_to)
            fresh = index.read()
        whole, newline, torn = fresh.rpartition(b"\n")
        self._read_to += len(whole) + len(newline)
        for line in whole.splitlines():
            if not line.strip():
                continue
            try:
                artifact = Artifact.model_validate_json(line)
            except ValidationError:
                log.warning("%s: dropped an unreadable line of %d bytes", self._index, len(line))
                continue
            artifact._store = self
            self._known[artifact.id] = artifact
        if torn and opening:
            log.warning("%s: the last line was cut (%d bytes); dropped it", self._index, len(torn))

    def _remove_stale_scratch(self) -> None:
        for left in self._scratch.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process may be cleaning too
                if time.time() - left.stat().st_mtime > STALE_SCRATCH_SECONDS:
                    shutil.rmtree(left) if left.is_dir() else left.unlink()


def kind_of(artifact_id: str) -> Kind | None:
    """The kind an id's prefix stands for, None when it is no id.

    >>> kind_of("doc_12ab34"), kind_of("page 3")
    ('document', None)
    """
    for kind in get_args(Kind):
        if artifact_id.startswith(PREFIX[kind]):
            return kind  # type: ignore[no-any-return]
    return None


def _pixels(artifact: Artifact) -> tuple[int, int]:
    if not artifact.width or not artifact.height:
        raise UserError(f"{artifact.id} has no width and height, so it has no boxes")
    return artifact.width, artifact.height


@contextlib.contextmanager
def disk_errors() -> Iterator[None]:
    """A full disk or quota becomes a `MediaError` with code `disk_full`; other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            fix = "Free some space or choose another data folder."
            raise MediaError("disk_full", "the artifact store's disk is full", fix=fix) from error
        raise
