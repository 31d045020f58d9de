"""aHash as a linear hash: 64 bits, whether the luma of a cell is above the mean of all 8 x 8 cells.

The hash of the PyPI package ImageHash (``average_hash``).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dualshield.hashes.linear.linear_hash import Bits, LinearHash, minus_mean
from dualshield.hashes.linear.thumbnail import thumbnail
from dualshield.images import axes
from dualshield.images.space import CANONICAL_SIZE

SIDE = 8


def _published(image: npt.NDArray[np.uint8]) -> Bits:
    cells = thumbnail(image, SIDE, SIDE)
    bits: Bits = cells > cells.mean()
    return bits.reshape(-1)


def load() -> LinearHash:
    """Return aHash for canonical images."""
    factor = axes.resize(CANONICAL_SIZE, SIDE, "lanczos")
    return LinearHash("ahash", "1", factor, factor, "zero", mix=minus_mean(SIDE**2), published=_published)
