"""Harden an image for an exact matcher: climb on the radius that its certificate proves.

There is one unknown per bit, y, with ``c = c_0 + R y`` and visibility ``||y||`` (`luma_change`). The certificate's own
multipliers give the slope of the squared radius: a margin of bit i is worth ``2 p_i``. So hardening spends most on the
bits that the cheapest evasion moves most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import torch

from dualshield.errors import TooLittleStructureError
from dualshield.hardening.carrier import Carrier
from dualshield.hardening.luma_change import Floats, effect_root, grey_change, perturbed
from dualshield.hardening.visibility import VisibilityBudget
from dualshield.hashes.linear.linear_hash import Bits, LinearHash
from dualshield.images.space import LUMA
from dualshield.smoothing.exact.evasion import Evasion
from dualshield.smoothing.exact.prices import multipliers
from dualshield.smoothing.exact.soft_distance import soft_median
from dualshield.smoothing.exact_matcher import DeployedExactMatcher
from dualshield.smoothing.views import NO_VIEWS

CLIMBS = 60
FIRST_CLIMB, LAST_CLIMB, MOMENTUM = 0.25, 0.01, 0.6  # step sizes as fractions of the budget
STEPS = 10  # of the multipliers, which follow from climb to climb


def perturb(
    pixels: torch.Tensor,
    matcher: DeployedExactMatcher,
    budget: VisibilityBudget,
    *,
    opacity: torch.Tensor | None = None,
    carrier: Carrier | None = None,
) -> torch.Tensor:
    """Return a perturbation ``(3, 512, 512)`` of canonical pixels within the budget.

    The radius is that of the image as it is; views come on top of it.
    """
    matcher = DeployedExactMatcher(matcher.plain_hash, replace(matcher.config, views=NO_VIEWS))
    sigmas: list[float] = []  # chosen once, for the first problem

    def solve(image: torch.Tensor, weight: Floats, norm: float) -> Floats:
        problem = _Problem(matcher, image, weight)
        if not sigmas:
            sigmas.append(problem.best_sigma(norm))
        return problem.change(problem.climb(norm, sigmas[0])[0])

    return perturbed(pixels, budget, solve, partial(_radius, matcher), opacity=opacity, carrier=carrier)


def _radius(matcher: DeployedExactMatcher, pixels: torch.Tensor) -> float:
    """Return the proven radius of an image with itself, 0 if it cannot be enrolled."""
    try:
        reference = matcher.enroll(pixels)
    except TooLittleStructureError:
        return 0.0
    return matcher.certify_exactly(reference, pixels.numpy()).radius


@dataclass(frozen=True, eq=False)
class _Problem:
    matcher: DeployedExactMatcher
    pixels: torch.Tensor
    weight: Floats  # the squared threshold of each pixel

    @property
    def linear(self) -> LinearHash:
        return self.matcher.filtered

    @cached_property
    def start(self) -> Floats:
        return self.matcher.coefficients(self.pixels.numpy())

    @cached_property
    def root(self) -> Floats:
        linear = self.linear
        return effect_root(linear.vertical, linear.horizontal, self.weight, linear.mix)

    def coefficients(self, y: Floats) -> Floats:
        """Return the coefficients of the image changed by y; a grey change of 1 changes the luma by 1."""
        found: Floats = self.start + sum(LUMA) * (self.root @ y)
        return found

    def change(self, y: Floats) -> Floats:
        """Return the grey change ``(512, 512)`` that belongs to y."""
        linear = self.linear
        return grey_change(y, self.root, linear.vertical, linear.horizontal, self.weight, linear.mix)

    def best_sigma(self, norm: float) -> float:
        """Return the sigma with the largest radius after a short climb."""
        return max(self.matcher.config.sigmas, key=lambda sigma: self.climb(norm, sigma, CLIMBS // 4)[1])

    def climb(self, norm: float, sigma: float, climbs: int = CLIMBS) -> tuple[Floats, float]:
        """Return the y within ``norm`` with the largest squared radius found, and that value."""
        matcher, ones = self.matcher, self.linear.expected_ones
        limit = matcher.config.threshold_at(sigma) * self.linear.bits
        soft = matcher.soft(sigma)
        code: Bits = soft.code(self.start)
        y = best = velocity = np.zeros(len(self.root))
        highest = -np.inf
        for step in np.geomspace(FIRST_CLIMB, LAST_CLIMB, climbs) * norm:
            coefficients = self.coefficients(y)
            theta = 0.0 if ones is None else soft_median(coefficients, soft.spread, ones)
            evasion = Evasion(matcher.rows, coefficients, code, limit, sigma, ones)
            if soft.distance(coefficients, code) < limit:
                found = multipliers(evasion, theta, steps=STEPS)
                square, lean = found.cost, found.p
            else:
                # It does not match itself: first push away from every boundary within reach of the noise.
                square, lean = -soft.distance(coefficients, code), np.exp(-((evasion.margins(theta) / sigma) ** 2) / 2)
            if square > highest:
                best, highest = y, square
            # A margin shrinks where its coefficient moves toward its flip.
            gradient = self.root.T @ (-evasion.slopes * lean)
            velocity = MOMENTUM * velocity + (1 - MOMENTUM) * gradient / max(float(np.linalg.norm(gradient)), 1e-30)
            y = y + step * velocity / max(float(np.linalg.norm(velocity)), 1e-30)
            y = y * min(1.0, norm / max(float(np.linalg.norm(y)), 1e-30))
        return best, highest
