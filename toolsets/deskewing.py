"""How far text is askew, from the sharpness of its row profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

    Pixels = NDArray[Any]

SIDE = 900  # px; the search runs on a reduced copy
COARSE, FINE = 0.5, 0.05  # degrees a step
MIN_GAIN = 1.02  # how much sharper than the picture as it is the best angle must be


def skew(image: Image.Image, max_degrees: float) -> float:
    """Degrees counter-clockwise that level the text, 0 when it is level or there is none."""
    import cv2
    import numpy as np

    grey = image.convert("L")
    grey.thumbnail((SIDE, SIDE))
    pixels = np.asarray(grey)
    block = max(15, (min(pixels.shape) // 12) | 1)
    ink = cv2.adaptiveThreshold(
        cv2.medianBlur(pixels, 3), 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY_INV, block, 12
    )
    if not ink.any():
        return 0.0
    best = _best(ink, 0.0, max_degrees, COARSE)
    best = _best(ink, best, COARSE, FINE)
    if abs(best) > max_degrees or _sharpness(ink, best) < MIN_GAIN * _sharpness(ink, 0.0):
        return 0.0
    return round(best, 2)


def _best(ink: Pixels, centre: float, reach: float, step: float) -> float:
    count = round(reach / step)
    angles = [centre + step * at for at in range(-count, count + 1)]
    return max(angles, key=lambda angle: (_sharpness(ink, angle), -abs(angle)))


def _sharpness(ink: Pixels, degrees: float) -> float:
    """Sum of squared steps between neighbouring rows after a counter-clockwise turn: high when lines are level."""
    import cv2
    import numpy as np

    height, width = ink.shape
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 1.0)
    turned = cv2.warpAffine(ink, matrix, (width, height), flags=cv2.INTER_LINEAR)
    profile = turned.sum(axis=1, dtype=np.float64)
    return float(((profile[1:] - profile[:-1]) ** 2).sum())
