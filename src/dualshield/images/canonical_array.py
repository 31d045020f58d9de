"""Resize an upload to canonical pixels in strips, so that a large upload needs little memory.

How a strip is resized is an argument. Pillow does it here, in float32, for programs that start without torch;
`canonical` does it with torch. Both are the same linear map (antialiased bilinear), and their float32 results differ by
less than 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from dualshield.images.decode import DecodedImage
from dualshield.images.space import CANONICAL_SIZE, upload_norm

# Limits on pixels per strip and on rows kept at final width; they bound the memory of resizing to about 200 MB.
STRIP_PIXELS = 4_000_000
MOST_ROWS = 32_768

Rows = npt.NDArray[np.float32]
Resize = Callable[[Rows, int, int], Rows]
"""From rows (height, width, 3), a height and a width to rows of that size."""


@dataclass(frozen=True, eq=False)
class CanonicalArray:
    """Canonical pixels ``(3, 512, 512)`` as an array, and where they come from."""

    pixels: Rows
    name: str
    upload_norm: float | None


def canonical_array(image: DecodedImage) -> CanonicalArray:
    """Return the canonical pixels of an upload, without torch."""
    pixels = np.ascontiguousarray(resized(image, _pillow).transpose(2, 0, 1)).clip(0, 1)
    return CanonicalArray(pixels, image.name, upload_norm((image.width, image.height), image.gain))


def resized(image: DecodedImage, resize: Resize) -> Rows:
    """Return all rows at 512 x 512."""
    if image.height > MOST_ROWS:
        return _tall(image, resize)
    rows = max(1, STRIP_PIXELS // image.width)
    strips = [
        _sized(resize, image.rows(start, min(start + rows, image.height)), width=CANONICAL_SIZE)
        for start in range(0, image.height, rows)
    ]
    return _sized(resize, strips[0] if len(strips) == 1 else np.concatenate(strips), height=CANONICAL_SIZE)


def _tall(image: DecodedImage, resize: Resize) -> Rows:
    """Height first: for images so tall that all rows at final width would need too much memory."""
    scale = image.height / CANONICAL_SIZE
    rows = np.empty((CANONICAL_SIZE, image.width, 3), np.float32)
    for place in range(CANONICAL_SIZE):
        centre = (place + 0.5) * scale
        first, last = max(0, math.floor(centre - scale)), min(image.height, math.ceil(centre + scale))
        weights = np.maximum(0, 1 - np.abs(np.arange(first, last) + 0.5 - centre) / scale)
        rows[place] = np.tensordot(weights / weights.sum(), image.rows(first, last), 1)
    return _sized(resize, rows, width=CANONICAL_SIZE)


def _sized(resize: Resize, rows: Rows, *, width: int | None = None, height: int | None = None) -> Rows:
    size = (height or rows.shape[0], width or rows.shape[1])
    return rows if rows.shape[:2] == size else resize(rows, *size)


def _pillow(rows: Rows, height: int, width: int) -> Rows:
    """Resize each channel as a 32-bit float image; Pillow's bilinear filter is antialiased."""
    size, filter_ = (width, height), Image.Resampling.BILINEAR
    planes = (Image.fromarray(np.ascontiguousarray(rows[:, :, channel])) for channel in (0, 1, 2))
    return np.stack([np.asarray(plane.resize(size, filter_)) for plane in planes], axis=2)
