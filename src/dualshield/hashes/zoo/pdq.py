"""PDQ (Meta, 2019): 256 bits, no weights, and linear up to one median (`hashes/linear/pdq.py`, METHOD.md 4)."""

from __future__ import annotations

import torch

from dualshield.hashes.linear import pdq
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.frontend import FrontEnd


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
    factor = pdq.axis_factor()
    return PerceptualHash(
        name="pdq",
        version="1",
        bits=pdq.COEFFICIENTS**2,
        front_end=FrontEnd.identity().grey().project(factor, factor),
        network=AboveMedian(),
        linear=pdq.load(),
        about="Meta's PDQ: DCT of the luma against its median; no weights",
    )
