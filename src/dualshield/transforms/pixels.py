"""What several families do to pixels: change the size, blur, take the luma."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from dualshield.images.space import LUMA


def resized(pixels: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Return the image in another size, bilinear and antialiased; every side has at least one pixel."""
    size = (max(1, height), max(1, width))
    return F.interpolate(pixels[None], size=size, mode="bilinear", antialias=True)[0]


def blurred(pixels: torch.Tensor, size: int) -> torch.Tensor:
    """Blur with a separable Gaussian; sigma follows from the kernel size, as in OpenCV and torchvision."""
    sigma = 0.3 * ((size - 1) * 0.5 - 1) + 0.8
    offsets = torch.arange(size, dtype=torch.float64) - size // 2
    weights = torch.exp(-0.5 * (offsets / sigma) ** 2)
    weights = (weights / weights.sum()).to(pixels)
    padded = F.pad(pixels[:, None], [size // 2] * 4, mode="reflect")
    rows = F.conv2d(padded, weights.view(1, 1, 1, size))
    return F.conv2d(rows, weights.view(1, 1, size, 1))[:, 0]


def luma(pixels: torch.Tensor) -> torch.Tensor:
    """Return the brightness ``(1, height, width)`` of each pixel."""
    return (pixels * pixels.new_tensor(LUMA)[:, None, None]).sum(0, keepdim=True)
