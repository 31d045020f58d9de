"""The one-dimensional problem of the certificate, with a proven upper bound.

    E(y) = max over x of  Phi(x) - kappa (x - y)^2

Each bit asks it: how much of a flip is it worth to move from y, if moving costs kappa times its square? Where
``Phi(x) - kappa (x - y)^2`` is stationary, ``phi(x) = 2 kappa (x - y)``. So every x gives one y and one value without
solving anything:

    y = x - phi(x) / (2 kappa),    E = Phi(x) - phi(x)^2 / (4 kappa)

if x is the global maximum for that y. E(y) + kappa y^2 = max_x [Phi(x) - kappa x^2 + 2 kappa x y] is a maximum of
straight lines in y, hence convex. E(y) + y^2 phi(1) / 2 is convex too: with x = y + s it is a maximum of functions
Phi(y + s) + y^2 phi(1) / 2 - kappa s^2, and Phi'' is nowhere below -phi(1). A convex function is below the chord
between any two known points. So interpolated values are upper bounds of E, not approximations.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from dualshield.hashes.linear.linear_hash import Bits
from dualshield.images.axes import Matrix

# Far above the error of `ndtr` and of the sums here (some 1e-15), far below anything that matters.
ROUNDING = 1e-12
# The knots x, denser where flipped bits end up. Outside, Phi is 0 or 1 up to 1e-9.
_X = np.concatenate([np.arange(-6, -3, 0.05), np.arange(-3, 4, 0.03), np.arange(4, 6.05, 0.1)])
_PHI = ndtr(_X)
_DENSITY = np.exp(-(_X**2) / 2) / np.sqrt(2 * np.pi)
# A knot is a local maximum where -x phi(x) < 2 kappa. The product has one peak, at x = -1, so such knots form two
# branches: bits that stay where they are, and bits that are flipped.
_BEND = -_X * _DENSITY
_STAYS = _X < -1


# Above phi(1) / 2, the largest downward bend of Phi.
MOST_BEND = 0.121
_PEAK = 0.2419707245191434  # phi(1), rounded up: the largest bend, which lies between two knots
_GAP = float(np.diff(_X).max())
_STEEPEST = 0.25  # above phi(-1), the largest slope of E on the branch that stays
SMALLEST_KAPPA = 1e-7  # at smaller ones no knot is left on the branch that stays


class Envelope:
    """``E`` for one ``kappa``, as an upper bound that is exact up to the spacing of the knots."""

    def __init__(self, kappa: float) -> None:
        self.kappa = kappa
        y = _X - _DENSITY / (2 * kappa)
        value = _PHI - _DENSITY**2 / (4 * kappa)
        maximal = 2 * kappa > _BEND
        if 2 * kappa <= _PEAK:
            y, value = _higher(kappa, y, value, maximal & _STAYS, maximal & ~_STAYS)
        self.bend = min(kappa, MOST_BEND)
        self.knots = y
        self._values = value
        self._convex = value + self.bend * y * y

    @property
    def maxima(self) -> tuple[Matrix, Matrix]:
        """The knots y, and where the maximum is for each: the slope of E + kappa y^2 is 2 kappa x."""
        slopes = np.diff(self._values) / np.diff(self.knots) / (2 * self.kappa)
        middles = (self.knots[1:] + self.knots[:-1]) / 2
        return middles, slopes + middles

    def __call__(self, y: Matrix) -> Matrix:
        """Return an upper bound of E at each y."""
        found = np.interp(y, self.knots, self._convex) - self.bend * y * y
        # E rises from 0 to 1: left of the knots it is at most its first value, right of them at most 1.
        found = np.where(y < self.knots[0], self._values[0], np.where(y > self.knots[-1], 1.0, found))
        bound: Matrix = np.minimum(found, 1.0) + ROUNDING
        return bound


def _higher(kappa: float, y: Matrix, value: Matrix, stays: Bits, flips: Bits) -> tuple[Matrix, Matrix]:
    """Return the knots that are known to be on the higher of the two branches; chords bridge those that are not.

    On each branch E + kappa y^2 is convex, so chords bound it from above, and E rises. A branch may go on beyond its
    last knot, but by less than the gap between two knots.
    """
    low_y, low, high_y, high = y[stays], value[stays], y[flips], value[flips]

    def chord(at: Matrix, knots: Matrix, values: Matrix) -> Matrix:
        bound: Matrix = np.interp(at, knots, values + kappa * knots**2) - kappa * at**2
        return bound

    staying = np.where(high_y < low_y[0], low[0], chord(high_y, low_y, low))
    beyond = high_y > low_y[-1]
    staying = np.where(beyond, low[-1] + _STEEPEST * (high_y - low_y[-1]), staying)
    staying[high_y > low_y[-1] + _GAP] = -np.inf
    flipped = np.where(low_y < high_y[0], high[0], chord(low_y, high_y, high))
    flipped[low_y < high_y[0] - _GAP] = -np.inf
    keep_low, keep_high = low >= flipped + ROUNDING, high >= staying + ROUNDING
    if not keep_low.any():
        # All knots of the lower branch are past the crossing. Where flipping is worth less than nothing, bits stay,
        # and there E is at most its value at the first of these knots.
        worthless = np.flatnonzero(high < 0)
        edge = high_y[worthless[-1:]]
        return np.concatenate([edge, high_y[keep_high]]), np.concatenate([low[: len(edge)], high[keep_high]])
    return np.concatenate([low_y[keep_low], high_y[keep_high]]), np.concatenate([low[keep_low], high[keep_high]])
