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

STEPS = 16
MAX_LOG_STEP = 0.8
# The table of maxima: log kappa and y. It only has to be good, not exact.
LOG_KAPPAS = np.linspace(np.log(1e-4), np.log(30), 181)
YS = np.linspace(-16, 6, 881)
DENSITY_AT_ZERO = 1 / np.sqrt(2 * np.pi)


@cache
def _table() -> Matrix:
    rows = []
    for log in LOG_KAPPAS:
        y, x = Envelope(float(np.exp(log))).maxima
        # Left of the knots bits stay where they are.
        rows.append(np.where(y[0] > YS, YS, np.interp(YS, y, x)))
    return np.array(rows)


def maximum(y: Matrix, log_kappa: Matrix) -> Matrix:
    """Return about where ``Phi(x) - kappa (x - y)^2`` is largest."""
    table = _table()
    row = np.clip(np.rint((log_kappa - LOG_KAPPAS[0]) / (LOG_KAPPAS[1] - LOG_KAPPAS[0])), 0, len(table) - 1)
    place = np.clip((y - YS[0]) / (YS[1] - YS[0]), 0, len(YS) - 1.001)
    column = place.astype(np.intp)
    part = place - column
    flat = row.astype(np.intp) * len(YS) + column
    values = table.ravel()
    found = values[flat] * (1 - part) + values[flat + 1] * part
    return np.where((y <= YS[0]) | (y >= YS[-1]), y, found)


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


def multipliers(evasion: Evasion, theta: float, *, moves: bool = True, steps: int = STEPS) -> Multipliers:
    """Return good multipliers; theta moves to where evasion is cheapest, unless ``moves`` is off."""
    d, sigma = evasion.rows.floor, evasion.sigma
    correlations, slopes, needs = evasion.correlations, evasion.slopes, np.asarray(evasion.needs)
    group_of = np.zeros(len(slopes), np.intp)
    for number, group in enumerate(evasion.groups):
        group_of[group] = number
    indicator = np.equal.outer(np.arange(len(needs)), group_of).astype(np.float64)
    stiffness = d * float((slopes**2).sum())
    p = np.zeros(len(slopes))
    log_mu = np.full(len(needs), np.log(2 * sigma * max(1.0, 4.0 * sigma)))
    trust = np.ones(len(needs))
    before = np.zeros(len(needs))
    for step in range(steps):
        z = evasion.margins(theta)
        moved = correlations @ p
        w = moved - p / d
        log_kappa = (np.log(d * sigma**2) - log_mu)[group_of]
        x = maximum((w - z) / sigma, log_kappa)
        density = DENSITY_AT_ZERO * np.exp(-x * x / 2)
        missing = needs - indicator @ ndtr(x)
        slope = indicator @ (density**2 / np.maximum(x * density + 2 * np.exp(log_kappa), 0.02))
        # Where a step overshoots, flips jump between bits: take shorter steps from there on.
        trust = np.where(missing * before < 0, trust * 0.6, trust)
        before = missing
        log_mu = log_mu + trust * np.clip(missing / np.maximum(slope, 0.5), -MAX_LOG_STEP, MAX_LOG_STEP)
        u = z + sigma * x
        share = min(1.0, 3.0 / (step + 2))
        p = p + share * d * (u - moved)
        if moves and evasion.ones is not None and step:
            theta -= share * float(2 * p @ slopes) / (2 * stiffness)
    return Multipliers(p, tuple(np.exp(log_mu).tolist()), theta)
