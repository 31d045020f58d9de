"""PDQ (Meta, 2019): 256 bits, no weights, and linear up to one median.

Luma, two passes of a 4-pixel box filter along each axis, every eighth sample (64 x 64), the 16 x 16
lowest non-constant DCT coefficients, one bit each: above the median or not. Everything before the median is
the linear front end ``c = L Y L^T`` with ``L`` of 16 x 512, so noise on half a million pixels reduces to 256
normal numbers (METHOD.md 4).
"""

from __future__ import annotations

import numpy as np
import torch

from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.axes import Matrix
from dualshield.images.canonical import CANONICAL_SIZE
from dualshield.images.frontend import FrontEnd

BLOCK = 64
COEFFICIENTS = 16


def _box(n: int, window: int) -> Matrix:
    """Return a moving average over ``window`` samples, shortened at the borders; an even window extends right."""
    right = window // 2
    left = window - right - 1
    index = np.arange(n)
    offset = index[None, :] - index[:, None]
    inside = ((offset >= -left) & (offset <= right)).astype(np.float64)
    box: Matrix = inside / inside.sum(axis=1, keepdims=True)
    return box


def _dct() -> Matrix:
    """Return rows 1 to 16 of the 64-point DCT-II, without the constant row 0."""
    frequency = np.arange(1, COEFFICIENTS + 1)[:, None]
    sample = np.arange(BLOCK)[None, :]
    dct: Matrix = np.sqrt(2 / BLOCK) * np.cos(np.pi / (2 * BLOCK) * frequency * (2 * sample + 1))
    return dct


def axis_factor(n: int = CANONICAL_SIZE) -> Matrix:
    """Return ``L`` (16 x n), which combines all steps of PDQ along one axis."""
    box = _box(n, (n + 2 * BLOCK - 1) // (2 * BLOCK))
    sampled = ((np.arange(BLOCK) + 0.5) * n / BLOCK).astype(int)
    factor: Matrix = _dct() @ (box @ box)[sampled]
    return factor


class AboveMedian(torch.nn.Module):
    """Computes coefficients minus their lower median, in the bit order of PDQ's hex format."""

    compares_with_median = True

    def forward(self, coefficients: torch.Tensor) -> torch.Tensor:
        flat = coefficients.flatten(1).flip(1)
        # torch.median returns the lower of the two middle values, as in PDQ. It is a constant for gradients, because
        # another coefficient becomes the median as soon as this one moves.
        return flat - flat.median(dim=1, keepdim=True).values.detach()


def load() -> PerceptualHash:
    """Return PDQ for canonical images."""
    factor = axis_factor()
    return PerceptualHash(
        name="pdq",
        version="1",
        bits=COEFFICIENTS**2,
        front_end=FrontEnd.identity().grey().project(factor, factor),
        network=AboveMedian(),
        about="Meta's PDQ: DCT of the luma against its median; no weights",
    )
