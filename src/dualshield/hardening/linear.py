"""Harden a hash that is linear up to its median (PDQ): make attacks as costly as possible within the visibility budget.

The coefficients are ``c = L Y L^T`` of the luma Y, a bit is ``c_i > median``. There are 256 unknowns y with
``c = c_0 + R y`` and visibility ``||y||`` (`luma_change`).

Under noise of deviation sigma bit i flips with probability ``Phi(-z_i / sigma)``. Here z_i is its margin in units of
its own noise, which is also the l2 cost for an attacker to move the bit. So the best attack is known: the shortest
shift of the margins after which enough bits flip in expectation. Given a price per squared shift, each bit can be
solved separately. Hardening ascends on the length of that shift. Its gradient is the shift itself, so hardening spends
most on the bits that the attack shifts most. Bits compare with the median, so they flip in pairs, half from each side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.special import ndtr

from dualshield.hardening.carrier import Carrier
from dualshield.hardening.luma_change import Floats, effect_root, grey_change, perturbed
from dualshield.hardening.visibility import VisibilityBudget
from dualshield.hashes.perceptual_hash import PerceptualHash

# Noise levels to harden against, largest first; chosen is the first at which attacks cost at least WORTH sigmas. Less
# noise makes attacks more costly, more noise gives larger certificates; images with little texture get less noise.
SIGMAS = tuple(2.0 * 0.75**k for k in range(16))
WORTH = 4.0
CLIMBS = 80
FIRST_CLIMB, LAST_CLIMB, MOMENTUM = 0.2, 0.004, 0.7  # step sizes as fractions of the budget
SHIFTS = np.linspace(0.0, 1.0, 48)  # candidate shifts of a bit, up to well past its boundary
PAST = 2.5
HALVINGS = 26


def perturb(
    pixels: torch.Tensor,
    hash_: PerceptualHash,
    budget: VisibilityBudget,
    *,
    opacity: torch.Tensor | None = None,
    carrier: Carrier | None = None,
) -> torch.Tensor:
    """Return a perturbation ``(3, 512, 512)`` of canonical pixels within the budget."""
    sigmas: list[float] = []  # chosen once, for the first problem

    def solve(image: torch.Tensor, weight: Floats, norm: float) -> Floats:
        change, sigma = _Problem(hash_, image, weight).solve(norm, sigmas or SIGMAS)
        sigmas[:] = [sigma]
        return change

    def worth(published: torch.Tensor) -> float:
        return _Problem(hash_, published, np.ones(published.shape[-2:])).cost(sigmas[0])

    return perturbed(pixels, budget, solve, worth, opacity=opacity, carrier=carrier)


def cheapest_attack(margins: Floats, sigma: float, flips: float) -> Floats:
    """Return the shortest non-negative shifts against the margins after which ``flips`` bits flip in expectation."""
    shifts = SHIFTS[:, None] * (margins.clip(0) + PAST * sigma)
    flipped = ndtr((shifts - margins) / sigma)
    bits = np.arange(len(margins))
    if flipped[0].sum() >= flips:
        return np.zeros_like(margins)
    squares = shifts**2
    low, high = -14.0 - 2 * np.log(sigma), 6.0 - 2 * np.log(sigma)  # logarithm of the price per squared shift
    for _ in range(HALVINGS):
        price = (low + high) / 2
        chosen = (flipped - np.exp(price) * squares).argmax(0)
        if flipped[chosen, bits].sum() >= flips:
            low = price
        else:
            high = price
    chosen = (flipped - np.exp(low) * squares).argmax(0)
    found: Floats = shifts[chosen, bits]
    return found


@dataclass(frozen=True, eq=False)
class _Problem:
    hash: PerceptualHash
    pixels: torch.Tensor
    weight: Floats  # the squared threshold of each pixel

    @cached_property
    def root(self) -> Floats:
        return effect_root(self.hash.front_end.rows, self.hash.front_end.cols, self.weight)

    @cached_property
    def luma_gain(self) -> float:
        """The change of the luma for a grey change of 1."""
        return float(self.hash.front_end.colour.sum())

    @cached_property
    def margins(self) -> tuple[Floats, Floats, Floats]:
        """Slopes (over y) and values of the margins in units of their noise (positive: stable), and bits as +-1."""
        front_end = self.hash.front_end
        coefficients = front_end(self.pixels)[0].double().flatten().numpy()
        noise = np.outer(np.linalg.norm(front_end.rows, axis=1), np.linalg.norm(front_end.cols, axis=1)).ravel()
        noise = noise * np.linalg.norm(front_end.colour)
        middle = len(coefficients) // 2
        boundary = np.sort(coefficients)[middle - 1 : middle + 1].mean()
        side = np.where(coefficients > boundary, 1.0, -1.0)
        slopes = self.luma_gain * self.root * (side / noise)[:, None]
        return slopes, side * (coefficients - boundary) / noise, side

    def attack(self, y: Floats, sigma: float) -> Floats:
        """Return the cheapest shifts of the margins that evade, with half of the flips on each side of the median."""
        slopes, values, side = self.margins
        margins = values + slopes @ y
        shifts = np.zeros_like(margins)
        for half in (side > 0, side < 0):
            shifts[half] = cheapest_attack(margins[half], sigma, (self.hash.max_distance + 1) / 2)
        return shifts

    def cost(self, sigma: float) -> float:
        """Return the l2 cost of the cheapest attack on the unchanged pixels."""
        return float(np.linalg.norm(self.attack(np.zeros(len(self.root)), sigma)))

    def solve(self, norm: float, sigmas: Sequence[float] = SIGMAS) -> tuple[Floats, float]:
        """Return the grey change ``(512, 512)`` within ``norm`` that makes attacks most costly, and its sigma."""
        for sigma in sigmas:
            best, cost = self._climb(norm, sigma)
            if cost >= WORTH * sigma:
                break
        front_end = self.hash.front_end
        return grey_change(best, self.root, front_end.rows, front_end.cols, self.weight), sigma

    def _climb(self, norm: float, sigma: float) -> tuple[Floats, float]:
        slopes, values, _ = self.margins
        y = best = velocity = np.zeros(len(self.root))
        dearest = -1.0
        for step in np.geomspace(FIRST_CLIMB, LAST_CLIMB, CLIMBS) * norm:
            shifts = self.attack(y, sigma)
            cost = float(np.linalg.norm(shifts))
            if cost > dearest:
                best, dearest = y, cost
            # If the attack costs nothing, first push away from every boundary within reach of the noise.
            lean = shifts if cost > 0 else np.exp(-(((values + slopes @ y) / sigma) ** 2) / 2)
            gradient = slopes.T @ lean
            velocity = MOMENTUM * velocity + (1 - MOMENTUM) * gradient / max(float(np.linalg.norm(gradient)), 1e-30)
            y = y + step * velocity / max(float(np.linalg.norm(velocity)), 1e-30)
            y = y * min(1.0, norm / max(float(np.linalg.norm(y)), 1e-30))
        return best, dearest
