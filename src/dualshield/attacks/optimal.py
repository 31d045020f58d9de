"""The cheapest evasion of an exact matcher: the primal of the problem that its certificate bounds from below.

At the shortest change that reaches the boundary, the change is parallel to the gradient of the soft distance D there.
So from any start the next change is the shortest one that reaches the boundary of D linearised at this one; half steps
keep it from jumping. The first start is the solution of the certificate's dual problem. Pixels at the end of their
range cannot move further: they are held, and the others take over. The result is rounded to 8 bits; the boundary is
passed by as little as rounding allows.

With views the image must pass the boundary of every pair of views. The attack begins with the nearest pair. As long as
others still match, it adds the nearest of them, and the next change is the shortest one that passes the boundaries of
all these pairs, each made linear. Such steps are shorter, and after each the change is moved on, by as little as it
takes, until all pairs are past their boundaries.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import nnls

from dualshield.attacks.base import BaseAttack
from dualshield.attacks.exact_victim import ExactVictim
from dualshield.attacks.judge import judged
from dualshield.attacks.l2_ball import project
from dualshield.attacks.result import AttackBudget, AttackResult
from dualshield.attacks.victim import Target
from dualshield.errors import InputError
from dualshield.images.axes import Matrix
from dualshield.images.canonical import CanonicalImage
from dualshield.images.eight_bit import to_8bit
from dualshield.smoothing.exact.soft_distance import gradient
from dualshield.smoothing.statistics import Decision

STEPS = 40
# How far past the boundary, in bits; rounding to 8 bits moves D by some hundredths.
SPARE_BITS = (0.01, 0.03, 0.1, 0.3, 1.0)
# Pairs of views: how many are added at a time, how often, and the steps after that.
ADDED, ROUNDS, FURTHER_STEPS = 4, 40, 12
REPAIRS = 6

Pair = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Optimal(BaseAttack):
    """Finds the shortest evasion, whatever the budget; it succeeds if that fits into the budget."""

    steps: int = STEPS

    def run(self, victim: Target, query: CanonicalImage, budget: AttackBudget) -> AttackResult:
        if not isinstance(victim, ExactVictim):
            raise InputError("the attack optimal needs one exact matcher, such as pdq with smoothing; use eot-pgd")
        pixels = victim.start(query)
        started = time.perf_counter()
        delta = project(pixels, self.shortest(victim, pixels), budget.l2)
        return judged("optimal", victim, pixels, delta, budget, self.steps, started)

    def shortest(self, victim: ExactVictim, pixels: torch.Tensor) -> torch.Tensor:
        """Return the shortest change found whose saved image does not match."""
        pairs = [_nearest(victim, pixels)]
        delta = _start(victim, pixels, pairs[0])
        for step in range(self.steps):
            delta = delta + 0.5 * (_linearised(victim, pixels, delta, victim.boundary, pairs) - delta)
            self.progress(step + 1, self.steps)
        for _ in range(ROUNDS):
            more = _matching(victim, pixels + delta, pairs)
            if not more:
                break
            pairs += more
            for _ in range(FURTHER_STEPS):
                delta = delta + 0.25 * (_linearised(victim, pixels, delta, victim.boundary, pairs) - delta)
                delta = _repaired(victim, pixels, delta, victim.boundary, pairs)
        for spare in SPARE_BITS:
            goal, changed = victim.boundary + spare, delta
            for _ in range(4 if len(pairs) == 1 else 0):  # from so near, a few whole steps reach the boundary itself
                changed = _linearised(victim, pixels, changed, goal, pairs)
            for _ in range(0 if len(pairs) == 1 else REPAIRS):
                changed = _repaired(victim, pixels, changed, goal, pairs)
            saved = to_8bit(pixels + changed)
            if victim.decision(saved) is not Decision.MATCH:
                return changed
            pairs += _matching(victim, saved, pairs)
        return changed


attack = Optimal()


def _nearest(victim: ExactVictim, pixels: torch.Tensor) -> Pair:
    matcher, kept = victim.parts
    return matcher.pairs(kept, pixels.detach().cpu().numpy()).nearest


def _matching(victim: ExactVictim, pixels: torch.Tensor, known: list[Pair]) -> list[Pair]:
    """Return the nearest pairs that match and are not known yet."""
    matcher, kept = victim.parts
    distances = matcher.pairs(kept, pixels.detach().cpu().numpy()).distances.copy()
    distances[tuple(np.array(known).T)] = np.inf
    found = []
    for place in np.argsort(distances, axis=None, kind="stable")[:ADDED]:
        view, code = np.unravel_index(place, distances.shape)
        if distances[view, code] <= victim.boundary:
            found.append((int(view), int(code)))
    return found


def _start(victim: ExactVictim, pixels: torch.Tensor, pair: Pair) -> torch.Tensor:
    matcher, kept = victim.parts
    view, code = pair
    soft = matcher.soft(kept.sigma, view)
    found = matcher.pairs(kept, pixels.detach().cpu().numpy()).coefficients[view]
    evasion, multipliers = soft.attack(found, kept.codes[code], victim.boundary)
    weights = evasion.toward * multipliers.p / soft.rows.lengths
    return matcher.lift(weights, pixels, view)


def _linearised(
    victim: ExactVictim, pixels: torch.Tensor, delta: torch.Tensor, goal: float, pairs: list[Pair]
) -> torch.Tensor:
    """Return the shortest change within the pixel range at which each D, linearised at ``delta``, reaches ``goal``."""
    slopes, missing = _constraints(victim, pixels, delta, goal, pairs)
    there = np.array([float((slope * delta).sum()) for slope in slopes])
    return _shortest(slopes, missing + there, -pixels, 1 - pixels)


def _repaired(
    victim: ExactVictim, pixels: torch.Tensor, delta: torch.Tensor, goal: float, pairs: list[Pair]
) -> torch.Tensor:
    """Return the change nearest to ``delta`` within the pixel range where each D, linearised, reaches ``goal``."""
    slopes, missing = _constraints(victim, pixels, delta, goal, pairs)
    if (missing <= 0).all():
        return delta
    return delta + _shortest(slopes, missing, -pixels - delta, 1 - pixels - delta)


def _shortest(slopes: torch.Tensor, missing: Matrix, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    """Return the shortest change between ``low`` and ``high`` whose product with each slope reaches ``missing``."""
    free = torch.ones_like(low, dtype=torch.bool)
    held = torch.zeros_like(low)
    for _ in range(8):
        squares = _products(slopes * free)
        if float(squares.diagonal().min()) <= 0:
            return held
        rest = missing - np.array([float((slope * held).sum()) for slope in slopes])
        weights = torch.from_numpy(_weights(squares, rest)).to(low)
        change = torch.where(free, torch.tensordot(weights, slopes, 1), held)
        outside = free & ((change < low) | (change > high))
        if not outside.any():
            return change
        held = torch.where(outside, change.clamp(low, high), held)
        free &= ~outside
    return change.clamp(low, high)


def _constraints(
    victim: ExactVictim, pixels: torch.Tensor, delta: torch.Tensor, goal: float, pairs: list[Pair]
) -> tuple[torch.Tensor, Matrix]:
    """Return the gradient of each pair's D at ``delta``, and how much is missing there to ``goal``."""
    matcher, kept = victim.parts
    found = matcher.pairs(kept, (pixels + delta).detach().cpu().numpy()).coefficients
    slopes, missing = [], []
    for view, code in pairs:
        soft = matcher.soft(kept.sigma, view)
        distance, by_coefficient = gradient(found[view], soft.spread, soft.ones, kept.codes[code])
        slopes.append(matcher.lift(by_coefficient, pixels, view))
        missing.append(goal - distance)
    return torch.stack(slopes), np.array(missing)


def _products(slopes: torch.Tensor) -> Matrix:
    flat = slopes.flatten(1)
    return (flat @ flat.T).cpu().double().numpy()


def _weights(squares: Matrix, rest: Matrix) -> Matrix:
    """Return how much of each gradient is in the shortest change that reaches all of ``rest``; one is met exactly.

    The shortest change is a sum of gradients with weights of at least 0 (its multipliers).
    """
    found: Matrix
    if len(rest) == 1:
        found = rest / squares[0]
    else:
        root = np.linalg.cholesky(squares + 1e-6 * np.diag(squares.diagonal()))
        found = nnls(root.T, np.linalg.solve(root, rest))[0]
    return found
