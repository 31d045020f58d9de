"""The exact matcher as a deployment uses it: the same calls as the matcher of votes, and gradients for attacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from dualshield.errors import InputError
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.axes import Matrix
from dualshield.images.space import LUMA
from dualshield.smoothing.exact.config import ExactConfig
from dualshield.smoothing.exact.matcher import ExactMatcher
from dualshield.smoothing.exact.reference import ExactReference
from dualshield.smoothing.exact.soft_distance import gradient
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.result import MemberResult
from dualshield.smoothing.statistics import Decision


@dataclass(frozen=True)
class Decided:
    """A decision and its radius, named as in a certificate of votes."""

    decision: Decision
    radius: float


class DeployedExactMatcher(ExactMatcher):
    """An exact matcher with the torch hash that it belongs to; noise is taken as an argument and never used."""

    abstain_as = Decision.ABSTAIN

    def __init__(self, hash_: PerceptualHash, config: ExactConfig) -> None:
        if hash_.linear is None:
            raise InputError(
                f"hash {hash_.name} is not linear up to a threshold, so it has no exact matcher; use votes"
            )
        super().__init__(hash_.linear, config)
        self.plain_hash = hash_
        self.hash = hash_.with_lowpass(config.lowpass)

    @property
    def code_like(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """An example code."""
        return np.zeros(self.hash.bits, np.bool_)

    def reporting(self, voted: Callable[[int], None]) -> DeployedExactMatcher:
        """Return this matcher: there are no votes to report."""
        return self

    def for_known_queries(self, reference: ExactReference, noise: GaussianSource) -> ExactReference:
        """Return the reference: nothing is drawn for it."""
        return reference

    def enroll(self, pixels: torch.Tensor, *, force: bool = False) -> ExactReference:
        """Enroll a reference image; ``force`` changes nothing, because too faint an image has no radius at all."""
        return self.enroll_pixels(_array(pixels))

    def enroll_code(self, code: torch.Tensor) -> ExactReference:
        """Enroll a bare code from an external hash list."""
        return self.enroll_bits(code.cpu().numpy())

    def match(self, reference: ExactReference, pixels: torch.Tensor, noise: GaussianSource) -> MemberResult:
        """Decide and certify one query."""
        return self.match_exactly(reference, _array(pixels))

    def certify(self, reference: ExactReference, pixels: torch.Tensor, noise: GaussianSource) -> Decided:
        """Decide one query; nothing that calls this needs the radius, so it is not computed."""
        return Decided(self.decide(reference, _array(pixels)), 0.0)

    def soft_distance(self, reference: ExactReference, pixels: torch.Tensor) -> torch.Tensor:
        """Return the smallest soft distance of all pairs of views in bits, differentiable in the pixels (3, 512, 512).

        The value is that of the matcher. Its gradient, that of the nearest pair, is exact too: it includes the movement
        of the soft median.
        """
        pairs = self.pairs(reference, _array(pixels))
        view, code = pairs.nearest
        soft = self.soft(reference.sigma, view)
        value, slopes = gradient(pairs.coefficients[view], soft.spread, soft.ones, reference.codes[code])
        # A linear function of the pixels with the right value and slope at this point.
        linear = (pixels * self.lift(slopes, pixels, view)).sum()
        return linear - linear.detach() + value

    def lift(self, weights: Matrix, like: torch.Tensor, view: int = 0) -> torch.Tensor:
        """Return the pixel image ``sum_i weights_i A_i`` with the rows ``A_i`` of the hash behind a view of the query.

        That is the gradient of a weighted sum of coefficients.
        """
        linear = self.queries.hashes[view]
        flat = weights if linear.mix is None else weights @ linear.mix
        factors = (linear.vertical, linear.horizontal, flat.reshape(len(linear.vertical), len(linear.horizontal)))
        rows, cols, middle = (torch.from_numpy(np.ascontiguousarray(factor)).to(like) for factor in factors)
        luma = like.new_tensor(LUMA)[:, None, None]
        return (rows.T @ middle @ cols) * luma


def _array(pixels: torch.Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.floating]]:
    return pixels.detach().cpu().numpy()
