"""PDQ (Meta, 2019) as a linear hash: 256 bits, no weights.

Luma, two passes of a 4-pixel box filter along each axis, every eighth sample (64 x 64), the 16 x 16
lowest non-constant DCT coefficients, one bit each: above the median or not. Everything before the median is
``c = L Y L^T`` with ``L`` of 16 x 512.
"""

from __future__ import annotations

import numpy as np

from dualshield.hashes.linear.linear_hash import LinearHash
from dualshield.images.axes import Matrix
from dualshield.images.space import CANONICAL_SIZE

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


def load() -> LinearHash:
    """Return PDQ for canonical images; its hex format has the last coefficient first."""
    factor = axis_factor()[::-1]
    return LinearHash("pdq", "1", factor, factor, "median")
