"""Intake: a path, bytes, data URI, URL or picture becomes an artifact. Bytes are decoded in a worker, never here."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import ssl
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orion.artifacts import Artifact, ArtifactStore, Kind
from orion.errors import MediaError, NotConfigured, OrionError
from orion.fetch import FetchLimits, Resolver, fetch
from orion.pixels import FRAMES, MEGAPIXELS, decode, encode_for_model, open_image, save_image
from orion.run import JSON
from orion.sniff import RECOGNISED, SNIFF_BYTES, UNKNOWN, ZIP, office_type, sniff
from orion.sources import bring

if TYPE_CHECKING:
    from PIL import Image

__all__ = [
    "MediaLimits",
    "decode",
    "encode_for_model",
    "image_for_model",
    "intake",
    "office_type",
    "open_image",
    "save_image",
    "sniff",
]

PDF = "application/pdf"
_PASSWORD_ERROR, _REMOVE_SECURITY = 4, 3  # FPDF_ERR_PASSWORD and FPDF_REMOVE_SECURITY of PDFium
# A worker's end as the file's fault: see `orion.worker`.
_FAULT: dict[str, tuple[Any, str]] = {
    "timeout": ("timeout", "decoding took longer than {seconds:g} s"),
    "out_of_memory": ("too_large", "decoding needs more memory than is allowed"),
    "died": ("corrupt_file", "the decoder crashed on it"),
}

PASSWORD_FIX = "Give its password: password=…, or `orion run --password …`."


class MediaLimits(BaseModel):
    """What one attached file may cost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file_bytes: int = Field(default=512 * 1024**2, ge=1)
    image_megapixels: float = Field(default=MEGAPIXELS, gt=0)
    image_frames: int = Field(default=FRAMES, ge=1)
    """Frames of an animation or pages of a TIFF that are used; `meta["more_frames"]` tells that there are more."""
    pages: int = Field(default=2000, ge=1)
    decode_seconds: float = Field(default=30.0, gt=0)
    fetch: FetchLimits = FetchLimits()


class Workers(Protocol):
    """What intake needs of `orion.worker.WorkerPool`."""

    async def call(self, target: str, payload: Mapping[str, JSON], *, seconds: float) -> dict[str, JSON]:
        """Run `package.module:function` on `payload` in a worker."""
        ...


class _Probe(BaseModel):
    """A worker's answer. It saw hostile bytes, so it is checked before it is believed."""

    model_config = ConfigDict(extra="forbid")

    kind: Kind
    media_type: str
    file: str | None = None
    """Name of a file in the scratch folder that replaces the original bytes."""
    width: int | None = Field(default=None, ge=1)
    height: int | None = Field(default=None, ge=1)
    pages: int | None = Field(default=None, ge=1)
    meta: dict[str, JSON] = Field(default_factory=dict)


async def intake(
    source: str | os.PathLike[str] | bytes | bytearray | memoryview | Image.Image | Artifact,
    store: ArtifactStore,
    workers: Workers,
    limits: MediaLimits | None = None,
    *,
    name: str | None = None,
    password: str | None = None,
    resolver: Resolver | None = None,
    verify: ssl.SSLContext | bool = True,
) -> Artifact:
    """Bring one input into the store: a path, bytes, a data URI, an http(s) URL, a PIL image or an Artifact of it.

    Images are stored upright, 8-bit, as RGB, RGBA or grey; `meta` has `format`, `frames`, `orientation` and `exif` of
    the original. Of animations and multi-page TIFFs the first frame is stored; `store.original_path(id)` has all. PDFs
    that a `password` opens are stored decrypted. `name` overrides the file name; `resolver` and `verify` are those of
    `orion.fetch.fetch`.

    Raises `MediaError`, or `NotConfigured` when a decoder is not installed.
    """
    limits = limits or MediaLimits()
    if isinstance(source, Artifact):
        return store.get(source.id)
    with store.scratch() as folder:
        if _is_picture(source):
            return await asyncio.to_thread(_add_picture, source, store, folder, name)
        meta: dict[str, JSON] = {}
        if isinstance(source, str) and re.match(r"\s*https?:", source, re.IGNORECASE):
            bounds = limits.fetch.model_copy(update={"bytes": min(limits.fetch.bytes, limits.file_bytes)})
            fetched = await fetch(source, limits=bounds, folder=folder, resolver=resolver, verify=verify)
            path, name = fetched.path, name or fetched.name
            meta["url"] = fetched.final_url.partition("?")[0]
        else:
            path, found = await asyncio.to_thread(bring, source, folder, limits.file_bytes)
            name = name or found
        return await _add_file(path, name, meta, store, workers, limits, password)


async def image_for_model(
    artifact_id: str, store: ArtifactStore, workers: Workers, *, max_pixels: int, multiple: int, seconds: float = 30.0
) -> tuple[bytes, str, int, int]:
    """`encode_for_model` of a stored image, in a worker: (bytes, media type, width, height in pixels)."""
    with store.scratch() as folder:
        payload = {"path": str(store.path(artifact_id)), "out": str(folder / "encoded")}
        sizes = {"max_pixels": max_pixels, "multiple": multiple}
        answer = await workers.call("orion.media:encode", payload | sizes, seconds=seconds)
        data = (folder / "encoded").read_bytes()
    return data, str(answer["media_type"]), int(answer["width"]), int(answer["height"])


async def _add_file(
    path: Path,
    name: str | None,
    meta: dict[str, JSON],
    store: ArtifactStore,
    workers: Workers,
    limits: MediaLimits,
    password: str | None,
) -> Artifact:
    shown = name or "the file"
    head = await asyncio.to_thread(_head, path)
    if not head:
        raise MediaError("empty_file", f"{shown} is empty", fix="Check that it was written completely.")
    kind, media_type = sniff(head, name)
    if media_type == UNKNOWN:
        raise MediaError("unsupported", f"{shown} is of no known kind", fix=f"Orion takes {RECOGNISED}.")
    probe = _Probe(kind=kind, media_type=media_type)
    if kind == "image" or media_type in (PDF, ZIP):
        probe = await _probe(path, probe, shown, workers, limits, password)
    if probe.file is not None:
        made = path.parent / Path(probe.file).name
        if not stat.S_ISREG(os.lstat(made).st_mode):  # a link would pull in any file of ours
            raise MediaError("corrupt_file", f"{shown} could not be converted")
        if probe.meta.get("frames", 1) > 1 or probe.meta.get("more_frames"):
            probe.meta["original"] = (await asyncio.to_thread(store.keep, path, move=True))[0]
        path = made

    def add() -> Artifact:
        return store.add(
            path,
            move=True,
            kind=probe.kind,
            media_type=probe.media_type,
            name=name,
            width=probe.width,
            height=probe.height,
            pages=probe.pages,
            meta=meta | probe.meta,
        )

    return await asyncio.to_thread(add)


async def _probe(
    path: Path, sniffed: _Probe, shown: str, workers: Workers, limits: MediaLimits, password: str | None
) -> _Probe:
    payload = {
        "path": str(path),
        "folder": str(path.parent),
        "kind": sniffed.kind,
        "media_type": sniffed.media_type,
        "megapixels": limits.image_megapixels,
        "frames": limits.image_frames,
        "pages": limits.pages,
        "password": password,
    }
    seconds = limits.decode_seconds
    try:
        seen = _Probe.model_validate(await workers.call("orion.media:probe", payload, seconds=seconds))
    except ValidationError as error:
        raise MediaError("corrupt_file", f"{shown}: the decoder gave a nonsensical answer") from error
    except MediaError as error:
        raise MediaError(error.code, f"{shown}: {error.message}", fix=error.fix) from error
    except NotConfigured:
        raise
    except OrionError as error:
        fault = _FAULT.get(getattr(error, "code", ""))
        if fault is None:
            raise
        fix = "Send a smaller file or raise the limit." if fault[0] != "corrupt_file" else None
        raise MediaError(fault[0], f"{shown}: {fault[1].format(seconds=seconds)}", fix=fix) from error
    for ours in ("original", "url"):  # names of files and addresses are Orion's own to give
        seen.meta.pop(ours, None)
    return seen


def _head(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(SNIFF_BYTES)


def _is_picture(source: object) -> bool:
    pillow = sys.modules.get("PIL.Image")  # nobody can hold a picture before Pillow is loaded
    return pillow is not None and isinstance(source, pillow.Image)


def _add_picture(image: Any, store: ArtifactStore, folder: Path, name: str | None) -> Artifact:
    from PIL import ImageOps

    try:
        upright = ImageOps.exif_transpose(image)
        path, media_type = save_image(upright, folder)
    except (OSError, ValueError) as error:  # opened lazily from a damaged file, closed, or without pixels
        raise MediaError("corrupt_file", f"the picture cannot be read ({str(error)[:200]})") from error
    meta: dict[str, JSON] = {"format": image.format or "PIL", "frames": 1, "orientation": 1}
    width, height = upright.size
    return store.add(
        path, move=True, kind="image", media_type=media_type, name=name, width=width, height=height, meta=meta
    )


# What follows runs in a worker.


def probe(payload: dict[str, JSON]) -> dict[str, JSON]:
    """Worker side of `intake`: look into an image, PDF or zip file, and write the normalised image if needed."""
    path, folder = Path(payload["path"]), Path(payload["folder"])
    if payload["media_type"] == PDF:
        return _probe_pdf(path, folder, payload["pages"], payload["password"])
    if payload["media_type"] == ZIP:
        return _probe_zip(path)
    opened = decode(path, megapixels=payload["megapixels"], max_frames=payload["frames"])
    meta: dict[str, JSON] = {
        "format": opened.format.replace("MPO", "JPEG"),
        "frames": opened.frames,
        "orientation": opened.orientation,
    }
    if opened.more_frames:
        meta["more_frames"] = True
    if opened.exif:
        meta["exif"] = opened.exif
    file, media_type = None, payload["media_type"]
    if not opened.unchanged:
        made, media_type = save_image(opened.image, folder)
        file = made.name
    width, height = opened.image.size
    return {"kind": "image", "media_type": media_type, "file": file, "width": width, "height": height, "meta": meta}


def encode(payload: dict[str, JSON]) -> dict[str, JSON]:
    """Worker side of `image_for_model`."""
    data, media_type, width, height = encode_for_model(payload["path"], payload["max_pixels"], payload["multiple"])
    Path(payload["out"]).write_bytes(data)
    return {"media_type": media_type, "width": width, "height": height}


def _probe_zip(path: Path) -> dict[str, JSON]:
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            media_type = office_type(archive.namelist())
    except (zipfile.BadZipFile, NotImplementedError, ValueError, UnicodeError) as error:
        raise MediaError("corrupt_file", f"the archive is damaged ({error})") from error
    return {"kind": "file" if media_type == ZIP else "document", "media_type": media_type}


def _probe_pdf(path: Path, folder: Path, max_pages: int, password: str | None) -> dict[str, JSON]:
    try:
        import pypdfium2
    except ImportError:
        setting = 'pip install "orion-visual-agent[document]"'
        raise NotConfigured("PDFs need the pypdfium2 package", setting=setting, fix=f"Run {setting}.") from None
    try:
        pdf = pypdfium2.PdfDocument(path, password=password)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) != _PASSWORD_ERROR:
            raise MediaError("corrupt_file", "the PDF is damaged and cannot be opened") from error
        if password is None:
            raise MediaError(
                "password_required",
                "the PDF is encrypted",
                fix=PASSWORD_FIX,
            ) from error
        raise MediaError("wrong_password", "the password does not open the PDF") from error
    try:
        pages = len(pdf)
        if pages == 0:
            raise MediaError("corrupt_file", "the PDF has no pages")
        if pages > max_pages:
            raise MediaError("too_large", f"the PDF has {pages} pages, more than {max_pages}", fix="Send a part of it.")
        meta: dict[str, JSON] = {"format": "PDF"}
        if title := str(pdf.get_metadata_dict().get("Title") or "").strip()[:200]:
            meta["title"] = title
        file = None
        if pypdfium2.raw.FPDF_GetSecurityHandlerRevision(pdf.raw) >= 0:
            meta["encrypted"] = True
        if meta.get("encrypted") and password is not None:
            # The tools that come later do not know the password.
            file = "decrypted.pdf"
            pdf.save(folder / file, flags=_REMOVE_SECURITY)
            _fix_pdf_id(folder / file)
    finally:
        pdf.close()
    return {"kind": "document", "media_type": PDF, "file": file, "pages": pages, "meta": meta}


def _fix_pdf_id(path: Path) -> None:
    """PDFium ends a saved file with a random identifier; make it the same each time, as its artifact id hangs on it."""
    with open(path, "r+b") as file:
        file.seek(max(0, path.stat().st_size - SNIFF_BYTES))
        at, tail = file.tell(), file.read()
        found = list(re.finditer(rb"/ID\s*\[<([0-9A-Fa-f]*)><([0-9A-Fa-f]{32})>\]", tail))
        if found:
            file.seek(at + found[-1].start(2))
            file.write(hashlib.md5(found[-1][1], usedforsecurity=False).hexdigest().upper().encode())
