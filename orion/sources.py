"""What a caller may attach, other than URLs and pictures, as a file of our own: paths, bytes and data URIs."""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from orion.errors import MediaError, UserError

COPY_CHUNK = 1 << 20


def bring(source: object, folder: Path, limit: int) -> tuple[Path, str | None]:
    """Copy a path's, data URI's or bytes' content, at most `limit` bytes, into a new file in `folder`: (file, name).

    A file of our own, so that nobody changes it while it is looked at. Raises `MediaError` and `UserError`.
    """
    target = folder / "source"
    if isinstance(source, str) and source.lstrip()[:5].lower() == "data:":
        target.write_bytes(_data_uri(source.strip(), limit))
        return target, None
    if isinstance(source, bytes | bytearray | memoryview):
        if len(source) > limit:
            raise _too_large("the data", limit)
        target.write_bytes(source)
        return target, None
    if not isinstance(source, str | os.PathLike):
        kinds = "a path, bytes, a data URI, a URL, a PIL image or an Artifact"
        raise UserError(f"a {type(source).__name__} cannot be attached", fix=f"Pass {kinds}.")
    path = _as_path(os.fspath(source))
    _copy(path, target, limit)
    return target, _readable(path.name)


def _readable(name: str) -> str:
    """A file's name as text. To the system it is bytes, which need not be UTF-8 or what the locale says."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _as_path(text: str) -> Path:
    scheme = re.match(r"([a-z][a-z0-9+.-]+)://", text, re.IGNORECASE)
    if scheme and scheme[1].lower() != "file":
        raise MediaError("fetch_refused", f"{scheme[1]}:// is not fetched", fix="Use http or https, or a local path.")
    if scheme:
        text = unquote(urlsplit(text).path)
    return Path(text).expanduser()


def _copy(path: Path, target: Path, limit: int) -> None:
    shown = str(path)[-300:]
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            what = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
            raise MediaError("not_a_file", f"{shown} is {what}", fix="Name one file.")
        with open(path, "rb") as source, open(target, "wb") as out:
            if os.fstat(source.fileno()).st_size > limit:
                raise _too_large(shown, limit)
            left = limit
            while chunk := source.read(COPY_CHUNK):  # it may grow meanwhile, or not know its size (/proc)
                left -= len(chunk)
                if left < 0:
                    raise _too_large(shown, limit)
                out.write(chunk)
    except PermissionError as error:
        raise MediaError("not_found", f"{shown} cannot be read: permission denied", fix="Check its rights.") from error
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:  # ValueError: a NUL in the name
        raise MediaError("not_found", f"there is no file {shown!r}", fix="Check the path.") from error
    except OSError as error:
        if error.filename is not None:  # the name itself is impossible: too long, a loop of links
            raise MediaError("not_found", f"{shown} cannot be read: {error.strerror}") from error
        raise MediaError("disk_full", f"{shown} could not be copied: {error.strerror}") from error


def _data_uri(uri: str, limit: int) -> bytes:
    """The bytes of `data:[type][;base64],…`, bounded before and after decoding."""
    header, comma, body = uri.partition(",")
    if not comma:
        raise MediaError("corrupt_file", "the data URI has no comma", fix="Write data:image/png;base64,….")
    if len(body) > limit * 3 + 1024:  # percent-encoding takes three characters a byte
        raise _too_large("the data URI", limit)
    data = unquote_to_bytes(body)
    if header.lower().rstrip().endswith(";base64"):
        packed = re.sub(rb"\s+", b"", data).translate(bytes.maketrans(b"-_", b"+/")).rstrip(b"=")
        try:
            data = base64.b64decode(packed + b"=" * (-len(packed) % 4), validate=True)
        except binascii.Error as error:
            raise MediaError("corrupt_file", f"the data URI's base64 is damaged ({error})") from error
    if len(data) > limit:
        raise _too_large("the data URI", limit)
    return data


def _too_large(shown: str, limit: int) -> MediaError:
    return MediaError("too_large", f"{shown} has more than {limit} bytes", fix="Send less or raise the limit.")
