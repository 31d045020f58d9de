"""The block mean hash as a linear hash: 256 bits, whether a block of the image is at least as bright as the whole.

The hash of OpenCV's module img_hash (``BlockMeanHash``, mode 0): 16 x 16 blocks of a 256 x 256 version. The blocks
cover the image, so its mean is the mean of the blocks. Bits are in the order of the blocks, row by row; OpenCV writes
the first of eight bits as the lowest of a byte, DualShield as the highest.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dualshield.hashes.linear.linear_hash import Bits, LinearHash, minus_mean
from dualshield.images import axes
from dualshield.images.space import CANONICAL_SIZE

SIDE = 16
BLOCK = 16
# OpenCV's integer weights of red, green and blue, in units of 2**-15.
LUMA_15 = np.array([9798, 19235, 3735])


def _published(image: npt.NDArray[np.uint8]) -> Bits:
    # Halving a side with exact bilinear weights is the mean of four pixels; both steps round a half up.
    pixels = image.astype(np.int64).reshape(SIDE * BLOCK, 2, SIDE * BLOCK, 2, 3)
    small = (pixels.sum(axis=(1, 3)) + 2) >> 2
    grey = (small @ LUMA_15 + (1 << 14)) >> 15
    sums = grey.reshape(SIDE, BLOCK, SIDE, BLOCK).sum(axis=(1, 3)).reshape(-1)
    bits: Bits = sums * len(sums) >= sums.sum()
    return bits


def load() -> LinearHash:
    """Return the block mean hash for canonical images."""
    factor = axes.resize(CANONICAL_SIZE, SIDE, "box")
    return LinearHash("block-mean", "1", factor, factor, "zero", mix=minus_mean(SIDE**2), published=_published)
