"""Find a good vector p and good prices for the bound (evasion.py). Nothing here needs to be proven.

At the optimum all of these hold: the needed flips are reached, ``p = d (u - w)`` (the same as ``u = C p``), and theta
costs nothing more in either direction. Each step moves a little towards all three. Bits whose two choices, to stay and
to flip, cost the same jump to and fro; steps that get shorter average them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import ndtr

from dualshield.images.axes import Matrix
from dualshield.smoothing.exact.envelope import Envelope
from dualshield.smoothing.exact.evasion import Evasion

STEPS = 14
MAX_LOG_STEP = 0.8
LEAST_BEND = 0.01
# The table of maxima: rows for log kappa; columns for y, from where no bit is worth flipping up to HIGHEST. It only has
# to be good, not exact.
LOG_KAPPAS = np.linspace(np.log(1e-6), np.log(1e3), 281)
LOWEST = -np.maximum(12.0, 1.3 * np.exp(-LOG_KAPPAS / 2))
HIGHEST = 6.0
COLUMNS = 801
DENSITY_AT_ZERO = 1 / np.sqrt(2 * np.pi)


@cache
def _table() -> Matrix:
    rows = []
    for log, low in zip(LOG_KAPPAS, LOWEST, strict=True):
        y, x = Envelope(float(np.exp(log))).maxima
        at = np.linspace(low, HIGHEST, COLUMNS)
        # Left of the knots bits stay where they are.
        rows.append(np.where(at < y[0], at, np.interp(at, y, x)))
    return np.array(rows)


def maximum(y: Matrix, log_kappa: Matrix) -> Matrix:
    """Return about where ``Phi(x) - kappa (x - y)^2`` is largest."""
    values = _table().ravel()
    row = np.rint((log_kappa - LOG_KAPPAS[0]) / (LOG_KAPPAS[1] - LOG_KAPPAS[0]))
    row = np.clip(row, 0, len(LOG_KAPPAS) - 1).astype(np.intp)
    low = LOWEST[row]
    place = np.clip((y - low) * ((COLUMNS - 1) / (HIGHEST - low)), 0, COLUMNS - 1.001)
    column = place.astype(np.intp)
    part = place - column
    flat = row * COLUMNS + column
    found = values[flat] * (1 - part) + values[flat + 1] * part
    return np.where((y <= low) | (y >= HIGHEST), y, found)


@dataclass(frozen=True, eq=False)
class Multipliers:
    """A vector p and one price per sum, for about the cheapest theta."""

    p: Matrix
    prices: tuple[float, ...]
    theta: float

    @property
    def cost(self) -> float:
        """About the squared cost of the cheapest evasion."""
        return float(self.p @ self.p)


def multipliers(evasion: Evasion, theta: float, *, steps: int = STEPS) -> Multipliers:
    """Return good multipliers; theta moves to where evasion is cheapest."""
    d, sigma = evasion.rows.floor, evasion.sigma
    correlations, slopes, needs = evasion.correlations, evasion.slopes, np.asarray(evasion.needs)
    sums = len(needs)
    group_of = np.zeros(len(slopes), np.intp)
    for number, group in enumerate(evasion.groups):
        group_of[group] = number
    indicator = np.equal.outer(np.arange(sums), group_of).astype(np.float64)
    length = float(evasion.rows.lengths.mean())
    p = np.zeros(len(slopes))
    log_mu = np.full(sums, np.log(2 * sigma * max(1.0, 4.0 * sigma)))
    trust, before = 1.0, np.zeros(sums)
    unknowns = sums if evasion.ones is None else sums + 1
    for step in range(steps):
        z = evasion.margins(theta)
        moved = correlations @ p
        y = (moved - p / d - z) / sigma
        log_kappa = (np.log(d * sigma**2) - log_mu)[group_of]
        x = maximum(y, log_kappa)
        density = DENSITY_AT_ZERO * np.exp(-x * x / 2)
        kappa = np.exp(log_kappa)
        bend = np.maximum(x * density + 2 * kappa, LEAST_BEND)
        # Newton's step for: every sum is reached, and theta is where evasion is cheapest.
        missing = needs - indicator @ ndtr(x)
        jacobian = np.zeros((unknowns, unknowns))
        np.fill_diagonal(jacobian, indicator @ (density**2 / bend))
        wanted = missing
        if evasion.ones is not None:
            follow = 2 * kappa / bend  # how x follows y
            pull = d * sigma * (x - y)
            jacobian[:sums, sums] = indicator @ (-density * follow * slopes) * (length / sigma)
            jacobian[sums, :sums] = indicator @ (d * sigma * density / bend * slopes)
            jacobian[sums, sums] = d * float(((1 - follow) * slopes**2).sum()) * length
            wanted = np.append(missing, -float(pull @ slopes))
        jacobian += np.diag(1e-30 + 1e-3 * np.abs(np.diag(jacobian)))
        change = np.clip(np.linalg.solve(jacobian, wanted), -MAX_LOG_STEP, MAX_LOG_STEP)
        # Where a step overshoots, flips jump between bits: take shorter steps from there on.
        trust = trust * 0.8 if (missing * before < 0).any() else trust
        before = missing
        log_mu = log_mu + trust * change[:sums]
        if evasion.ones is not None:
            theta += trust * length * float(change[sums])
        p = p + min(1.0, 6.0 / (step + 2)) * d * (z + sigma * x - moved)
    return Multipliers(p, tuple(np.exp(log_mu).tolist()), theta)
