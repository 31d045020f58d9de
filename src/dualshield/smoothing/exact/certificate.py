"""Decide a query by its soft distance, and prove the l2 that no attack on the decision can stay below."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dualshield.errors import InputError
from dualshield.hashes.linear.linear_hash import Bits, LinearHash
from dualshield.images.axes import Matrix
from dualshield.smoothing.exact.evasion import Bound, Evasion
from dualshield.smoothing.exact.many_codes import ManyCodes
from dualshield.smoothing.exact.prices import Multipliers, multipliers
from dualshield.smoothing.exact.rows import Rows
from dualshield.smoothing.exact.soft_distance import probabilities, soft_distance, soft_median

# Where theta is tried, in units of the radius, and prices as multiples of the best ones. Evasion is cheapest near 0,
# where cells must be small; far away it costs much more and coarse cells do.
_OUTER = (0.3, 0.18, 0.12, 0.085)
_OFFSETS = np.array([*(-x for x in _OUTER), *np.linspace(-0.06, 0.06, 15), *reversed(_OUTER)])
_FACTORS = (0.55, 0.8, 1.0, 1.25, 1.8, 3.0)
_FACTORS_OF_MANY = (0.3, 0.45, 0.65, 0.9, 1.2, 1.6, 2.2, 3.2, 5.0)  # of codes at different distances
_WIDER = (1.0, 2.0, 4.0)
# Subtracted from every radius, relative to 1 + radius, for the last square root.
ROUNDING = 1e-9
FLAT = 1e-2


@dataclass(frozen=True)
class ExactCertificate:
    """The decision, the soft distance in bits, and the proven radius in canonical pixels."""

    matched: bool
    soft_distance: float
    radius: float
    is_flat: bool = False  # the bits of the query, but for one at most, are all alike
    query_view: int = 0  # which views the distance is of
    reference_view: int = 0


class SoftHash:
    """The smoothed version of a linear hash at one sigma, as a function of coefficients."""

    def __init__(self, linear: LinearHash, rows: Rows, sigma: float) -> None:
        if not 0 < sigma < math.inf:
            raise InputError(f"sigma must be a positive number, got {sigma}")
        if linear.expected_ones == 0:
            raise InputError(f"hash {linear.name}: the median of one bit says nothing; use at least 2 bits")
        self.linear, self.rows, self.sigma = linear, rows, sigma
        self.ones = linear.expected_ones

    @cached_property
    def spread(self) -> Matrix:
        """The standard deviation of each coefficient under the noise."""
        spread: Matrix = self.sigma * self.rows.lengths
        return spread

    def probabilities(self, coefficients: Matrix) -> Matrix:
        """Return the probability that each bit is one."""
        return probabilities(coefficients, self.spread, self.ones)

    def code(self, coefficients: Matrix) -> Bits:
        """Return the nearest code: each bit as it is more often than not."""
        return self.probabilities(coefficients) > 0.5

    def distance(self, coefficients: Matrix, code: Bits) -> float:
        """Return the soft distance to a code, in bits."""
        return soft_distance(self.probabilities(coefficients), code)

    def certify(self, coefficients: Matrix, code: Bits, limit: float) -> ExactCertificate:
        """Decide (a match has a soft distance of at most ``limit``) and prove a radius."""
        if not (np.isfinite(coefficients).all() and math.isfinite(limit)):
            raise InputError("coefficients and the limit must be finite numbers (found NaN or infinity)")
        if code.dtype != np.bool_ or len(code) != len(coefficients):
            raise InputError(f"a code has {len(coefficients)} bools, this one {len(code)} values of type {code.dtype}")
        probability = self.probabilities(coefficients)
        distance = soft_distance(probability, code)
        matched = distance <= limit
        evasion = self._evasion(coefficients, code, limit, matched)
        return ExactCertificate(matched, distance, self._radius(evasion), is_flat(probability))

    def many_non_matches(self, coefficients: Matrix, codes: Bits, limit: float) -> Matrix:
        """Return a proven radius for each code, within which the query does not match it; it matches none of them."""
        nearest = int(np.argmin([self.distance(coefficients, code) for code in codes]))
        evasion, found = self.attack(coefficients, codes[nearest], limit)
        prices = [[factor * price for factor in _FACTORS_OF_MANY] for price in found.prices]
        step = math.sqrt(found.cost) * float(self.rows.lengths.mean())
        many = ManyCodes.forced_match(self.rows, coefficients, codes, limit, self.sigma, self.ones)
        return np.array([_root(square) for square in many.squares(prices, self._theta(evasion) + step * _OFFSETS)])

    def attack(self, coefficients: Matrix, code: Bits, limit: float) -> tuple[Evasion, Multipliers]:
        """Return the problem of the attacker, and about its solution."""
        evasion = self._evasion(coefficients, code, limit, self.distance(coefficients, code) <= limit)
        return evasion, multipliers(evasion, self._theta(evasion))

    def _evasion(self, coefficients: Matrix, code: Bits, limit: float, matched: bool) -> Evasion:
        kind = Evasion if matched else Evasion.forced_match
        return kind(self.rows, coefficients, code, limit, self.sigma, self.ones)

    def _theta(self, evasion: Evasion) -> float:
        return 0.0 if self.ones is None else soft_median(evasion.coefficients, self.spread, self.ones)

    def _radius(self, evasion: Evasion) -> float:
        if evasion.is_impossible:
            return math.inf
        found = multipliers(evasion, self._theta(evasion))
        prices = [[factor * price for factor in _FACTORS] for price in found.prices]
        if self.ones is None:
            square = float(Bound(evasion, found.p, prices, np.zeros(1)).at_thetas.max())
            return _root(square)
        step = math.sqrt(found.cost) * float(self.rows.lengths.mean())
        square = -math.inf
        for wider in _WIDER:
            cells = Bound(evasion, found.p, prices, found.theta + wider * step * _OFFSETS).cells()
            square = max(square, float(cells.min()))
            if 0 < int(cells.argmin()) < len(cells) - 1:
                break  # not limited by the ends, so there is nothing to gain further out
        return _root(square)


def is_flat(probability: Matrix) -> bool:
    """Return whether an image shows no structure: bits differ only where the image does."""
    # One bit may see the brightness, which a flat image has too.
    return bool(np.ptp(np.sort(probability)[1:-1]) < FLAT) if len(probability) > 2 else False


def _root(square: float) -> float:
    radius = math.sqrt(square) if square > 0 else 0.0  # also for NaN: then nothing is proven
    return max(radius - ROUNDING * (1 + radius), 0.0)
