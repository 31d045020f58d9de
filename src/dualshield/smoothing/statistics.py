"""The statistics behind a certificate. No torch here: numbers in, numbers out.

Let F(q) be the probability that one noisy comparison of the query q matches. With Gaussian noise of standard
deviation sigma on the query, Phi^-1(F) is (1/sigma)-Lipschitz in q (l2), so a proven p_lower > 1/2 gives

    R = sigma * Phi^-1(p_lower):     no perturbation with ||delta||_2 < R changes the majority decision.

Everything below only has to make sure that p_lower is *proven*: wrong with probability at most alpha. That
needs i.i.d. votes, one per query draw, and a sigma chosen without looking at them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from scipy.special import betaincc, betaincinv, betaln, ndtr, ndtri


class Decision(StrEnum):
    """What the smoothed matcher says."""

    MATCH = "match"
    NO_MATCH = "no_match"
    ABSTAIN = "abstain"


@dataclass(frozen=True)
class Certificate:
    """A decision and the l2 radius inside which it cannot be changed (0 on abstention)."""

    decision: Decision
    votes: int  # for the decided class (on abstention: for the class that was tried), among `draws`
    draws: int  # those that certify; draws that chose a class or a sigma are not among them
    p_lower: float  # proven lower bound on the probability of the decided class
    radius: float


def clopper_pearson_lower(successes: int, trials: int, alpha: float) -> float:
    """One-sided exact lower bound: P[bound > p] <= alpha for every p (paper, Eq. supp-clopper-pearson)."""
    if successes == 0:
        return 0.0
    return float(betaincinv(successes, trials - successes + 1, alpha))


def certified_radius(p_lower: float, sigma: float) -> float:
    """sigma * Phi^-1(p_lower), or 0 where the bound does not reach a majority (paper, Eq. supp-l2-radius)."""
    return sigma * float(ndtri(p_lower)) if p_lower > 0.5 else 0.0


def probability_for(radius: float, sigma: float) -> float:
    """Phi(R / sigma): the match probability that a radius needs."""
    return float(ndtr(radius / sigma))


def radius_ceiling(sigma: float, trials: int, alpha: float) -> float:
    """The radius when all votes agree; no fixed-N certificate can be larger."""
    return certified_radius(clopper_pearson_lower(trials, trials, alpha), sigma)


def fixed_certificate(*, matched: bool, votes: int, draws: int, alpha: float, sigma: float) -> Certificate:
    """The second half of Algorithm 2: certify the selected class from ``draws`` fresh, independent votes."""
    p_lower = clopper_pearson_lower(votes, draws, alpha)
    if p_lower <= 0.5:
        return Certificate(Decision.ABSTAIN, votes, draws, p_lower, 0.0)
    decision = Decision.MATCH if matched else Decision.NO_MATCH
    return Certificate(decision, votes, draws, p_lower, certified_radius(p_lower, sigma))


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


@dataclass(frozen=True)
class TargetRadiusTest:
    """Prove a radius asked for, for either class, and stop as soon as it is proven or hopeless.

    Each class gets alpha/2, so that a wrong certificate of either kind has probability at most alpha. Giving up
    needs no proof: it only leads to an abstention.
    """

    target: float
    sigma: float
    alpha: float

    @property
    def needed(self) -> float:
        """The probability the decided class must exceed."""
        return probability_for(self.target, self.sigma)

    def reachable(self, draws: int) -> bool:
        """Whether unanimous votes could prove the target within ``draws``."""
        return self.needed < 1.0 and proves(draws, draws, self.needed, self.alpha / 2)

    def largest_reachable(self, draws: int) -> float:
        """The largest target that unanimous votes prove within ``draws`` (bisection, rounded down)."""
        low, high = 0.0, radius_ceiling(self.sigma, draws, self.alpha)
        for _ in range(40):
            middle = (low + high) / 2
            if TargetRadiusTest(middle, self.sigma, self.alpha).reachable(draws):
                low = middle
            else:
                high = middle
        return low

    def evaluate(self, matches: int, draws: int, limit: int) -> Certificate | None:
        """The certificate, an abstention when hopeless or at the limit, or None to go on drawing."""
        level, needed = self.alpha / 2, self.needed
        others = draws - matches
        for decision, votes in ((Decision.MATCH, matches), (Decision.NO_MATCH, others)):
            if proves(votes, draws, needed, level):
                return Certificate(decision, votes, draws, needed, self.target)
        refuted = all(proves(draws - v, draws, 1 - needed, level) for v in (matches, others))
        left = limit - draws
        futile = not any(proves(v + left, limit, needed, level) for v in (matches, others))
        if refuted or futile:
            return Certificate(Decision.ABSTAIN, max(matches, others), draws, 0.0, 0.0)
        return None
