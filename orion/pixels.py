"""Pictures by Pillow: opened upright, 8-bit and within limits. Runs in workers: hostile bytes come through here.

The tools' side is `open_image` and `save_image`; `encode_for_model` makes what a vision model is sent.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import os
import tempfile
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orion.errors import MediaError, NotConfigured
from orion.run import JSON
from orion.sniff import SNIFF_BYTES, sniff

if TYPE_CHECKING:
    from PIL import Image

log = logging.getLogger(__name__)

MEGAPIXELS = 100.0
FRAMES = 64
MIN_SIDE = 28
"""Vision models fail on sides below one patch."""
MAX_RATIO = 200
"""Longer by shorter side that vision models accept."""
FEW_COLOURS = 64
"""Up to this many colours PNG is smaller and sharper than JPEG."""
JPEG_QUALITY = 90

# Only these decoders, and only the one the content asks for: Pillow knows many more, old and little tested.
_DECODERS = {
    "image/jpeg": "JPEG",
    "image/png": "PNG",
    "image/webp": "WEBP",
    "image/gif": "GIF",
    "image/tiff": "TIFF",
    "image/bmp": "BMP",
    "image/avif": "AVIF",
    "image/heic": "HEIF",
}
_KEPT = {"JPEG": "image/jpeg", "MPO": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}
_PILLOW = threading.Lock()
_ORIENTATION, _EXIF_IFD, _GPS_IFD = 0x0112, 0x8769, 0x8825
_EXIF_TEXT = {0x010F: "Make", 0x0110: "Model", 0x0132: "DateTime"}
_DATE_TAKEN = 0x9003


@dataclass(slots=True)
class Opened:
    """A decoded picture and what its file said about it."""

    image: Image.Image
    format: str
    frames: int
    more_frames: bool
    """There are more frames than were asked for at most."""
    orientation: int
    unchanged: bool
    """The file's own bytes already are this picture: upright, 8-bit, grey or RGB, one frame, a common format."""
    exif: dict[str, JSON] = field(default_factory=dict)


def open_image(path: str | os.PathLike[str], *, frame: int = 0, megapixels: float = MEGAPIXELS) -> Image.Image:
    """The picture in a file: upright, 8-bit, mode L, RGB or RGBA, fully decoded.

    `frame` counts from 0 (pages of a TIFF, frames of a GIF). Raises `MediaError` with code `corrupt_file`,
    `too_large` or `unsupported` (no such frame).
    """
    return decode(path, frame=frame, megapixels=megapixels).image


def decode(
    path: str | os.PathLike[str], *, frame: int = 0, megapixels: float = MEGAPIXELS, max_frames: int = FRAMES
) -> Opened:
    """As `open_image`, with format, number of frames, EXIF orientation and the main EXIF fields."""
    from PIL import Image, UnidentifiedImageError

    decoder = _decoder(path)
    try:
        with _pillow_limit(megapixels), Image.open(path, formats=[decoder]) as image:
            return _decode_frame(image, frame, megapixels, max_frames)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_many_pixels(megapixels) from error
    except UnidentifiedImageError as error:
        raise MediaError("corrupt_file", "the picture's header cannot be read") from error
    except (MediaError, NotConfigured, MemoryError):
        raise
    except Exception as error:  # decoders raise anything on damaged bytes, from SyntaxError to struct.error
        raise MediaError("corrupt_file", f"the picture is damaged ({str(error)[:200]})") from error


def save_image(image: Image.Image, folder: str | os.PathLike[str]) -> tuple[Path, str]:
    """Write a picture without loss into a new file in `folder`: (path, media type)."""
    image = eight_bit(image)
    handle, name = tempfile.mkstemp(dir=folder, suffix=".png")
    with os.fdopen(handle, "wb") as out:
        # Level 1: a tenth of the default's time for a tenth more bytes.
        image.save(out, "PNG", compress_level=1, icc_profile=image.info.get("icc_profile"))
    return Path(name), "image/png"


def encode_for_model(path: str | os.PathLike[str], max_pixels: int, multiple: int) -> tuple[bytes, str, int, int]:
    """A picture as a vision model is sent it: (bytes, media type, width, height in pixels).

    At most `max_pixels`, both sides multiples of `multiple` and at least 28 px. Only the scale changes, so 0–1
    coordinates stay true; a strip longer than 1:200 is padded with white at its right or bottom. The same file gives
    the same bytes.
    """
    image = _on_white(open_image(path))
    image = _padded(image)
    size = model_size(*image.size, max_pixels, multiple)
    if size != image.size:
        from PIL import Image

        image = image.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)
    out = io.BytesIO()
    if image.convert("RGB").getcolors(FEW_COLOURS) is not None:
        image.save(out, "PNG")
        return out.getvalue(), "image/png", *size
    image.save(out, "JPEG", quality=JPEG_QUALITY)
    return out.getvalue(), "image/jpeg", *size


def model_size(width: int, height: int, max_pixels: int, multiple: int) -> tuple[int, int]:
    """The size a picture of `width` × `height` pixels is sent at.

    >>> model_size(4000, 3000, 1_000_000, 28)
    (1148, 868)
    >>> model_size(10, 10, 1_000_000, 28)
    (28, 28)
    """
    least = math.ceil(MIN_SIDE / multiple) * multiple
    scale = max(min(1.0, math.sqrt(max_pixels / (width * height))), MIN_SIDE / min(width, height))
    sides = [max(least, round(side * scale / multiple) * multiple) for side in (width, height)]
    while (
        sides[0] * sides[1] > max_pixels and max(sides) > least
    ):  # rounding up, or a limit too small to keep the shape
        sides[sides.index(max(sides))] -= multiple
    return sides[0], sides[1]


def eight_bit(image: Image.Image) -> Image.Image:
    """The picture in mode L, RGB or RGBA. 16-bit grey is scaled so that 65535 is white; alpha is kept."""
    if image.mode in ("L", "RGB", "RGBA") and "transparency" not in image.info:
        return image
    if image.mode == "1":
        return image.convert("L")
    if image.mode.startswith("I") or image.mode == "F":
        return _scaled_grey(image)
    if image.mode == "CMYK":
        return _from_cmyk(image)
    if image.mode in ("LA", "La", "PA", "RGBa") or "transparency" in image.info:
        return image.convert("RGBA")
    return image.convert("RGB")


@contextlib.contextmanager
def _pillow_limit(megapixels: float) -> Iterator[None]:
    """Pillow's own guard, set for a while: its limit and the warnings are the whole process's, hence the lock."""
    from PIL import Image

    with _PILLOW, warnings.catch_warnings():
        before, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, round(megapixels * 1e6)
        # Between one and two times the limit Pillow only warns.
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = before


def _decode_frame(image: Image.Image, frame: int, megapixels: float, max_frames: int) -> Opened:
    from PIL import ImageOps

    source = image.format or ""
    # The further pictures of an MPO (a phone's JPEG) are previews and depth maps, not frames.
    all_frames = 1 if source == "MPO" else getattr(image, "n_frames", 1)
    frames = min(all_frames, max_frames)
    if not 0 <= frame < frames:
        raise MediaError("unsupported", f"there is no frame {frame}; frames are 0 to {frames - 1}")
    if all_frames > 1:
        image.seek(frame)
    if image.width * image.height > round(megapixels * 1e6):
        raise _too_many_pixels(megapixels)
    sixteen = any("16" in str(part) for tile in getattr(image, "tile", []) for part in tile[3:])
    image.load()
    orientation, exif = _read_exif(image)
    plain = image.mode in ("L", "RGB", "RGBA") and "transparency" not in image.info and not sixteen
    unchanged = plain and all_frames == 1 and orientation == 1 and source in _KEPT
    upright = ImageOps.exif_transpose(image) if orientation != 1 else image.copy()
    # pi-heif turns the picture itself and tells how it lay.
    original = int(image.info.get("original_orientation") or orientation)
    return Opened(eight_bit(upright), source, frames, all_frames > frames, original, unchanged, exif)


def _scaled_grey(image: Image.Image) -> Image.Image:
    low, high = (float(value) for value in image.getextrema())  # type: ignore[arg-type]
    if not (math.isfinite(low) and math.isfinite(high)):
        raise MediaError("unsupported", "the picture holds values that are not finite numbers")
    if image.mode == "F":
        black, white = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
    else:
        black, white = (0.0, 65535.0) if low >= 0 and high <= 65535 else (low, high)
    gain = 255.0 / (white - black) if white > black else 0.0
    wide = image if image.mode == "F" else image.convert("I").convert("F")
    # Half a step more, because the conversion to L cuts the fraction off.
    return wide.point(lambda value: value * gain + (0.5 - black * gain)).convert("L")


def _from_cmyk(image: Image.Image) -> Image.Image:
    profile = image.info.get("icc_profile")
    if profile:
        from PIL import ImageCms

        try:
            source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            turned = ImageCms.profileToProfile(image, source, ImageCms.createProfile("sRGB"), outputMode="RGB")
        except (ImageCms.PyCMSError, OSError) as error:
            log.warning("the picture's colour profile cannot be used (%s); its colours are approximate", error)
        else:
            assert turned is not None  # only with inPlace=True is there no result
            turned.info.pop("icc_profile", None)
            return turned
    rgb = image.convert("RGB")
    rgb.info.pop("icc_profile", None)
    return rgb


def _read_exif(image: Image.Image) -> tuple[int, dict[str, JSON]]:
    """Orientation 1–8 and the fields worth telling.

    Damaged EXIF is no reason to refuse a good picture; it is reported as `unreadable`.
    """
    try:
        exif = image.getexif()
        fields: dict[str, JSON] = {name: _plain(exif[tag]) for tag, name in _EXIF_TEXT.items() if tag in exif}
        if taken := exif.get_ifd(_EXIF_IFD).get(_DATE_TAKEN):
            fields["DateTime"] = _plain(taken)
        fields.update(_position(exif.get_ifd(_GPS_IFD)))
        orientation = exif.get(_ORIENTATION, 1)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - the parser raises anything on damaged tags; the caller is told
        return 1, {"unreadable": str(error)[:100]}
    return (orientation if orientation in range(2, 9) else 1), fields


def _position(gps: dict[int, Any]) -> dict[str, JSON]:
    """Latitude and longitude in degrees, altitude in metres, when they are given and finite."""
    found: dict[str, JSON] = {}
    for name, tag, negative in (("latitude", 2, "S"), ("longitude", 4, "W")):
        if tag in gps:
            degrees, minutes, seconds = (float(part) for part in gps[tag])
            value = degrees + minutes / 60 + seconds / 3600
            if math.isfinite(value):
                found[name] = round(-value if _plain(gps.get(tag - 1)).upper() == negative else value, 6)
    if 6 in gps and math.isfinite(altitude := float(gps[6])):
        found["altitude"] = round(-altitude if gps.get(5) in (1, b"\x01") else altitude, 2)
    return {"gps": found} if found else {}


def _plain(value: Any) -> str:
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return "".join(char for char in text if char.isprintable()).strip()[:100]


def _on_white(image: Image.Image) -> Image.Image:
    if image.mode != "RGBA":
        return image
    from PIL import Image as Pillow

    white = Pillow.new("RGBA", image.size, "white")
    return Pillow.alpha_composite(white, image).convert("RGB")


def _padded(image: Image.Image) -> Image.Image:
    long, short = max(image.size), min(image.size)
    if long <= MAX_RATIO * short:
        return image
    from PIL import Image as Pillow

    grown = math.ceil(long / MAX_RATIO)
    size = (long, grown) if image.width == long else (grown, long)
    padded = Pillow.new(image.mode, size, "white")
    padded.paste(image, (0, 0))
    return padded


def _decoder(path: str | os.PathLike[str]) -> str:
    """Pillow's name of the decoder for a file's content; tells how to get the one for HEIC when it is missing."""
    with open(path, "rb") as file:
        media_type = sniff(file.read(SNIFF_BYTES))[1]
    decoder = _DECODERS.get(media_type)
    if decoder is None:
        raise MediaError("unsupported", f"this is no picture but {media_type}")
    if decoder == "HEIF":
        try:
            import pi_heif
        except ImportError:
            setting = 'pip install "orion-visual-agent[image]"'
            fix = f"Run {setting}."
            raise NotConfigured("HEIC pictures need the pi-heif package", setting=setting, fix=fix) from None
        pi_heif.register_heif_opener()
    return decoder


def _too_many_pixels(megapixels: float) -> MediaError:
    fix = "Send a smaller picture or raise the limit."
    return MediaError("too_large", f"the picture has more than {megapixels:g} megapixels", fix=fix)
