"""Make a hash from its description as a linear map and a threshold rule."""

from __future__ import annotations

import torch

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


def from_linear(linear: LinearHash, about: str = "") -> PerceptualHash:
    """Return the hash that a `LinearHash` describes; it is matched exactly once it is calibrated, or on request."""
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
