"""The canonical image: RGB, 512 x 512, float32 in [0, 1]. Every budget and radius lives in this space."""

from __future__ import annotations

import os
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from dualshield.images import axes
from dualshield.images.decode import DecodedImage, decode, image_error

CANONICAL_SIZE = 512
RADIUS_SPACE = "canonical-512"
_SHAPE = (3, CANONICAL_SIZE, CANONICAL_SIZE)


@dataclass(frozen=True, eq=False, repr=False)
class CanonicalImage:
    """Canonical pixels ``(3, 512, 512)`` and, where known, the size of the upload they came from.

    `upload_gain` is how far RGB moves at most when the upload's samples move by one, as in `DecodedImage`.
    """

    pixels: torch.Tensor
    name: str
    upload_size: tuple[int, int] | None = None
    upload_gain: float | None = 1.0

    def __post_init__(self) -> None:
        what = _flaw(self.pixels)
        if what:
            raise image_error(self.name, what, f"give a float tensor {_SHAPE} of finite numbers, or use as_image")

    def __repr__(self) -> str:
        name = self.name if self.name.isprintable() else ascii(self.name)
        size = "" if self.upload_size is None else f", {self.upload_size[0]}x{self.upload_size[1]}"
        return f"<CanonicalImage {name}{size}>"

    @property
    def upload_norm(self) -> float | None:
        """A Lipschitz constant ``c`` of the way here from the upload's own samples; a radius there is ``R / c``.

        ``||B||_2`` of the resize times the gain of what came before it; None where there is no such number.
        """
        if self.upload_size is None or self.upload_gain is None:
            return None
        width, height = self.upload_size
        return self.upload_gain * axes.resize_norm(height, CANONICAL_SIZE) * axes.resize_norm(width, CANONICAL_SIZE)

    def to_8bit(self) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        """``(512, 512, 3)`` uint8, rounded to nearest."""
        rounded = (self.pixels.clamp(0, 1) * 255).round().to(torch.uint8)
        return rounded.permute(1, 2, 0).contiguous().numpy()

    def to_png(self) -> bytes:
        """A PNG file of the 8-bit image."""
        file = BytesIO()
        Image.fromarray(self.to_8bit()).save(file, "PNG")
        return file.getvalue()


def canonicalise(image: DecodedImage) -> CanonicalImage:
    """Antialiased bilinear resize, aspect ratio ignored, no rounding: a linear map of the upload."""
    pixels = torch.from_numpy(image.pixels).permute(2, 0, 1)[None]
    size = (CANONICAL_SIZE, CANONICAL_SIZE)
    if pixels.shape[-2:] != size:
        pixels = F.interpolate(pixels, size=size, mode="bilinear", antialias=True)
    # Triangle weights are non-negative and sum to one: the clamp only removes float rounding.
    return CanonicalImage(pixels[0].clamp(0, 1).contiguous(), image.name, (image.width, image.height), image.gain)


def load_image(source: str | os.PathLike[str] | bytes) -> CanonicalImage:
    """Decode a file (or its bytes) into the canonical space; ImageError says why it cannot be."""
    return canonicalise(decode(source))


def _flaw(pixels: object) -> str:
    """What makes them no canonical pixels; empty where nothing does."""
    if not isinstance(pixels, torch.Tensor):
        return f"its pixels are a {type(pixels).__name__}"
    if not pixels.is_floating_point() or pixels.shape != _SHAPE:
        return f"its pixels are {pixels.dtype} {tuple(pixels.shape)}"
    return "" if bool(pixels.isfinite().all()) else "its pixels are not all finite (NaN or infinity)"
