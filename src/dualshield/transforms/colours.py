"""Edits of each pixel's colour alone, whatever is beside it."""

from __future__ import annotations

import math

import numpy as np
import torch

from dualshield.images.space import LUMA
from dualshield.transforms.family import Family
from dualshield.transforms.pixels import luma

YIQ = np.array([LUMA, (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112)])


def _gamma(pixels: torch.Tensor, exponent: float, _seed: int) -> torch.Tensor:
    """Raise to a power: below 1 brightens the shadows, above 1 darkens them."""
    return pixels.clamp(0, 1) ** exponent


def _hue(pixels: torch.Tensor, degrees: float, _seed: int) -> torch.Tensor:
    """Turn the colours by an angle in the chroma plane of YIQ, from red towards green; the luma stays."""
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    turn = np.array([[1, 0, 0], [0, cosine, sine], [0, -sine, cosine]])
    mixed = pixels.new_tensor(np.linalg.inv(YIQ) @ turn @ YIQ)
    return torch.einsum("ij,jhw->ihw", mixed, pixels)


def _saturation(pixels: torch.Tensor, factor: float, _seed: int) -> torch.Tensor:
    """Multiply the distance from the grey of the same luma; 0 is grey."""
    grey = luma(pixels)
    return grey + factor * (pixels - grey)


def _grey(pixels: torch.Tensor, share: float, _seed: int) -> torch.Tensor:
    """Blend with the luma; at 1 the image is grey."""
    return (1 - share) * pixels + share * luma(pixels)


FAMILIES = {
    "gamma": Family(_gamma, 0.1, 10),
    "hue": Family(_hue, -360, 360),
    "saturation": Family(_saturation, 0, 10),
    "grey": Family(_grey, 0, 1),
}
