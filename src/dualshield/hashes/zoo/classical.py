"""The classical hashes: pHash, dHash, aHash and block mean; 64 or 256 bits, no weights, linear up to a threshold.

`hashes/linear/` describes them. Their codes are those of ImageHash and OpenCV, which round to 8 bits between their
steps; margins are those of the linear map, without rounding.
"""

from __future__ import annotations

from dualshield.hashes.from_linear import from_linear
from dualshield.hashes.linear import ahash, block_mean, dhash, phash
from dualshield.hashes.perceptual_hash import PerceptualHash


def load_phash() -> PerceptualHash:
    """Return pHash as in ImageHash, with the constant coefficient."""
    return from_linear(phash.load(), "pHash of ImageHash: DCT of the luma against its median; no weights")


def load_phash_dct() -> PerceptualHash:
    """Return pHash without the constant row and column of the DCT."""
    return from_linear(phash.load_dct(), "pHash without the constant row and column of the DCT; no weights")


def load_dhash() -> PerceptualHash:
    """Return dHash as in ImageHash."""
    return from_linear(dhash.load(), "dHash of ImageHash: each cell of the luma against its neighbour; no weights")


def load_ahash() -> PerceptualHash:
    """Return aHash as in ImageHash."""
    return from_linear(ahash.load(), "aHash of ImageHash: each cell of the luma against the mean; no weights")


def load_block_mean() -> PerceptualHash:
    """Return the block mean hash as in OpenCV."""
    return from_linear(block_mean.load(), "OpenCV's block mean: each block of the luma against the mean; no weights")
