"""Scenes to decode, and files that have to be refused."""

from __future__ import annotations

import os

import numpy as np
import pytest

from dualshield.errors import ImageError
from dualshield.images.decode import MAX_PIXELS, decode
from tests.helpers.image_files import Pixels

DEEP = np.array([[0, 1, 255, 256], [4095, 32768, 65534, 65535]])


def scene(height: int = 24, width: int = 40) -> Pixels:
    """Smooth and without any symmetry, so that codecs keep it and a wrong turn shows."""
    y, x = np.mgrid[0:height, 0:width]
    channels = [x / (width - 1), y / (height - 1), (x + 2 * y) / (width + 2 * height)]
    return (np.stack(channels, axis=2) * 235 + 10).round().astype(np.uint8)


def refused(source: str | os.PathLike[str] | bytes, match: str, max_pixels: int = MAX_PIXELS) -> None:
    with pytest.raises(ImageError, match=match) as caught:
        decode(source, max_pixels=max_pixels)
    message = str(caught.value)
    assert "\n" not in message
    assert "; " in message  # what; what to do next
    assert message.startswith("<bytes>" if isinstance(source, bytes) else os.fspath(source))
