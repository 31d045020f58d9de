"""The canonical image: RGB, 512 x 512, float32 in [0, 1]. All budgets and radii are measured in this space."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from PIL import Image

from dualshield.images.decode import DecodedImage, decode, image_error
from dualshield.images.space import CANONICAL_SIZE, upload_norm

# Limits on pixels per strip and on rows kept at final width; they bound the memory of resizing to about 200 MB.
STRIP_PIXELS = 4_000_000
MOST_ROWS = 32_768
_SHAPE = (3, CANONICAL_SIZE, CANONICAL_SIZE)


@dataclass(frozen=True, eq=False, repr=False)
class CanonicalImage:
    """Canonical pixels ``(3, 512, 512)`` and, if known, the size of the original upload.

    `upload_gain` is an l2 Lipschitz constant from the upload's samples to RGB, as `gain` of `DecodedImage`.
    """

    pixels: torch.Tensor
    name: str
    upload_size: tuple[int, int] | None = None
    upload_gain: float | None = 1.0

    def __post_init__(self) -> None:
        what = _pixel_problem(self.pixels)
        if what:
            raise image_error(self.name, what, f"give a float tensor {_SHAPE} of finite numbers, or use as_image")

    def __repr__(self) -> str:
        name = self.name if self.name.isprintable() else ascii(self.name)
        size = "" if self.upload_size is None else f", {self.upload_size[0]}x{self.upload_size[1]}"
        return f"<CanonicalImage {name}{size}>"

    @property
    def upload_norm(self) -> float | None:
        """A Lipschitz constant ``c`` of the map from the upload's own samples; a radius there is ``R / c``."""
        return upload_norm(self.upload_size, self.upload_gain)

    def to_8bit(self) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        """Return the image as ``(512, 512, 3)`` uint8, rounded to nearest."""
        rounded = (self.pixels.clamp(0, 1) * 255).round().to(torch.uint8)
        return rounded.permute(1, 2, 0).contiguous().numpy()

    def to_png(self) -> bytes:
        """Return the bytes of a PNG file of the 8-bit image."""
        file = BytesIO()
        Image.fromarray(self.to_8bit()).save(file, "PNG")
        return file.getvalue()


def canonicalise(image: DecodedImage) -> CanonicalImage:
    """Resize to 512 x 512 (antialiased bilinear, aspect ratio ignored, no rounding): a linear map of the upload.

    Works on strips of the image, so that a large upload needs little memory.
    """
    pixels = _resized_tall(image) if image.height > MOST_ROWS else _resized(image)
    # Triangle weights are non-negative and sum to one: the clamp only removes float rounding.
    return CanonicalImage(pixels[0].clamp(0, 1).contiguous(), image.name, (image.width, image.height), image.gain)


def _resized(image: DecodedImage) -> torch.Tensor:
    """Resize strips of rows to the final width, then all rows together to the final height."""
    rows = max(1, STRIP_PIXELS // image.width)
    strips = [
        _resize(_tensor(image.rows(start, min(start + rows, image.height))), width=CANONICAL_SIZE)
        for start in range(0, image.height, rows)
    ]
    return _resize(torch.cat(strips, 2), height=CANONICAL_SIZE)


def _resized_tall(image: DecodedImage) -> torch.Tensor:
    """Like `_resized`, but height first: for images so tall that all rows at final width would need too much memory."""
    scale = image.height / CANONICAL_SIZE
    rows = np.empty((CANONICAL_SIZE, image.width, 3), np.float32)
    for place in range(CANONICAL_SIZE):
        centre = (place + 0.5) * scale
        first, last = max(0, math.floor(centre - scale)), min(image.height, math.ceil(centre + scale))
        weights = np.maximum(0, 1 - np.abs(np.arange(first, last) + 0.5 - centre) / scale)
        rows[place] = np.tensordot(weights / weights.sum(), image.rows(first, last), 1)
    return _resize(_tensor(rows), width=CANONICAL_SIZE)


def _tensor(rows: npt.NDArray[np.float32]) -> torch.Tensor:
    return torch.from_numpy(rows).permute(2, 0, 1)[None]


def _resize(pixels: torch.Tensor, *, width: int | None = None, height: int | None = None) -> torch.Tensor:
    size = (height or pixels.shape[2], width or pixels.shape[3])
    return pixels if pixels.shape[2:] == size else F.interpolate(pixels, size=size, mode="bilinear", antialias=True)


def load_image(source: str | os.PathLike[str] | bytes) -> CanonicalImage:
    """Decode a file (or its bytes) to a canonical image; raises ImageError if it cannot be decoded."""
    return canonicalise(decode(source))


def _pixel_problem(pixels: object) -> str:
    """Return why these are not canonical pixels, or an empty string if they are."""
    if not isinstance(pixels, torch.Tensor):
        return f"its pixels are a {type(pixels).__name__}"
    if not pixels.is_floating_point() or pixels.shape != _SHAPE:
        return f"its pixels are {pixels.dtype} {tuple(pixels.shape)}"
    return "" if bool(pixels.isfinite().all()) else "its pixels are not all finite (NaN or infinity)"
