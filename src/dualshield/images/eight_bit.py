"""Rounding to the 8-bit grid of image files."""

from __future__ import annotations

import torch

LEVELS = 255


def to_8bit(pixels: torch.Tensor) -> torch.Tensor:
    """Return the image as read back from a lossless 8-bit file, such as a PNG."""
    return (pixels.detach().clamp(0, 1) * LEVELS).round() / LEVELS
