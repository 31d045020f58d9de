"""The radius within which a matcher with finitely many votes still gives the same answer.

A certificate is about the majority of infinitely many votes. Inside its radius that majority can be arbitrarily thin,
and votes on fresh noise may fail to prove a thin majority: the matcher then abstains. This module computes how large
the match probability p must be so that the same procedure answers match with probability 0.999 on fresh noise. Let p*
be that value. The Lipschitz bound of `statistics` then gives the radius

    R_detected = sigma (Phi^-1(p_lower) - Phi^-1(p*)).

The answer probability of both procedures rises with p, so p* covers all larger p. This module does not use torch.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, betainc, ndtri

from dualshield.smoothing.sequential import LARGEST_LEVEL, looks, proves
from dualshield.smoothing.statistics import SAFETY, clopper_pearson_lower

MISSED = 1e-3
"""The probability that a query inside the detected radius gets another answer is at most this."""

# The walk is followed for at most this many votes; later decisions count as no answer.
HORIZON = 8192
PRECISION = 1e-6

Floats = npt.NDArray[np.float64]


def detected_radius(p_lower: float, least: float | None, sigma: float) -> float:
    """The radius within which the vote probability is at least ``least``; 0 if ``least`` is None or not reached."""
    if least is None or p_lower <= least:
        return 0.0
    return float(sigma * (ndtri(p_lower) - ndtri(least))) * (1 - SAFETY)


@lru_cache(maxsize=256)
def least_for_fixed(n0: int, n: int, alpha: float, missed: float, *, matched: bool, or_abstain: bool) -> float | None:
    """The least p >= 1/2 of the decided class at which Algorithm 2 gives its answer with probability 1 - ``missed``.

    ``matched``: whether the decided class is a match; a tie of the selecting votes selects a non-match.
    ``or_abstain``: abstentions count as the same answer, because the deployment reports them as this answer.
    """
    certifies = bisect_left(range(n + 1), True, key=lambda k: clopper_pearson_lower(k, n, alpha) > 0.5)
    # Selecting votes that each class needs: more than half for a match, at least half for a non-match.
    needs = {True: n0 // 2 + 1, False: (n0 + 1) // 2}

    def answers(p: float) -> float:
        if or_abstain:  # every outcome except the certified opposite
            return 1 - at_least(needs[not matched], n0, 1 - p) * at_least(certifies, n, 1 - p)
        return at_least(needs[matched], n0, p) * at_least(certifies, n, p)

    return least_above(answers, missed)


@lru_cache(maxsize=256)
def least_for_sequential(limit: int, alpha: float, missed: float, *, or_abstain: bool) -> float | None:
    """Like `least_for_fixed`, for `sequential.TargetRadiusTest` with any target: the majority proven first answers."""
    level = min(alpha / 2, LARGEST_LEVEL)
    steps = _boundaries(min(limit, HORIZON), level)

    def answers(p: float) -> float:
        right, wrong, open_ = _walk(steps, p)
        if not or_abstain:
            return right
        # An open walk may still prove the wrong majority; at p >= 1/2 the total probability is at most the level.
        return 1 - min(wrong + (open_ if limit > HORIZON else 0.0), level)

    return least_above(answers, missed)


def at_least(k: int, n: int, p: float) -> float:
    """P[X >= k] for X binomial with n trials of probability p."""
    if k <= 0:
        return 1.0
    return 0.0 if k > n else float(betainc(k, n - k + 1, p))


def least_above(answers: Callable[[float], float], missed: float) -> float | None:
    """The least p >= 1/2 with an answer probability of at least 1 - ``missed``, rounded up; None if there is none."""
    low, high = 0.5, 1 - PRECISION
    enough = 1 - missed
    if answers(low) >= enough:
        return low
    if answers(high) < enough:
        return None
    while high - low > PRECISION:
        middle = (low + high) / 2
        low, high = (low, middle) if answers(middle) >= enough else (middle, high)
    return high


@lru_cache(maxsize=16)
def _boundaries(limit: int, level: float) -> tuple[tuple[int, int], ...]:
    """For each look: the number of votes so far, and how many of them prove a majority."""
    found = []
    least = 0
    for draws in looks(limit):
        least = max(least, draws // 2)  # boundaries never fall from look to look
        while least <= draws and not proves(least, draws, 0.5, level):
            least += 1
        found.append((draws, least))
    return tuple(found)


def _walk(steps: tuple[tuple[int, int], ...], p: float) -> tuple[float, float, float]:
    """The probabilities that the right majority is proven first, that the wrong one is, and that neither is."""
    alive: Floats = np.array([1.0])  # probabilities of first, first + 1, ... successes without a decision
    first, before = 0, 0
    right = wrong = 0.0
    for draws, needed in steps:
        alive = np.convolve(alive, _binomial(draws - before, p))
        before = draws
        counts = first + np.arange(len(alive))
        up, down = counts >= needed, counts <= draws - needed
        right += float(alive[up].sum())
        wrong += float(alive[down].sum())
        open_ = ~(up | down)
        first += int(np.argmax(open_))
        alive = alive[open_]
        if not len(alive):
            break
    return right, wrong, float(alive.sum())


@lru_cache(maxsize=256)
def _binomial(n: int, p: float) -> Floats:
    cumulative = np.asarray(bdtr(np.arange(n + 1), n, p))
    return np.diff(cumulative, prepend=0.0)
