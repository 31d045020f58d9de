"""Harden an image for an exact matcher: climb on the radius that its certificate proves.

As in `linear`, of all changes with the same effect on the coefficients only the least visible one is considered:
``threshold^2`` times a combination of the hash's rows. So there is one unknown per bit, y, with ``c = c_0 + R y`` and
visibility ``||y||``. The certificate's own multipliers give the slope of the squared radius: a margin of bit i is worth
``2 p_i``. So hardening spends most on the bits that the cheapest evasion moves most.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from scipy.linalg import solve_triangular

from dualshield.errors import TooLittleStructureError
from dualshield.hardening.carrier import Carrier
from dualshield.hardening.visibility import VisibilityBudget, noticeable
from dualshield.hashes.linear.linear_hash import Bits, LinearHash
from dualshield.images.space import LUMA
from dualshield.smoothing.exact.evasion import Evasion
from dualshield.smoothing.exact.prices import multipliers
from dualshield.smoothing.exact.soft_distance import soft_median
from dualshield.smoothing.exact_matcher import DeployedExactMatcher

Floats = npt.NDArray[np.float64]

ROUNDS = 4
CLIMBS = 60
FIRST_CLIMB, LAST_CLIMB, MOMENTUM = 0.25, 0.01, 0.6  # step sizes as fractions of the budget
STEPS = 10  # of the multipliers, which follow from climb to climb
PEAK_TOLERANCE = 1.1  # smaller excesses over the peak are clipped


def perturb(
    pixels: torch.Tensor,
    matcher: DeployedExactMatcher,
    budget: VisibilityBudget,
    threshold: torch.Tensor,
    sigma: float | None = None,
) -> tuple[torch.Tensor, float]:
    """Return a perturbation ``(3, 512, 512)`` of canonical pixels within the budget, and the sigma it was made for."""
    weight = threshold.double().numpy().clip(1e-6) ** 2
    norm = budget.norm
    delta = torch.zeros_like(pixels)
    problem = _Problem(matcher, pixels, weight)
    chosen = problem.best_sigma(norm) if sigma is None else sigma
    for _ in range(ROUNDS):
        luma = problem.change(problem.climb(norm, chosen)[0])
        # The same change in all three colours: luma changes, hue does not.
        delta = torch.from_numpy(luma).float().expand(3, -1, -1)
        peaks = np.abs(luma) / (budget.peak * np.sqrt(weight))
        shrink = budget.excess(pixels, (pixels + delta).clamp(0, 1))
        if shrink == 1.0 and peaks.max() <= PEAK_TOLERANCE:
            break
        # Where the change exceeds the peak, lower the weight, so that other pixels take over.
        weight = weight / np.sqrt(np.maximum(peaks, 1.0))
        norm *= 0.98 * shrink if shrink < 1 else 1.0
        problem = _Problem(matcher, pixels, weight)
    limit = budget.peak * threshold
    delta = delta.clamp(-limit, limit)
    while (shrink := budget.excess(pixels, (pixels + delta).clamp(0, 1))) < 1:
        delta = 0.99 * shrink * delta
    return delta.contiguous(), chosen


def perturb_through(
    pixels: torch.Tensor,
    matcher: DeployedExactMatcher,
    budget: VisibilityBudget,
    *,
    opacity: torch.Tensor | None = None,
    carrier: Carrier | None = None,
) -> torch.Tensor:
    """Run ``perturb`` twice, the second time with the errors of the published file (``carrier``); return the better."""
    threshold = noticeable(pixels, opacity)
    first, sigma = perturb(pixels, matcher, budget, threshold)
    if carrier is None:
        return first
    published = carrier(first)
    second, _ = perturb((published - first).clamp(0, 1), matcher, budget, threshold, sigma)
    return max((first, published), (second, carrier(second)), key=lambda d: _radius(d[1], matcher))[0]


def _radius(pixels: torch.Tensor, matcher: DeployedExactMatcher) -> float:
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
        """R, the Cholesky factor of the effect of the threshold map on pairs of coefficients."""
        rows, cols = self.linear.vertical, self.linear.horizontal
        n, m = len(rows), len(cols)
        row_pairs = (rows[:, None] * rows[None]).reshape(n * n, -1)
        col_pairs = (cols[:, None] * cols[None]).reshape(m * m, -1)
        pairs = (row_pairs @ self.weight @ col_pairs.T).reshape(n, n, m, m)
        gram = pairs.transpose(0, 2, 1, 3).reshape(n * m, n * m)
        gram = gram if self.linear.mix is None else self.linear.mix @ gram @ self.linear.mix.T
        ridge = 1e-9 * np.trace(gram) / len(gram)
        root: Floats = np.linalg.cholesky(gram + ridge * np.eye(len(gram)))
        return root

    def coefficients(self, y: Floats) -> Floats:
        """Return the coefficients of the image changed by y; a grey change of 1 changes the luma by 1."""
        found: Floats = self.start + sum(LUMA) * (self.root @ y)
        return found

    def change(self, y: Floats) -> Floats:
        """Return the grey change ``(512, 512)`` that belongs to y."""
        weights = solve_triangular(self.root.T, y, lower=False)
        weights = weights if self.linear.mix is None else weights @ self.linear.mix
        rows, cols = self.linear.vertical, self.linear.horizontal
        changed: Floats = self.weight * (rows.T @ weights.reshape(len(rows), len(cols)) @ cols)
        return changed

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
