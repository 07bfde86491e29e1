from __future__ import annotations

import asyncio
import base64
import io
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms, ImageDraw

from orion.artifacts import Artifact, ArtifactStore
from orion.errors import MediaError, NotConfigured, UserError
from orion.fetch import FetchLimits
from orion.media import (
    PASSWORD_FIX,
    MediaLimits,
    encode_for_model,
    image_for_model,
    intake,
    open_image,
    save_image,
    sniff,
)
from orion.pixels import MAX_RATIO, MIN_SIDE, decode, eight_bit, model_size
from orion.worker import WorkerPool

SHARED = Path(__file__).resolve().parents[2] / "shared"
SAMPLES = SHARED / "samples"
needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the shared samples are not here")


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(scope="module")
def workers(loop: asyncio.AbstractEventLoop) -> Iterator[WorkerPool]:
    """One warm worker for the whole module."""
    pool = WorkerPool(size=1, memory_mb=2048)
    yield pool
    loop.run_until_complete(pool.close())


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "store")


Take = Callable[..., Artifact]


@pytest.fixture
def take(loop: asyncio.AbstractEventLoop, workers: WorkerPool, store: ArtifactStore) -> Take:
    """`intake` with the fixtures' store and worker; no scratch may stay behind."""

    def run(source: Any, **options: Any) -> Artifact:
        limits = options.pop("limits", MediaLimits(decode_seconds=120))
        try:
            return loop.run_until_complete(intake(source, store, workers, limits, **options))
        finally:
            assert list((store.folder / "scratch").iterdir()) == []

    return run


def refusal(take: Take, source: Any, **options: Any) -> MediaError:
    with pytest.raises(MediaError) as caught:
        take(source, **options)
    return caught.value


def scene(width: int = 60, height: int = 40) -> Image.Image:
    """Red upper left corner, blue lower right corner, a soft ground: tells each of the eight orientations apart."""
    image = Image.linear_gradient("L").resize((width, height)).convert("RGB")
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, width // 3, height // 3), fill=(255, 0, 0))
    draw.rectangle((width * 2 // 3, height * 2 // 3, width, height), fill=(0, 0, 255))
    return image


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def near(pixel: Any, expected: tuple[int, ...], by: int = 12) -> bool:
    return all(abs(a - b) <= by for a, b in zip(pixel, expected, strict=True))


ISO = b"\x00\x00\x00\x18ftyp"
SNIFFED: list[tuple[bytes, str | None, str, str]] = [
    (encoded(scene(), "JPEG"), "wrong.png", "image", "image/jpeg"),
    (encoded(scene(), "PNG"), None, "image", "image/png"),
    (encoded(scene(), "WEBP"), None, "image", "image/webp"),
    (encoded(scene(), "GIF"), None, "image", "image/gif"),
    (encoded(scene(), "TIFF"), None, "image", "image/tiff"),
    (encoded(scene(), "BMP"), None, "image", "image/bmp"),
    (ISO + b"avif\0\0\0\0avifmif1", None, "image", "image/avif"),
    (ISO + b"mif1\0\0\0\0mif1avif", None, "image", "image/avif"),
    (ISO + b"heic\0\0\0\0mif1heic", None, "image", "image/heic"),
    (ISO + b"mif1\0\0\0\0mif1heic", None, "image", "image/heic"),
    (ISO + b"isom\0\0\2\0isomavc1", None, "video", "video/mp4"),
    (ISO + b"mp42\0\0\0\0mp42mp41", None, "video", "video/mp4"),
    (ISO + b"qt  \0\0\0\0qt  \0\0\0\0", None, "video", "video/quicktime"),
    (ISO + b"3gp5\0\0\0\0isom\0\0\0\0", None, "video", "video/3gpp"),
    (ISO + b"M4A \0\0\0\0M4A mp42", None, "audio", "audio/mp4"),
    (b"\x00\x00\x00\x08wide\x00\x00\x10\x00mdat", None, "video", "video/quicktime"),
    (b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\x82\x84webm", None, "video", "video/webm"),
    (b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\x82\x88matroska", None, "video", "video/x-matroska"),
    (b"RIFF\x24\x00\x00\x00AVI LIST", None, "video", "video/x-msvideo"),
    (b"RIFF\x24\x00\x00\x00WAVEfmt ", "a.mp3", "audio", "audio/wav"),
    (b"ID3\x04\x00\x00", None, "audio", "audio/mpeg"),
    (b"\xff\xfb\x90\x64" + bytes(400), None, "audio", "audio/mpeg"),
    (b"\xff\xf1\x50\x80" + bytes(100), None, "audio", "audio/aac"),
    (b"fLaC\x00\x00\x00\x22", None, "audio", "audio/flac"),
    (b"OggS\x00\x02" + bytes(20) + b"\x01vorbis", None, "audio", "audio/ogg"),
    (b"OggS\x00\x02" + bytes(20) + b"\x80theora", None, "video", "video/ogg"),
    (b"%PDF-1.7\n", "x.txt", "document", "application/pdf"),
    (b"\x0d\x0aX-Junk: 1\r\n" * 20 + b"%PDF-1.4\n1 0 obj\n<<>>", None, "document", "application/pdf"),
    (b"The file starts with %PDF-1.4, they say.", "a.txt", "file", "text/plain"),
    (b"x" * 2000 + b"%PDF-1.4\n1 0 obj\n", None, "file", "text/plain"),
    (b"PK\x03\x04\x14\x00", None, "file", "application/zip"),
    (b"plain words", None, "file", "text/plain"),
    ("Größe: 12 µm – ok".encode(), "notes", "file", "text/plain"),
    ("naïve".encode("latin-1"), "a.txt", "file", "text/plain"),
    ("größe".encode("utf-16"), None, "file", "text/plain"),
    ("café".encode()[:-1], None, "file", "text/plain"),
    (b"a,b\n1,2\n", "t.CSV", "file", "text/csv"),
    (b"# title", "README.md", "file", "text/markdown"),
    (b'{"a": 1}', "a.json", "file", "application/json"),
    (b"<!DOCTYPE html><html>", "a.pdf", "file", "text/html"),
    (b'<?xml version="1.0"?><svg xmlns="x"/>', None, "file", "image/svg+xml"),
    (b'<?xml version="1.0"?><root/>', None, "file", "application/xml"),
    (b"\x7fELF\x02\x01\x01\x00", "photo.jpg", "file", "application/octet-stream"),
    (b"MZ\x90\x00\x03\x00\x00\x00", None, "file", "application/octet-stream"),
    (b"\xff\xfe\x00\xd8\x00\x00", None, "file", "application/octet-stream"),
    (b"BM sounds like a bitmap but is a sentence", None, "file", "text/plain"),
]


@pytest.mark.parametrize(("head", "name", "kind", "media_type"), SNIFFED)
def test_sniff(head: bytes, name: str | None, kind: str, media_type: str) -> None:
    assert sniff(head, name) == (kind, media_type)


@given(st.binary(max_size=200), st.none() | st.text(max_size=20), st.sampled_from(SNIFFED))
def test_sniff_never_raises(noise: bytes, name: str | None, row: tuple[bytes, Any, Any, Any]) -> None:
    sniff(noise, name)
    sniff(row[0][:8] + noise, name)


# Sources


def test_path_bytes_data_uri_and_url_are_one_artifact(
    take: Take, store: ArtifactStore, tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> None:
    data = encoded(scene(), "PNG")
    file = tmp_path / "a photo é.png"
    file.write_bytes(data)
    artifact = take(file)
    assert (artifact.kind, artifact.media_type, artifact.name) == ("image", "image/png", "a photo é.png")
    assert (artifact.width, artifact.height, artifact.size) == (60, 40, len(data))
    assert artifact.meta == {"format": "PNG", "frames": 1, "orientation": 1}
    assert store.read(artifact.id) == data
    assert file.read_bytes() == data
    sources: list[Any] = [str(file), file.as_uri(), data, bytearray(data), memoryview(data), artifact]
    sources += [f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"]
    sources += [f" data:;base64,{quote(base64.b64encode(data).decode())}\n", f"data:image/png,{quote(data)}"]
    sources += [f"data:image/png;base64,{base64.urlsafe_b64encode(data).decode().rstrip('=')}"]
    for source in sources:
        assert take(source) == artifact
    assert len(store) == 1


def test_url(take: Take, store: ArtifactStore) -> None:
    data = encoded(scene(), "PNG")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")  # a lie: the content counts
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/scene.png?signature=hidden"
    try:
        assert refusal(take, url).code == "fetch_refused"
        limits = MediaLimits(fetch=FetchLimits(allow_addresses=(ip_network("127.0.0.0/8"),)))
        artifact = take(url, limits=limits)
        assert (artifact.kind, artifact.name) == ("image", "scene.png")
        assert artifact.meta["url"] == f"http://127.0.0.1:{server.server_port}/scene.png"
        assert store.read(artifact.id) == data
        small = limits.model_copy(update={"file_bytes": 100})
        assert refusal(take, url, limits=small).code == "too_large"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "CMYK", "P", "1", "LA", "I;16", "F", "YCbCr", "HSV"])
def test_pil_pictures(take: Take, store: ArtifactStore, mode: str) -> None:
    image = Image.new(mode, (30, 20))
    artifact = take(image, name="drawn.png")
    assert (artifact.width, artifact.height, artifact.name) == (30, 20, "drawn.png")
    assert open_image(store.path(artifact.id)).mode in ("L", "RGB", "RGBA")
    assert take(image) == artifact


def test_pil_picture_of_a_cut_file(take: Take) -> None:
    lazy = Image.open(io.BytesIO(encoded(scene(300, 300), "JPEG")[:2000]))
    assert refusal(take, lazy).code == "corrupt_file"


def test_artifact_of_another_store(take: Take, tmp_path: Path) -> None:
    foreign = ArtifactStore(tmp_path / "other").add(b"x", kind="file", media_type="text/plain")
    with pytest.raises(UserError, match=foreign.id):
        take(foreign)


def test_unusable_sources(take: Take, tmp_path: Path) -> None:
    (tmp_path / "empty.png").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    table: list[tuple[Any, str]] = [
        (tmp_path / "missing.png", "not_found"),
        (tmp_path / "empty.png" / "below", "not_found"),
        (tmp_path / "loop", "not_found"),
        (str(tmp_path / ("x" * 5000)), "not_found"),
        ("nul\0byte", "not_found"),
        ("", "not_a_file"),
        (tmp_path, "not_a_file"),
        (tmp_path / "pipe", "not_a_file"),
        ("/dev/zero", "not_a_file"),
        (tmp_path / "empty.png", "empty_file"),
        (b"", "empty_file"),
        ("data:,", "empty_file"),
        ("data:image/png;base64", "corrupt_file"),
        ("data:image/png;base64,@@@@", "corrupt_file"),
        ("data:image/png;base64,A", "corrupt_file"),
        ("ftp://files.example/a.png", "fetch_refused"),
        ("s3://bucket/a.png", "fetch_refused"),
        ("http://10.0.0.1/a.png", "fetch_refused"),
        (b"\x7fELF\x02\x01\x01\x00" + bytes(100), "unsupported"),
        (b"PK\x03\x04 not really", "corrupt_file"),
    ]
    for source, code in table:
        error = refusal(take, source)
        assert error.code == code, f"{source!r}: {error}"
        assert len(str(error)) < 700
    assert "Orion takes" in str(refusal(take, b"\x00\x01\x02\x03"))
    with pytest.raises(UserError, match="int cannot be attached"):
        take(7)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable(take: Take, tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(b"x")
    (tmp_path / "secret.png").chmod(0)
    assert "permission" in str(refusal(take, tmp_path / "secret.png"))


def test_size_limit_for_every_source(take: Take, tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_bytes(b"x" * 101)
    sources: list[Any] = [tmp_path / "big.txt", b"x" * 101, "data:," + "x" * 101, "data:," + "x" * 5000]
    sources.append("data:;base64," + base64.b64encode(b"x" * 101).decode())
    for source in sources:
        assert refusal(take, source, limits=MediaLimits(file_bytes=100)).code == "too_large"
    assert take(b"x" * 100, limits=MediaLimits(file_bytes=100)).size == 100


def test_video_audio_text_and_office_are_stored_as_they_are(take: Take, store: ArtifactStore) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("[Content_Types].xml", "<Types/>")
        out.writestr("xl/workbook.xml", "<workbook/>")
    plain_zip = io.BytesIO()
    with zipfile.ZipFile(plain_zip, "w") as out:
        out.writestr("word/not really.txt", "x")
    for data, kind, media_type in [
        (ISO + b"isom\0\0\2\0isomavc1" + bytes(50), "video", "video/mp4"),
        (b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(30), "audio", "audio/wav"),
        (b"some words", "file", "text/plain"),
        (plain_zip.getvalue(), "file", "application/zip"),
        (archive.getvalue(), "document", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ]:
        artifact = take(data)
        assert (artifact.kind, artifact.media_type, artifact.size) == (kind, media_type, len(data))
        assert store.read(artifact.id) == data


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs a file that tells no size")
def test_a_file_that_tells_no_size_is_bounded(take: Take) -> None:
    assert refusal(take, "/proc/self/maps", limits=MediaLimits(file_bytes=100)).code == "too_large"
    assert take("/proc/self/maps").media_type == "text/plain"


# Pictures


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_are_stored_upright(take: Take, store: ArtifactStore, orientation: int) -> None:
    turns = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    lying = scene().transpose(turns[orientation]) if orientation > 1 else scene()
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif[0x010F], exif[0x0110] = "Maker", "Model 7"
    exif[0x0132] = "2026:05:04 03:02:01"
    exif.get_ifd(0x8825).update({1: "S", 2: (33.0, 51.0, 30.0), 3: "E", 4: (151.0, 12.0, 36.0), 5: b"\0", 6: 58.5})
    artifact = take(encoded(lying, "JPEG", quality=95, exif=exif))
    image = open_image(store.path(artifact.id))
    assert image.size == (60, 40) == (artifact.width, artifact.height)
    assert near(image.getpixel((4, 4)), (255, 0, 0))
    assert near(image.getpixel((55, 35)), (0, 0, 255))
    assert artifact.meta["orientation"] == orientation
    assert artifact.meta["exif"] == {
        "Make": "Maker",
        "Model": "Model 7",
        "DateTime": "2026:05:04 03:02:01",
        "gps": {"latitude": -33.858333, "longitude": 151.21, "altitude": 58.5},
    }
    # Once: the stored picture must not ask to be turned again.
    assert decode(store.path(artifact.id)).orientation == 1 or orientation == 1
    assert artifact.media_type == ("image/jpeg" if orientation == 1 else "image/png")


def test_damaged_exif_does_not_cost_the_picture(take: Take) -> None:
    artifact = take(encoded(scene(), "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\x7f" + b"\xff" * 20))
    assert artifact.width == 60


@pytest.mark.parametrize(
    ("kind", "mode", "kept"),
    [
        ("JPEG", "RGB", True),
        ("JPEG", "L", True),
        ("PNG", "RGB", True),
        ("PNG", "RGBA", True),
        ("PNG", "L", True),
        ("WEBP", "RGB", True),
        ("WEBP", "RGBA", True),
        ("PNG", "P", False),
        ("PNG", "1", False),
        ("PNG", "LA", False),
        ("JPEG", "CMYK", False),
        ("GIF", "P", False),
        ("BMP", "RGB", False),
        ("TIFF", "RGB", False),
        ("TIFF", "CMYK", False),
        ("AVIF", "RGB", False),
    ],
)
def test_common_pictures_keep_their_bytes_others_become_png(
    take: Take, store: ArtifactStore, kind: str, mode: str, kept: bool
) -> None:
    data = encoded(scene().convert(mode), kind)
    artifact = take(data)
    assert (store.read(artifact.id) == data) == kept
    assert artifact.meta["format"] == kind
    image = open_image(store.path(artifact.id))
    assert image.mode in ("L", "RGB", "RGBA")
    assert image.size == (60, 40)
    if mode in ("RGB", "RGBA", "P", "CMYK"):
        assert near(image.convert("RGB").getpixel((6, 6)), (255, 0, 0), by=40)


def test_adobe_cmyk_is_not_inverted(tmp_path: Path) -> None:
    """Pillow writes CMYK JPEGs as Adobe does, inverted and with the marker."""
    file = tmp_path / "cmyk.jpg"
    Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(file, quality=95)
    assert b"Adobe" in file.read_bytes()
    assert near(open_image(file).getpixel((8, 8)), (255, 0, 0))


def test_unusable_colour_profile_of_cmyk(tmp_path: Path) -> None:
    file = tmp_path / "cmyk.jpg"
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()  # not a CMYK profile
    Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(file, quality=95, icc_profile=srgb)
    assert near(open_image(file).getpixel((8, 8)), (255, 0, 0))


@pytest.mark.parametrize(
    ("mode", "values", "expected"),
    [
        ("I;16", [0, 257, 32896, 65535], [0, 1, 128, 255]),
        ("I", [0, 257, 32896, 65535], [0, 1, 128, 255]),
        ("I", [-100_000, 0, 50_000, 100_000], [0, 128, 191, 255]),
        ("F", [0.0, 0.25, 0.5, 1.0], [0, 64, 128, 255]),
        ("F", [-2.0, 0.0, 1.0, 2.0], [0, 128, 191, 255]),
        ("F", [7.0, 7.0, 7.0, 7.0], [0, 0, 0, 0]),
    ],
)
def test_deep_grey_becomes_eight_bit(mode: str, values: list[Any], expected: list[int]) -> None:
    image = Image.new(mode, (4, 1))
    for x, value in enumerate(values):
        image.putpixel((x, 0), value)
    grey = eight_bit(image)
    assert grey.mode == "L"
    assert all(abs(grey.getpixel((x, 0)) - value) <= 1 for x, value in enumerate(expected))  # type: ignore[operator]


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bit_file(take: Take, store: ArtifactStore, kind: str) -> None:
    artifact = take(encoded(Image.new("I;16", (8, 8), 32896), kind))
    image = open_image(store.path(artifact.id))
    assert (image.mode, image.getpixel((1, 1))) == ("L", 128)


def test_alpha_is_kept(take: Take, store: ArtifactStore) -> None:
    image = Image.new("P", (8, 8), 1)
    image.putpalette([255, 0, 0, 0, 255, 0])
    artifact = take(encoded(image, "PNG", transparency=1))
    stored = open_image(store.path(artifact.id))
    assert (stored.mode, stored.getpixel((0, 0))) == ("RGBA", (0, 255, 0, 0))


@pytest.mark.parametrize("kind", ["GIF", "TIFF", "WEBP", "PNG"])
def test_first_frame_is_stored_and_the_others_stay_reachable(take: Take, store: ArtifactStore, kind: str) -> None:
    colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255)]
    frames = [Image.new("RGB", (40, 30), colour) for colour in colours]
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
    artifact = take(data)
    assert artifact.meta["frames"] == 3
    assert near(open_image(store.path(artifact.id)).convert("RGB").getpixel((5, 5)), colours[0])
    assert store.original_path(artifact.id).read_bytes() == data
    for number, colour in enumerate(colours):
        image = open_image(store.original_path(artifact.id), frame=number)
        assert near(image.convert("RGB").getpixel((5, 5)), colour)
    with pytest.raises(MediaError, match="frames are 0 to 2"):
        open_image(store.original_path(artifact.id), frame=3)
    assert take(data) == artifact


def test_frames_are_bounded(take: Take) -> None:
    frames = [Image.new("L", (8, 8), shade * 20) for shade in range(10)]
    data = encoded(frames[0], "TIFF", save_all=True, append_images=frames[1:])
    meta = take(data, limits=MediaLimits(image_frames=4)).meta
    assert (meta["frames"], meta["more_frames"]) == (4, True)


def test_pixel_limit(take: Take) -> None:
    data = encoded(Image.new("1", (1000, 1001)), "PNG")
    assert refusal(take, data, limits=MediaLimits(image_megapixels=1)).code == "too_large"
    assert take(data, limits=MediaLimits(image_megapixels=1.001)).width == 1000
    hidden = encoded(Image.new("1", (8, 8)), "TIFF", save_all=True, append_images=[Image.new("1", (2000, 1000))])
    with pytest.raises(MediaError) as caught:
        decode_bytes(hidden, frame=1, megapixels=1)
    assert caught.value.code == "too_large"


def test_pillows_own_limit_stays_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 12345)
    path, _ = save_image(scene(200, 200), tmp_path)
    assert open_image(path).size == (200, 200)
    assert Image.MAX_IMAGE_PIXELS == 12345


def decode_bytes(data: bytes, **options: Any) -> Any:
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return decode(file.name, **options)


@needs_samples
def test_bomb_is_refused_without_allocating(tmp_path: Path) -> None:
    """In a worker with 256 MB, where the picture's 400 MB could not be had."""
    payload = {"path": str(SAMPLES / "bomb_20000x20000.png"), "folder": str(tmp_path), "media_type": "image/png"}
    limits = {"megapixels": 100.0, "frames": 1, "pages": 1, "password": None}

    async def main() -> None:
        async with WorkerPool(size=1, memory_mb=256) as pool:
            await pool.call("orion.media:probe", payload | limits, seconds=120)

    with pytest.raises(MediaError) as caught:
        asyncio.run(main())
    assert caught.value.code == "too_large"


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF"])
def test_cut_files_are_corrupt(take: Take, kind: str) -> None:
    data = encoded(scene(200, 200), kind)
    for share in (0.3, 0.7):
        error = refusal(take, data[: int(len(data) * share)], name="cut.img")
        assert error.code == "corrupt_file"
        assert str(error).startswith("cut.img: ")


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(["JPEG", "PNG", "GIF", "TIFF", "BMP", "WEBP"]), st.data())
def test_damaged_bytes_give_a_picture_or_a_media_error(kind: str, data: st.DataObject) -> None:
    body = bytearray(encoded(scene(), kind))
    for _ in range(data.draw(st.integers(1, 6))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        outcome = decode_bytes(bytes(body), megapixels=1).image.mode
    except MediaError as error:
        outcome = error.code
    assert outcome in ("L", "RGB", "RGBA", "corrupt_file", "too_large", "unsupported")


@needs_samples
def test_sample_pictures(take: Take, store: ArtifactStore) -> None:
    pytest.importorskip("pi_heif")
    reference = open_image(SAMPLES / "scene.webp").convert("RGB").resize((80, 60))
    for name in ("scene.heic", "scene.avif", "scene.webp", "scene_exif6.jpg"):
        artifact = take(SAMPLES / name)
        assert (artifact.width, artifact.height) == (800, 600)
        image = open_image(store.path(artifact.id)).convert("RGB").resize((80, 60))
        difference = sum(abs(a - b) for a, b in zip(image.tobytes(), reference.tobytes(), strict=True))
        assert difference / len(reference.tobytes()) < 8, name
    assert take(SAMPLES / "scene_exif6.jpg").meta["orientation"] == 6
    assert refusal(take, SAMPLES / "truncated.jpg").code == "corrupt_file"
    assert refusal(take, SAMPLES / "bomb_20000x20000.png").code == "too_large"


@needs_samples
def test_heic_without_its_decoder_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pi_heif", None)
    with pytest.raises(NotConfigured) as caught:
        open_image(SAMPLES / "scene.heic")
    assert caught.value.setting == 'pip install "orion-visual-agent[image]"'


def test_open_image_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("words")
    with pytest.raises(MediaError, match="text/plain") as caught:
        open_image(tmp_path / "a.png")
    assert caught.value.code == "unsupported"


# PDFs


def drawn_pdf(pages: int, **options: Any) -> bytes:
    canvas = pytest.importorskip("reportlab.pdfgen.canvas")
    out = io.BytesIO()
    pdf = canvas.Canvas(out, **options)
    pdf.setTitle("Tide tables")
    for number in range(pages):
        pdf.drawString(72, 700, f"page {number + 1}")
        pdf.showPage()
    pdf.save()
    return out.getvalue()


def test_pdf(take: Take, store: ArtifactStore) -> None:
    pytest.importorskip("pypdfium2")
    data = drawn_pdf(3)
    artifact = take(data, name="tides.pdf")
    assert (artifact.kind, artifact.media_type, artifact.pages) == ("document", "application/pdf", 3)
    assert artifact.meta == {"format": "PDF", "title": "Tide tables"}
    assert store.read(artifact.id) == data
    assert take(b"--boundary\r\n\r\n" + data).pages == 3
    assert refusal(take, data, limits=MediaLimits(pages=2)).code == "too_large"
    assert refusal(take, data[:400]).code == "corrupt_file"


def test_encrypted_pdf(take: Take, store: ArtifactStore) -> None:
    pdfium = pytest.importorskip("pypdfium2")
    from reportlab.lib.pdfencrypt import StandardEncryption

    data = drawn_pdf(2, encrypt=StandardEncryption("öpen", ownerPassword="owner"))
    error = refusal(take, data, name="secret.pdf")
    assert (error.code, error.fix) == (
        "password_required",
        PASSWORD_FIX,
    )
    assert refusal(take, data, password="wrong").code == "wrong_password"
    artifact = take(data, password="öpen")
    assert (artifact.pages, artifact.meta["encrypted"]) == (2, True)
    with pdfium.PdfDocument(store.path(artifact.id)) as pdf:
        assert "page 2" in pdf[1].get_textpage().get_text_range()
    assert take(data, password="öpen") == artifact
    assert "öpen" not in (store.folder / "artifacts.jsonl").read_text()


@needs_samples
def test_sample_documents(take: Take) -> None:
    pytest.importorskip("pypdfium2")
    assert refusal(take, SAMPLES / "encrypted.pdf").code == "password_required"
    assert take(SAMPLES / "encrypted.pdf", password="secret").pages == 2
    assert refusal(take, SAMPLES / "corrupt_noxref.pdf").code == "corrupt_file"
    assert refusal(take, SAMPLES / "corrupt_trunc.pdf").code == "corrupt_file"
    assert take(SAMPLES / "giant_page.pdf").pages == 1
    types = {name: take(SAMPLES / name).media_type.rpartition(".")[2] for name in ("minutes.docx", "review.pptx")}
    assert types == {"minutes.docx": "document", "review.pptx": "presentation"}
    assert take(SAMPLES / "four_scenes.mp4").kind == "video"
    assert take(SAMPLES / "speech_16k.wav").kind == "audio"


# Workers that misbehave: stand-ins with the pool's own interface


class Answering:
    """A worker whose answer was written by an attacker."""

    def __init__(self, answer: Any, before: Callable[[Path], Any] = lambda folder: None) -> None:
        self.answer, self.before = answer, before

    async def call(self, target: str, payload: Any, *, seconds: float) -> Any:
        self.before(Path(payload["folder"]))
        return self.answer


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"kind": "image"},
        {"kind": "spell", "media_type": "a/b"},
        {"kind": "image", "media_type": "image/png", "width": -5},
        {"kind": "image", "media_type": "image/png", "surprise": 1},
        [],
    ],
)
def test_a_workers_answer_is_checked(store: ArtifactStore, answer: Any) -> None:
    with pytest.raises(MediaError) as caught:
        asyncio.run(intake(encoded(scene(), "PNG"), store, Answering(answer)))
    assert caught.value.code == "corrupt_file"
    assert len(store) == 0


def test_a_worker_cannot_bring_in_other_files(store: ArtifactStore, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    answer = {"kind": "image", "media_type": "image/png", "file": "made.png"}
    linking = Answering(answer, lambda folder: (folder / "made.png").symlink_to(secret))
    with pytest.raises(MediaError):
        asyncio.run(intake(encoded(scene(), "PNG"), store, linking))
    outside = Answering(answer | {"file": str(secret)})
    with pytest.raises((MediaError, FileNotFoundError)):
        asyncio.run(intake(encoded(scene(), "PNG"), store, outside))
    assert len(store) == 0
    assert secret.read_text() == "secret"


def test_a_worker_cannot_name_the_original(store: ArtifactStore, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    answer = {"kind": "image", "media_type": "image/png", "meta": {"original": str(tmp_path / "secret"), "url": "x"}}
    kept = asyncio.run(intake(encoded(scene(), "PNG"), store, Answering(answer)))
    assert store.original_path(kept.id) == store.path(kept.id)
    assert kept.meta == {}


def test_slow_hungry_and_crashing_decoders_are_the_files_fault(
    store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "orion_bad_decoders.py").write_text(
        "import ctypes, time\n"
        "def slow(payload): time.sleep(60)\n"
        "def hungry(payload): return {'x': len(bytearray(3_000_000_000))}\n"
        "def crash(payload): ctypes.string_at(0)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    class Redirected:
        def __init__(self, pool: WorkerPool, name: str) -> None:
            self.pool, self.name = pool, name

        async def call(self, target: str, payload: Any, *, seconds: float) -> Any:
            return await self.pool.call(f"orion_bad_decoders:{self.name}", payload, seconds=seconds)

    async def main() -> dict[str, str]:
        codes = {}
        async with WorkerPool(size=1, memory_mb=500) as pool:
            for name, seconds in (("slow", 1.0), ("hungry", 60.0), ("crash", 60.0)):
                limits, bad = MediaLimits(decode_seconds=seconds), Redirected(pool, name)
                with pytest.raises(MediaError, match=r"^hostile\.png: ") as caught:
                    await intake(encoded(scene(), "PNG"), store, bad, limits, name="hostile.png")
                codes[name] = caught.value.code
        return codes

    assert asyncio.run(main()) == {"slow": "timeout", "hungry": "too_large", "crash": "corrupt_file"}


# For tools and models


def test_save_image_keeps_every_pixel(tmp_path: Path) -> None:
    path, media_type = save_image(scene(), tmp_path)
    assert media_type == "image/png"
    assert open_image(path).tobytes() == scene().tobytes()
    assert save_image(scene(), tmp_path)[0] != path


@given(
    st.integers(1, 6000), st.integers(1, 6000), st.integers(28 * 28 * 400, 4_000_000), st.sampled_from([1, 14, 28, 32])
)
def test_model_size_holds_its_promises(width: int, height: int, max_pixels: int, multiple: int) -> None:
    if max(width, height) > MAX_RATIO * min(width, height):
        return
    sides = model_size(width, height, max_pixels, multiple)
    assert min(sides) >= MIN_SIDE
    assert all(side % multiple == 0 for side in sides)
    assert sides[0] * sides[1] <= max_pixels
    if multiple == 1 and min(width, height) >= MIN_SIDE and width * height <= max_pixels:
        assert sides == (width, height)


@pytest.mark.parametrize("size", [(640, 480), (10, 10), (3000, 5), (3, 2000), (1, 1)])
def test_encode_for_model(tmp_path: Path, size: tuple[int, int]) -> None:
    path, _ = save_image(scene(*size), tmp_path)
    data, media_type, width, height = encode_for_model(path, 200_000, 28)
    image = Image.open(io.BytesIO(data))
    assert image.size == (width, height)
    assert Image.MIME[image.format or ""] == media_type
    assert min(width, height) >= MIN_SIDE
    assert width * height <= 200_000
    assert max(width, height) <= MAX_RATIO * min(width, height)
    assert (data, media_type, width, height) == encode_for_model(path, 200_000, 28)


def test_encoding_fits_the_content(tmp_path: Path) -> None:
    photo = Image.effect_noise((200, 200), 60).convert("RGB")
    assert encode_for_model(save_image(photo, tmp_path)[0], 10**6, 1)[1] == "image/jpeg"
    drawing = Image.new("RGB", (200, 200), "white")
    ImageDraw.Draw(drawing).line((0, 0, 199, 199), fill="black")
    assert encode_for_model(save_image(drawing, tmp_path)[0], 10**6, 1)[1] == "image/png"
    clear = Image.new("RGBA", (50, 50), (255, 0, 0, 0))
    data = encode_for_model(save_image(clear, tmp_path)[0], 10**6, 1)[0]
    assert near(Image.open(io.BytesIO(data)).convert("RGB").getpixel((9, 9)), (255, 255, 255))


def test_image_for_model(take: Take, store: ArtifactStore, workers: WorkerPool, loop: Any) -> None:
    artifact = take(encoded(scene(600, 400), "PNG"))
    call: Awaitable[Any] = image_for_model(artifact.id, store, workers, max_pixels=100_000, multiple=28)
    data, media_type, width, height = loop.run_until_complete(call)
    assert (data, media_type, width, height) == encode_for_model(store.path(artifact.id), 100_000, 28)
    assert Image.open(io.BytesIO(data)).size == (width, height)


def test_import_is_light() -> None:
    script = (
        "import sys, orion.media, orion.worker\n"
        "print([name for name in ('PIL', 'httpx', 'numpy', 'pypdfium2', 'pi_heif', 'cv2') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120).stdout == "[]\n"
