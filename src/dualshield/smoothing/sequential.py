"""Sequential tests: look at the votes as they come in, and stop as soon as the target is proven.

The evidence against "p <= null" is a test martingale, so it may be looked at after any number of votes (Ville's
inequality). Inverting it over all null values gives a lower bound of p that holds at all times at once: a confidence
sequence. This module does not use torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from scipy.special import betaincc, betaln

from dualshield.smoothing.statistics import (
    SAFETY,
    Certificate,
    Decision,
    certified_radius,
    probability_for,
    radius_ceiling,
)

# A clear answer takes about fourteen votes. After CLEAR votes the answer is not clear, and fewer looks cost little.
FINE, COARSE, CLEAR = 4, 32, 64
# Largest level of a confidence sequence; must be below 1/e (see `anytime_lower`).
LARGEST_LEVEL = 0.25


def looks(limit: int) -> Iterator[int]:
    """Yield the numbers of votes at which the test looks: often at first, then less often, and at the limit."""
    draws = 0
    while draws < limit:
        draws = min(limit, draws + (FINE if draws < CLEAR else COARSE))
        yield draws


def log_evidence(successes: int, trials: int, null: float) -> float:
    """Log of a test martingale against "p <= null", for any sample size chosen in any way.

    The likelihood ratio of q against ``null``, averaged over q uniform on (null, 1). For each q > null and each
    true p <= null its expected growth per vote is p q/null + (1-p)(1-q)/(1-null) <= 1, so by Ville's inequality
    P[evidence ever reaches 1/alpha] <= alpha. It may be looked at after every vote.
    """
    failures = trials - successes
    tail = float(betaincc(successes + 1, failures + 1, null))
    if tail <= 0.0:
        return -math.inf
    mixture = float(betaln(successes + 1, failures + 1)) + math.log(tail) - math.log1p(-null)
    return mixture - successes * math.log(null) - failures * math.log1p(-null)


def proves(successes: int, trials: int, null: float, alpha: float) -> bool:
    """Whether the votes prove p > null at level alpha (anytime-valid)."""
    return log_evidence(successes, trials, null) >= -math.log(alpha)


def anytime_lower(successes: int, trials: int, alpha: float) -> float:
    """Return a lower bound of p: P[the bound ever exceeds p, at any number of votes] <= alpha.

    The bound is the upper end of the disproven null values. Below successes / (trials + 1) the evidence falls strictly
    as null rises (its logarithm has the slope (1 - 1/evidence) / (1 - null) - (successes - trials null) / (null (1 -
    null)), which is negative there), and above it the evidence is at most e, which disproves nothing at a level of at
    most ``LARGEST_LEVEL``. So the disproven values are an interval that starts at 0, and p lies above it unless p
    itself is disproven.
    """
    if alpha > LARGEST_LEVEL:
        raise ValueError(f"level alpha {alpha} is above {LARGEST_LEVEL}")
    low, high = 0.0, successes / (trials + 1)
    for _ in range(60):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if proves(successes, trials, middle, alpha) else (low, middle)
    return low * (1 - SAFETY)


class TargetRadiusTest:
    """Prove the target radius for either class; if that fails, prove the decision and the radius it has.

    The answer is the class whose majority is proven first; later draws do not change it. Drawing goes on until the
    target is proven too, or is out of reach. Each class gets alpha/2 for all looks together, so the probability of a
    wrong certificate of either kind is at most alpha. Only votes near one half end in an abstention.
    ``of_matches_only``: the target is asked of matches; a non-match ends the test as soon as it is proven.
    """

    def __init__(self, target: float, sigma: float, alpha: float, limit: int, *, of_matches_only: bool = False) -> None:
        self.target, self.sigma, self.limit = target, sigma, limit
        self.of_matches_only = of_matches_only
        self.level = min(alpha / 2, LARGEST_LEVEL)
        self.needed = probability_for(target, sigma)
        self._answer: Decision | None = None
        self._p_lower = 0.0

    @property
    def answer(self) -> Decision | None:
        """The class whose majority is proven, if one is; drawing may go on for the target."""
        return self._answer

    @property
    def reachable(self) -> bool:
        """Whether unanimous votes could prove the target within the limit."""
        return self.needed < 1.0 and proves(self.limit, self.limit, self.needed, self.level)

    def look(self, matches: int, draws: int) -> Certificate | None:
        """Return the certificate, or None to go on drawing; call it at each of ``looks(limit)`` in turn."""
        if self._answer is None:
            for decision in (Decision.MATCH, Decision.NO_MATCH):
                if proves(self._votes(decision, matches, draws), draws, 0.5, self.level):
                    self._answer = decision
                    # Kept because later votes may prove less. Both bounds hold at once (confidence sequence).
                    self._p_lower = self._bound(matches, draws)
        if self._answer is None:
            most = max(matches, draws - matches)
            return Certificate(Decision.ABSTAIN, most, draws, 0.0, 0.0) if draws >= self.limit else None
        votes = self._votes(self._answer, matches, draws)
        proven = self.needed < 1.0 and proves(votes, draws, self.needed, self.level)
        enough = self.of_matches_only and self._answer is Decision.NO_MATCH
        if not proven and not enough and not self._hopeless(votes, draws):
            return None
        p_lower = max(self._p_lower, self._bound(matches, draws), self.needed if proven else 0.0)
        radius = certified_radius(p_lower, self.sigma)
        return Certificate(self._answer, votes, draws, p_lower, max(radius, self.target) if proven else radius)

    def _votes(self, decision: Decision, matches: int, draws: int) -> int:
        return matches if decision is Decision.MATCH else draws - matches

    def _bound(self, matches: int, draws: int) -> float:
        assert self._answer is not None
        # The majority is already proven, so rounding of the bound must not lower it below 1/2.
        return max(0.5, anytime_lower(self._votes(self._answer, matches, draws), draws, self.level))

    def _hopeless(self, votes: int, draws: int) -> bool:
        """Whether the target is disproven, or out of reach of the remaining draws. Giving up needs no proof."""
        if draws >= self.limit or self.needed >= 1.0 or proves(draws - votes, draws, 1 - self.needed, self.level):
            return True
        return not proves(votes + self.limit - draws, self.limit, self.needed, self.level)


def largest_reachable(sigma: float, alpha: float, draws: int) -> float:
    """Return the largest target that unanimous votes prove within ``draws`` (bisection, rounded down)."""
    low, high = 0.0, radius_ceiling(sigma, draws, alpha)
    for _ in range(40):
        middle = (low + high) / 2
        if TargetRadiusTest(middle, sigma, alpha, draws).reachable:
            low = middle
        else:
            high = middle
    return low
