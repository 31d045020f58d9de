"""The bound of evasion.py for many codes at once, with p = 0.

Without p the bound of a code is a sum over bits whose terms depend on the bit of the code, not on the code as a whole:

    R^2  >=  sum over the sums of  mu (need - sum_i E(-z_i(theta) / sigma)),      kappa = d sigma^2 / mu

So E is computed once for every bit as a one and once as a zero, at every theta and price, and a product with the matrix
of codes has the sums of all codes. It costs about as much as one full certificate, and loses what p would gain: the
largest eigenvalue stands for the whole correlation matrix. Cells of theta and rounding are those of evasion.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dualshield.hashes.linear.linear_hash import Bits
from dualshield.images.axes import Matrix
from dualshield.smoothing.exact.envelope import SMALLEST_KAPPA, Envelope
from dualshield.smoothing.exact.evasion import EPS, ROUNDING
from dualshield.smoothing.exact.rows import Rows


@dataclass(frozen=True, eq=False)
class ManyCodes:
    """Attackers who must bring the soft distance to each of the codes from below to ``limit`` bits or more."""

    rows: Rows
    coefficients: Matrix
    codes: Bits  # (codes, bits)
    limit: float
    sigma: float
    ones: int | None

    @staticmethod
    def forced_match(
        rows: Rows, coefficients: Matrix, codes: Bits, limit: float, sigma: float, ones: int | None
    ) -> ManyCodes:
        """Return the attackers who must bring the distance to any of the codes down to ``limit``."""
        return ManyCodes(rows, coefficients, ~codes, codes.shape[1] - limit, sigma, ones)

    def squares(self, prices: Sequence[Sequence[float]], thetas: Matrix) -> Matrix:
        """Return the bound on the squared cost for each code; ``prices`` are those to be tried for each sum."""
        if self.ones is None:
            return self._without_median(prices[0])
        surplus = self.codes.sum(1) - self.ones
        ones = self._part(self.codes, -1.0, (self.limit + surplus) / 2, prices[0], thetas)
        zeros = self._part(~self.codes, 1.0, (self.limit - surplus) / 2, prices[1], thetas)
        left, right, bends = (a + b for a, b in zip(_ends(*ones), _ends(*zeros), strict=True))
        lost = bends * np.diff(thetas)[:, None] ** 2 / 4
        inner = (np.minimum(left, right) - lost * (1 + ROUNDING)).min(0)
        ends = np.minimum(ones[0][:, 0].max(0), zeros[0][:, -1].max(0))
        bound: Matrix = np.minimum(inner, ends) - ROUNDING
        return bound

    def _without_median(self, prices: Sequence[float]) -> Matrix:
        """Return the bound where bits are compared with zero: one sum over all bits, and theta is 0."""
        nothing, theta = np.zeros(len(self.codes)), np.zeros(1)
        values = [
            self._part(chosen, toward, nothing, prices, theta)[0]
            for chosen, toward in ((self.codes, -1.0), (~self.codes, 1.0))
        ]
        mu = self._mu(prices)
        needed = mu * self.limit - ROUNDING * mu * abs(self.limit)
        # The first row is for price 0.
        total = values[0][:, 0] + values[1][:, 0] + np.concatenate([[0.0], needed])[:, None]
        bound: Matrix = total.max(0) - ROUNDING
        return bound

    def _mu(self, prices: Sequence[float]) -> Matrix:
        unit = self.rows.floor * self.sigma**2
        return np.array([unit / max(unit / price, SMALLEST_KAPPA) for price in _positive(prices)])

    def _part(
        self, chosen: Bits, toward: float, need: Matrix, prices: Sequence[float], thetas: Matrix
    ) -> tuple[Matrix, Matrix]:
        """Return ``mu (need - sum E)`` for each price, theta and code, and its bend for each price and code."""
        slopes = toward / self.rows.lengths
        start = self.coefficients * slopes
        # Rounding makes every bit a little easier to flip, never harder.
        largest = float(np.abs(start).max() + np.abs(thetas).max() * self.rows.steepest)
        start = start + self.rows.coefficient_error + ROUNDING + EPS * largest
        y = (start - np.outer(thetas, slopes)) / self.sigma
        selected = chosen.astype(np.float64).T
        turn, count = (slopes**2) @ selected / self.sigma**2, selected.sum(0)
        mus = self._mu(prices)
        values = np.zeros((len(mus) + 1, len(thetas), len(chosen)))
        bends = np.zeros((len(mus) + 1, len(chosen)))
        for row, mu in enumerate(mus, start=1):
            envelope = Envelope(self.rows.floor * self.sigma**2 / mu)
            values[row] = mu * (need - envelope(y) @ selected) - ROUNDING * mu * (np.abs(need) + count)
            bends[row] = mu * envelope.bend * turn
        return values, bends


def _positive(prices: Sequence[float]) -> list[float]:
    return sorted({price for price in prices if price > 0})


def _ends(values: Matrix, bends: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Return the values at both ends of each cell and the bend, at the price with the best sum of both ends."""
    left, right = values[:, :-1], values[:, 1:]
    best = (left + right).argmax(0)  # (cells, codes)
    chosen = [np.take_along_axis(side, best[None], 0)[0] for side in (left, right)]
    return chosen[0], chosen[1], np.take_along_axis(bends, best, 0)
