"""pHash as linear hashes: 64 bits from the DCT of a grey 32 x 32 version of the image, each above the median or not.

``phash`` is the hash of the PyPI package ImageHash: the 8 x 8 lowest coefficients, with the constant one. ``phash-dct``
leaves out the constant row and column, as the original pHash does: coefficients 1 to 8 of each axis.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt
import scipy.fft

from dualshield.hashes.linear.linear_hash import Bits, LinearHash
from dualshield.hashes.linear.thumbnail import thumbnail
from dualshield.images import axes
from dualshield.images.axes import Matrix
from dualshield.images.space import CANONICAL_SIZE

SIDE = 32
COEFFICIENTS = 8


def axis_factor(first: int, n: int = CANONICAL_SIZE) -> Matrix:
    """Return the 8 x n matrix of one axis: resize to 32 samples, then the DCT coefficients from ``first`` on."""
    frequency = np.arange(first, first + COEFFICIENTS)[:, None]
    sample = np.arange(SIDE)[None, :]
    # Coefficient 0 has no factor of its own, as in ImageHash; an orthonormal DCT would divide it by sqrt(2).
    dct: Matrix = np.sqrt(2 / SIDE) * np.cos(np.pi / (2 * SIDE) * frequency * (2 * sample + 1))
    return dct @ axes.resize(n, SIDE, "lanczos")


def _published(first: int, image: npt.NDArray[np.uint8]) -> Bits:
    # The two passes in this order: coefficients that are zero up to rounding then have ImageHash's bits too.
    dct = scipy.fft.dct(scipy.fft.dct(thumbnail(image, SIDE, SIDE), axis=0), axis=1)
    low = dct[first : first + COEFFICIENTS, first : first + COEFFICIENTS]
    bits: Bits = low > np.median(low)
    return bits.reshape(-1)


def _load(name: str, first: int) -> LinearHash:
    factor = axis_factor(first)
    return LinearHash(name, "1", factor, factor, "median", published=partial(_published, first))


def load() -> LinearHash:
    """Return pHash with the constant coefficient, as ImageHash computes it."""
    return _load("phash", 0)


def load_dct() -> LinearHash:
    """Return pHash without the constant row and column."""
    return _load("phash-dct", 1)
