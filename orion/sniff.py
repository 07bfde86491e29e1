"""What a file is, from its first bytes. The name and the sender's media type are never believed."""

from __future__ import annotations

import codecs
import re

from orion.artifacts import Kind

SNIFF_BYTES = 64 * 1024
"""Bytes from the start of a file that are enough to tell what it is."""
PDF_WITHIN = 1024
"""Mail gateways and scanners put junk before `%PDF`; readers accept it within the first kilobyte."""

UNKNOWN = "application/octet-stream"
ZIP = "application/zip"
OFFICE: dict[str, str] = {
    "word/": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xl/": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "ppt/": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}
RECOGNISED = (
    "images (JPEG, PNG, WebP, GIF, TIFF, BMP, AVIF, HEIC), PDF, Word, Excel and PowerPoint files, "
    "video (MP4, MOV, WebM, MKV, AVI), audio (WAV, MP3, FLAC, OGG, M4A) and text"
)

_STARTS: list[tuple[bytes, Kind, str]] = [
    (b"\xff\xd8\xff", "image", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image", "image/png"),
    (b"GIF87a", "image", "image/gif"),
    (b"GIF89a", "image", "image/gif"),
    (b"II*\x00", "image", "image/tiff"),
    (b"MM\x00*", "image", "image/tiff"),
    (b"II+\x00", "image", "image/tiff"),  # BigTIFF
    (b"MM\x00+", "image", "image/tiff"),
    (b"%PDF-", "document", "application/pdf"),
    (b"fLaC", "audio", "audio/flac"),
    (b"ID3", "audio", "audio/mpeg"),
    (b"PK\x03\x04", "file", ZIP),
    (b"PK\x05\x06", "file", ZIP),  # an empty archive
]
_RIFF: dict[bytes, tuple[Kind, str]] = {
    b"WEBP": ("image", "image/webp"),
    b"WAVE": ("audio", "audio/wav"),
    b"AVI ": ("video", "video/x-msvideo"),
}
_HEIF_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}
_TEXT_TYPES = {"csv": "text/csv", "tsv": "text/tab-separated-values", "md": "text/markdown", "json": "application/json"}


def sniff(head: bytes, name: str | None = None) -> tuple[Kind, str]:
    """Kind and media type from the first `SNIFF_BYTES` of a file; `("file", UNKNOWN)` when nothing fits.

    `name` only tells kinds of text apart (`.csv`, `.md`). A zip file's parts are listed at its end: see `office_type`.

    >>> sniff(b"\\x89PNG\\r\\n\\x1a\\n...", "really.jpg")
    ('image', 'image/png')
    >>> sniff(b"name;price\\n", "list.csv")
    ('file', 'text/csv')
    """
    for start, kind, media_type in _STARTS:
        if head.startswith(start):
            return kind, media_type
    found = _container(head) or _mpeg_audio(head) or _bitmap(head) or _late_pdf(head)
    if found:
        return found
    text = _text_type(head, name)
    return "file", text or UNKNOWN


def office_type(names: list[str]) -> str:
    """The media type of a zip file with entries of these names.

    >>> office_type(["[Content_Types].xml", "xl/workbook.xml"]).rpartition(".")[2]
    'sheet'
    """
    if "[Content_Types].xml" in names:
        for folder, media_type in OFFICE.items():
            if any(name.startswith(folder) for name in names):
                return media_type
    return ZIP


def _container(head: bytes) -> tuple[Kind, str] | None:
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12])
    if head[:4] == b"OggS":
        return ("video", "video/ogg") if b"\x80theora" in head[:256] else ("audio", "audio/ogg")
    if head[:4] == b"\x1a\x45\xdf\xa3":
        return "video", "video/webm" if b"webm" in head[:128] else "video/x-matroska"
    if head[4:8] == b"ftyp":
        return _iso_media(head)
    if head[4:8] in (b"moov", b"mdat", b"wide") and head[0] == 0:  # QuickTime from before `ftyp`
        return "video", "video/quicktime"
    return None


def _iso_media(head: bytes) -> tuple[Kind, str]:
    size = int.from_bytes(head[:4], "big")
    major = head[8:12]
    brands = {major, *(head[at : at + 4] for at in range(16, min(size, 256, len(head)), 4))}
    if major in (b"avif", b"avis") or (major in (b"mif1", b"msf1") and brands & {b"avif", b"avis"}):
        return "image", "image/avif"
    if major in _HEIF_BRANDS:
        return "image", "image/heic"
    if major in (b"M4A ", b"M4B ", b"M4P "):
        return "audio", "audio/mp4"
    if major == b"qt  ":
        return "video", "video/quicktime"
    return "video", "video/3gpp" if major[:3] == b"3gp" else "video/mp4"


def _mpeg_audio(head: bytes) -> tuple[Kind, str] | None:
    """A frame header of MPEG audio, layer III (MP3), with no reserved value in it, or of AAC."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return None
    if head[1] & 0xF6 == 0xF0:
        return "audio", "audio/aac"
    version, layer, bitrate, rate = head[1] >> 3 & 3, head[1] >> 1 & 3, head[2] >> 4, head[2] >> 2 & 3
    if version != 1 and layer == 1 and bitrate not in (0, 15) and rate != 3:
        return "audio", "audio/mpeg"
    return None


def _bitmap(head: bytes) -> tuple[Kind, str] | None:
    """BMP: two letters are too few, so its reserved field and header size must fit too."""
    fits = head[:2] == b"BM" and head[6:10] == bytes(4) and head[15:18] == bytes(3) and head[14:15]
    return ("image", "image/bmp") if fits and head[14] in (12, 16, 40, 52, 56, 64, 108, 124) else None


def _late_pdf(head: bytes) -> tuple[Kind, str] | None:
    # A text that merely mentions "%PDF-1.7" has no PDF object in it.
    found = re.search(rb"%PDF-\d\.\d", head[: PDF_WITHIN + 8])
    return ("document", "application/pdf") if found and re.search(rb"\d \d+ obj", head[found.end() :]) else None


def _text_type(head: bytes, name: str | None) -> str | None:
    text = _decode(head)
    if text is None:
        return None
    start = text.lstrip("\ufeff \t\r\n")[:1000].lower()
    if start.startswith(("<!doctype html", "<html")):
        return "text/html"
    if start.startswith("<svg") or (start.startswith(("<?xml", "<!--", "<!doctype svg")) and "<svg" in start):
        return "image/svg+xml"
    if start.startswith("<?xml"):
        return "application/xml"
    suffix = name.rpartition(".")[2].lower() if name else ""
    return _TEXT_TYPES.get(suffix, "text/plain")


def _decode(head: bytes) -> str | None:
    """The head as text, None when it is binary. A character cut at the end does not count."""
    utf16 = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = codecs.getincrementaldecoder("utf-16" if utf16 else "utf-8")().decode(head)
    except UnicodeDecodeError:
        # One-byte encodings fit any bytes: call it text only when control characters are absent.
        return None if re.search(rb"[\x00-\x08\x0b\x0e-\x1f\x7f]", head) else head.decode("latin-1")
    return None if re.search(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]", text) else text
