"""What an attacker has to reach, and a proven lower bound on the l2 that it costs (METHOD.md 4b).

A query matches if D <= t. To get above t, at the soft median theta of the changed image both

    sum over the ones  of Phi((u_i - z_i(theta)) / sigma) >= (t + k) / 2       (ones that turned to zero)
    sum over the zeros of Phi((u_i - z_i(theta)) / sigma) >= (t - k) / 2       (zeros that turned to one)

must hold. ``u_i`` is how far the change moves coefficient i towards its flip, in units of its row, that is in pixel l2;
``z_i(theta)`` is the bit's margin in the same units; k is the number of ones above half. So the cost is at least the
minimum over ALL theta of the cost of meeting both. For hashes that compare with zero there is one sum over all bits,
and no theta.

For every change delta, every vector p, and ``d`` with ``d C <= I`` (rows.py):

    ||delta||^2  >=  d ||u - w||^2 - p (I - d C) p / d,      w = C p - p / d                                  (1)

because the difference is ``(delta - A p) (I - d A A^T) (delta - A p) >= 0``. The right-hand side is a sum over bits,
so weak duality with prices mu >= 0 leaves one problem per bit (envelope.py), with kappa = d sigma^2 / mu:

    ||delta||^2  >=  - p (I - d C) p / d + sum over the sums of  mu (need - sum_i E((w_i - z_i(theta)) / sigma))   (2)

Nothing about p and mu needs to be proven: any values give a valid bound, good ones a large bound (prices.py).

E(y) + bend y^2 is convex (envelope.py). So between two values of theta the right-hand side of (2) is a concave function
plus ``mu bend / sigma^2 sum theta^2 / ||A_i||^2``. On a cell of width h it is at least the smaller value at the ends
minus a quarter of that term with h for theta. Beyond the last cell the zeros alone only get dearer, and the ones before
the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dualshield.hashes.linear.linear_hash import Bits
from dualshield.images.axes import Matrix
from dualshield.smoothing.exact.envelope import SMALLEST_KAPPA, Envelope
from dualshield.smoothing.exact.rows import Rows

# Relative to the largest terms of the bound; far above their rounding (some hundred sums of 256 numbers), far below
# anything that matters.
ROUNDING = 1e-10
EPS = 8 * float(np.finfo(np.float64).eps)
# In bits; far above the error of a computed soft distance.
IMPOSSIBLE = 1e-6


@dataclass(frozen=True, eq=False)
class Evasion:
    """The problem of an attacker who must bring the soft distance to ``code`` from below to ``limit`` bits or more.

    For a query that does not match, the attacker must bring the distance down, which is the same as bringing the
    distance to the inverted code up (`forced_match`).
    """

    rows: Rows
    coefficients: Matrix
    code: Bits
    limit: float
    sigma: float
    ones: int | None  # how many bits are one at the soft median; None: bits are compared with zero

    @staticmethod
    def forced_match(
        rows: Rows, coefficients: Matrix, code: Bits, limit: float, sigma: float, ones: int | None
    ) -> Evasion:
        """Return the problem of an attacker who must bring the distance down to ``limit``."""
        return Evasion(rows, coefficients, ~code, len(code) - limit, sigma, ones)

    @cached_property
    def toward(self) -> Matrix:
        """The direction in which each coefficient has to move to flip its bit: down for ones, up for zeros."""
        return np.where(self.code, -1.0, 1.0)

    @cached_property
    def groups(self) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.intp]], ...]:
        """The bits of each sum: the ones and the zeros, or all."""
        if self.ones is None:
            return (np.arange(len(self.code)),)
        return np.flatnonzero(self.code), np.flatnonzero(~self.code)

    @cached_property
    def needs(self) -> tuple[float, ...]:
        """What each sum has to reach."""
        if self.ones is None:
            return (self.limit,)
        surplus = int(self.code.sum()) - self.ones
        return (self.limit + surplus) / 2, (self.limit - surplus) / 2

    @property
    def is_impossible(self) -> bool:
        """Whether no image at all reaches the limit."""
        # A sum of len(group) itself is out of reach, but not in floating point, where Phi becomes 1.
        return any(need > len(group) + IMPOSSIBLE for need, group in zip(self.needs, self.groups, strict=True))

    @cached_property
    def correlations(self) -> Matrix:
        """The correlations of movements toward flips."""
        return self.rows.correlations * np.outer(self.toward, self.toward)

    @cached_property
    def slopes(self) -> Matrix:
        """How fast each margin grows with theta."""
        slopes: Matrix = self.toward / self.rows.lengths
        return slopes

    def margins(self, theta: float) -> Matrix:
        """Return ``z``: how far each coefficient is from its boundary, in pixel l2; negative where it is flipped."""
        margins: Matrix = (theta - self.coefficients) * self.slopes
        return margins


@dataclass(frozen=True, eq=False)
class Part:
    """One sum's part of the bound: values for each price and theta, and how much they may bend between two thetas."""

    values: Matrix
    bends: Matrix

    def ends(self) -> tuple[Matrix, Matrix, Matrix]:
        """Return the values at both ends of each cell and the bend, at the price with the best sum of both ends."""
        left, right = self.values[:, :-1], self.values[:, 1:]
        best = (left + right).argmax(0)
        cells = np.arange(left.shape[1])
        return left[best, cells], right[best, cells], self.bends[best]


class Bound:
    """The right-hand side of (2) for one p: proven for all theta at once, best prices chosen for each cell."""

    def __init__(self, evasion: Evasion, p: Matrix, prices: Sequence[Sequence[float]], thetas: Matrix) -> None:
        self.evasion = evasion
        self.thetas = thetas
        rows, d = evasion.rows, evasion.rows.floor
        moved = evasion.correlations @ p
        quadratic = float(p @ p - d * (p @ moved)) / d
        size = float(np.abs(p).sum())
        self.base = -quadratic - ROUNDING * (1 + size) ** 2
        # Rounding of coefficients and correlations makes every bit a little easier to flip, never harder.
        largest = float(np.abs(evasion.coefficients * evasion.slopes).max() + np.abs(thetas).max() * rows.steepest)
        w = moved - p / d + rows.coefficient_error + ROUNDING * (1 + size) + EPS * largest
        self.parts = [
            self._part(group, need, sorted({price for price in of_group if price > 0}), w)
            for group, need, of_group in zip(evasion.groups, evasion.needs, prices, strict=True)
        ]

    def _part(
        self, group: np.ndarray[tuple[int, ...], np.dtype[np.intp]], need: float, prices: list[float], w: Matrix
    ) -> Part:
        """Return ``mu (need - sum E)`` for each price and theta; the first row is for price 0."""
        evasion, d = self.evasion, self.evasion.rows.floor
        start = (w + evasion.coefficients * evasion.slopes)[group]
        y = (start - np.outer(self.thetas, evasion.slopes[group])) / evasion.sigma
        part = np.zeros((len(prices) + 1, len(self.thetas)))
        bends = np.zeros(len(prices) + 1)
        turn = float((evasion.slopes[group] ** 2).sum()) / evasion.sigma**2
        for row, price in enumerate(prices, start=1):
            kappa = max(d * evasion.sigma**2 / price, SMALLEST_KAPPA)
            mu = d * evasion.sigma**2 / kappa
            envelope = Envelope(kappa)
            flips = envelope(y).sum(1)
            part[row] = mu * (need - flips) - ROUNDING * mu * (abs(need) + len(group))
            bends[row] = mu * envelope.bend * turn
        return Part(part, bends)

    @property
    def at_thetas(self) -> Matrix:
        """The bound on the squared cost at each theta, if theta is that value."""
        values = np.full(len(self.thetas), self.base)
        for part in self.parts:
            values += part.values.max(0)
        return values

    def cells(self) -> Matrix:
        """Return the bound on the squared cost with theta below the first, between each two, and above the last."""
        ones, zeros = self.parts
        left, right, bends = (a + b for a, b in zip(ones.ends(), zeros.ends(), strict=True))
        lost = bends * np.diff(self.thetas) ** 2 / 4
        inner = self.base + np.minimum(left, right) - lost * (1 + ROUNDING)
        ends = self.base + ones.values[:, 0].max(), self.base + zeros.values[:, -1].max()
        return np.concatenate([ends[:1], inner, ends[1:]])
