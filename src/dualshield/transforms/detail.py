"""Edits of fine detail: lost in a thumbnail, sharpened, covered with grain."""

from __future__ import annotations

import torch

from dualshield.transforms.family import Family
from dualshield.transforms.pixels import blurred, resized

SHARPEN_KERNEL = 7


def _resize(pixels: torch.Tensor, ratio: float, _seed: int) -> torch.Tensor:
    """Shrink to a thumbnail, then enlarge again."""
    height, width = pixels.shape[-2:]
    return resized(resized(pixels, round(height * ratio), round(width * ratio)), height, width)


def _sharpen(pixels: torch.Tensor, amount: float, _seed: int) -> torch.Tensor:
    """Add the difference from a blurred copy (an unsharp mask); tiny images get a kernel that fits them."""
    kernel = min(SHARPEN_KERNEL, 2 * min(pixels.shape[-2:]) - 1)
    return pixels + amount * (pixels - blurred(pixels, kernel))


def _grain(pixels: torch.Tensor, deviation: float, seed: int) -> torch.Tensor:
    """Add the same Gaussian noise to all colours, drawn on the CPU so that a seed is the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    return pixels + deviation * torch.randn((1, *pixels.shape[-2:]), generator=generator).to(pixels)


FAMILIES = {
    "resize": Family(_resize, 0.02, 1),
    "sharpen": Family(_sharpen, 0, 10),
    "grain": Family(_grain, 0, 1),
}
