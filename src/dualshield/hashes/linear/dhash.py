"""dHash as a linear hash: 64 bits, whether the luma grows from one cell to its right neighbour, on 9 x 8 cells.

The hash of the PyPI package ImageHash.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dualshield.hashes.linear.linear_hash import Bits, LinearHash
from dualshield.hashes.linear.thumbnail import thumbnail
from dualshield.images import axes
from dualshield.images.space import CANONICAL_SIZE

SIDE = 8


def _published(image: npt.NDArray[np.uint8]) -> Bits:
    cells = thumbnail(image, SIDE + 1, SIDE)
    bits: Bits = cells[:, 1:] > cells[:, :-1]
    return bits.reshape(-1)


def load() -> LinearHash:
    """Return dHash for canonical images."""
    rows = axes.resize(CANONICAL_SIZE, SIDE, "lanczos")
    cols = np.diff(axes.resize(CANONICAL_SIZE, SIDE + 1, "lanczos"), axis=0)
    return LinearHash("dhash", "1", rows, cols, "zero", published=_published)
