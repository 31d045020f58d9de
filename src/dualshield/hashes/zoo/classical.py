"""The classical hashes: pHash, dHash, aHash and block mean; 64 or 256 bits, no weights, linear up to a threshold.

`hashes/linear/` describes them. Their codes are those of ImageHash and OpenCV, which round to 8 bits between their
steps; margins are those of the linear map, without rounding.
"""

from __future__ import annotations

import torch

from dualshield.hashes.linear import ahash, block_mean, dhash, phash
from dualshield.hashes.linear.linear_hash import LinearHash
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.frontend import FrontEnd


class AboveBoundary(torch.nn.Module):
    """Computes the numbers of a linear hash, one per bit, minus their lower median or zero."""

    def __init__(self, linear: LinearHash) -> None:
        super().__init__()
        self.compares_with_median = linear.rule == "median"
        self.mix: torch.Tensor | None
        self.register_buffer("mix", None if linear.mix is None else torch.from_numpy(linear.mix).float())

    def forward(self, coefficients: torch.Tensor) -> torch.Tensor:
        numbers = coefficients.flatten(1)
        if self.mix is not None:
            numbers = numbers @ self.mix.T
        if not self.compares_with_median:
            return numbers
        # A constant for gradients, as in PDQ: another coefficient becomes the median as soon as this one moves.
        return numbers - numbers.median(dim=1, keepdim=True).values.detach()


def from_linear(linear: LinearHash, about: str) -> PerceptualHash:
    """Return the hash that a `LinearHash` describes."""
    return PerceptualHash(
        name=linear.name,
        version=linear.version,
        bits=linear.bits,
        front_end=FrontEnd.identity().grey().project(linear.vertical, linear.horizontal),
        network=AboveBoundary(linear),
        lowpass=linear.lowpass,
        linear=linear,
        about=about,
    )


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
