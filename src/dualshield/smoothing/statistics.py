"""The statistics behind a certificate. This module does not use torch.

Let F(q) be the probability that one noisy comparison of the query q matches. With Gaussian noise of standard
deviation sigma on the query, Phi^-1(F) is (1/sigma)-Lipschitz in q (l2), so a proven p_lower > 1/2 gives

    R = sigma * Phi^-1(p_lower):     for every ||delta||_2 < R the majority of votes stays on the same side.

The functions below ensure that p_lower is *proven*: wrong with probability at most alpha. That needs i.i.d. votes,
one per query draw, and a sigma chosen without looking at them.

R is about the majority of infinitely many votes. A query inside R is answered with the opposite decision with
probability at most alpha; it may still get an abstention, because its majority can be arbitrarily thin. `detection`
computes how far a finite number of votes still gives the same *answer*.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from scipy.special import betaincinv, ndtr, ndtri

# Inverse functions are exact to about fourteen digits. Bounds are reduced by this fraction and so stay proven.
SAFETY = 1e-12


class Decision(StrEnum):
    """The answer of the smoothed matcher."""

    MATCH = "match"
    NO_MATCH = "no_match"
    ABSTAIN = "abstain"


@dataclass(frozen=True)
class Certificate:
    """A decision and the l2 radius inside which its opposite is excluded (0 on abstention)."""

    decision: Decision
    votes: int  # for the decided class (on abstention: for the class that was tried), among `draws`
    draws: int  # certifying draws only; draws that chose a class or a sigma are not counted
    p_lower: float  # proven lower bound on the probability of the decided class
    radius: float


def clopper_pearson_lower(successes: int, trials: int, alpha: float) -> float:
    """Return the one-sided exact lower bound: P[bound > p] <= alpha for every p (paper, Eq. supp-clopper-pearson)."""
    if successes == 0:
        return 0.0
    return float(betaincinv(successes, trials - successes + 1, alpha)) * (1 - SAFETY)


def certified_radius(p_lower: float, sigma: float) -> float:
    """Return sigma * Phi^-1(p_lower), or 0 if p_lower does not exceed 1/2 (paper, Eq. supp-l2-radius)."""
    return sigma * float(ndtri(p_lower)) if p_lower > 0.5 else 0.0


def probability_for(radius: float, sigma: float) -> float:
    """Return Phi(R / sigma), the match probability that a radius needs."""
    return float(ndtr(radius / sigma))


def radius_ceiling(sigma: float, trials: int, alpha: float) -> float:
    """Return the radius if all votes agree; no fixed-N certificate can be larger."""
    return certified_radius(clopper_pearson_lower(trials, trials, alpha), sigma)


def fixed_certificate(*, matched: bool, votes: int, draws: int, alpha: float, sigma: float) -> Certificate:
    """Certify the selected class from ``draws`` fresh, independent votes (second half of Algorithm 2)."""
    p_lower = clopper_pearson_lower(votes, draws, alpha)
    if not p_lower > 0.5:
        return Certificate(Decision.ABSTAIN, votes, draws, p_lower, 0.0)
    decision = Decision.MATCH if matched else Decision.NO_MATCH
    return Certificate(decision, votes, draws, p_lower, certified_radius(p_lower, sigma))
