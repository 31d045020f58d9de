"""The 8-bit grid on which image files hold their pixels."""

from __future__ import annotations

import torch

LEVELS = 255


def to_8bit(pixels: torch.Tensor) -> torch.Tensor:
    """The image as it comes back from an 8-bit file without compression, such as a PNG."""
    return (pixels.detach().clamp(0, 1) * LEVELS).round() / LEVELS
