"""The canonical image: RGB, 512 x 512, float32 in [0, 1]. All budgets and radii are measured in this space."""

from __future__ import annotations

import os
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from PIL import Image

from dualshield.images.canonical_array import resized
from dualshield.images.decode import DecodedImage, decode, image_error
from dualshield.images.space import CANONICAL_SIZE, upload_norm

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
    """Resize to 512 x 512 (antialiased bilinear, aspect ratio ignored, no rounding): a linear map of the upload."""
    pixels = torch.from_numpy(resized(image, _resize)).permute(2, 0, 1)
    # Triangle weights are non-negative and sum to one: the clamp only removes float rounding.
    return CanonicalImage(pixels.clamp(0, 1).contiguous(), image.name, (image.width, image.height), image.gain)


def _resize(rows: npt.NDArray[np.float32], height: int, width: int) -> npt.NDArray[np.float32]:
    pixels = torch.from_numpy(rows).permute(2, 0, 1)[None]
    found = F.interpolate(pixels, size=(height, width), mode="bilinear", antialias=True)
    return found[0].permute(1, 2, 0).numpy()


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
