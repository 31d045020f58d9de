"""The first step of the classical hashes as published: a small grey version of an 8-bit image, by Pillow."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image


def thumbnail(image: npt.NDArray[np.uint8], width: int, height: int) -> npt.NDArray[np.uint8]:
    """Return the grey version of ``image`` in this size; Pillow rounds to 8 bits after each of its three steps."""
    return np.asarray(Image.fromarray(image).convert("L").resize((width, height), Image.Resampling.LANCZOS))
