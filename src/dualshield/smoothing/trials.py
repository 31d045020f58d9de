"""Decide between several trials of one query, and certify the answer.

A trial is one way to compare: one view of the query under noise of one sigma. Each trial has its own votes, and the
pair matches if the majority of any trial does. So

* a match needs one trial: its radius is that trial's, whatever happens to the others;
* a non-match needs all trials: its radius is the smallest of theirs.

The error probability alpha is spent once. With a fixed number of draws, separate draws select what is claimed: either
the match of one trial, certified with all of alpha, or the non-match of all ``k`` trials, each certified with alpha/k.
With a target radius every trial has its own sequential test at level alpha/k. The p_lower of a certificate holds at the
level it was certified with. One trial is exactly the paper's Algorithm 2, or one sequential test. This module does not
use torch.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Protocol

import numpy as np
from scipy.special import betainc, ndtri

from dualshield.smoothing.detection import (
    at_least,
    detected_radius,
    least_above,
    least_for_fixed,
    least_for_sequential,
)
from dualshield.smoothing.sequential import TargetRadiusTest, looks
from dualshield.smoothing.statistics import Certificate, Decision, clopper_pearson_lower, fixed_certificate

# Of several trials, one is claimed to match if this part of its selecting votes does, or failing that a majority.
QUALIFIES = 0.75
CLEAR = 0.9  # no further trial is looked at behind one of the largest sigma with this many matching votes
FIRST_ROUND = 64  # draws of a trial before others are tried


class Ballot(Protocol):
    """Fresh i.i.d. votes of one trial."""

    def more(self, count: int) -> int:
        """Draw ``count`` more votes, and return how many match."""
        ...


Open = Callable[[int, str, int], Ballot]
"""``open(trial, label, most)`` starts a new stream of at most that many votes of a trial."""


@dataclass(frozen=True)
class Outcome:
    """The certificate of a query, and the trial that it is about.

    Of a non-match that is the trial with the smallest radius; ``by_trial`` has the certificates of all trials.
    """

    certificate: Certificate
    trial: int
    by_trial: tuple[Certificate, ...]


@dataclass(frozen=True)
class Procedure:
    """How trials are drawn and certified, the same for every query."""

    sigmas: tuple[float, ...]  # of each trial, in the order in which they are tried
    n0: int
    n: int
    alpha: float
    target: float | None
    missed: float  # probability of another answer inside the detected radius

    @property
    def count(self) -> int:
        """The number of trials."""
        return len(self.sigmas)

    @property
    def share(self) -> int:
        """The draws that each trial gets to certify a non-match with a fixed number of draws."""
        return max(1, self.n // self.count)

    def decide(self, open_: Open) -> Outcome:
        """Decide one query and certify the decision."""
        return self._fixed(open_) if self.target is None else self._sequential(open_, self.target)

    # -- a fixed number of draws -------------------------------------------------------------------

    def _fixed(self, open_: Open) -> Outcome:
        chosen = self._select(open_)
        if chosen is not None:
            votes = open_(chosen, "certify", self.n).more(self.n)
            return _of_one(self._certify(chosen, votes, self.n, self.alpha, matched=True), chosen)
        found = []
        for trial in range(self.count):
            votes = self.share - open_(trial, "certify", self.share).more(self.share)
            found.append(self._certify(trial, votes, self.share, self.alpha / self.count, matched=False))
        return _weakest(found)

    def _select(self, open_: Open) -> int | None:
        """Return the trial to certify as a match, or None to certify the non-match of all."""
        shares: list[float] = []
        for trial, sigma in enumerate(self.sigmas):
            shares.append(open_(trial, "select", self.n0).more(self.n0) / self.n0)
            if shares[-1] >= CLEAR and sigma == max(self.sigmas):
                break
        for least_share in (QUALIFIES, np.nextafter(0.5, 1)):
            candidates = [trial for trial, share in enumerate(shares) if share >= least_share]
            if candidates:
                # Votes that all agree still leave room for a few that do not.
                most = 1 - 0.5 / self.n0
                return max(candidates, key=lambda trial: self.sigmas[trial] * ndtri(min(shares[trial], most)))
        return None

    def _certify(self, trial: int, votes: int, draws: int, alpha: float, *, matched: bool) -> Certificate:
        return fixed_certificate(matched=matched, votes=votes, draws=draws, alpha=alpha, sigma=self.sigmas[trial])

    # -- a target radius ---------------------------------------------------------------------------

    def _sequential(self, open_: Open, target: float) -> Outcome:
        """Test each trial until its answer is proven; a trial that takes long waits until the others were tried."""
        several = self.count > 1
        tests = [
            _Running(TargetRadiusTest(target, sigma, self.alpha / self.count, self.n, of_matches_only=several), self.n)
            for sigma in self.sigmas
        ]
        for most in (FIRST_ROUND, self.n) if several else (self.n,):
            for trial, test in enumerate(tests):
                found = test.run(partial(open_, trial, "query", self.n), most)
                if found is not None and found.decision is Decision.MATCH:
                    return _of_one(found, trial)
        return _weakest([test.found for test in tests if test.found is not None])

    # -- the detected radius -----------------------------------------------------------------------

    def detected(self, outcome: Outcome, *, or_abstain: bool) -> float:
        """Return the radius within which the same procedure still gives the same answer (`detection`).

        ``or_abstain``: the deployment reports abstentions as this answer.
        """
        found = outcome.certificate
        if found.radius <= 0:
            return 0.0
        matched = found.decision is Decision.MATCH
        least_p = self.least(matched=matched, or_abstain=or_abstain)
        trials = [outcome.trial] if matched else range(self.count)
        return min(
            min(each.radius, detected_radius(each.p_lower, least_p, self.sigmas[trial]))
            for trial, each in zip(trials, outcome.by_trial, strict=True)
        )

    def least(self, *, matched: bool, or_abstain: bool) -> float | None:
        """Return the least vote probability of a trial at which the whole procedure gives the answer."""
        count = self.count
        if self.target is not None:
            # A match of this trial is proven by its own test, or another trial's match came first.
            missed = self.missed if matched else self.missed / count
            return least_for_sequential(self.n, self.alpha / count, missed, or_abstain=or_abstain)
        if count == 1:
            return least_for_fixed(self.n0, self.n, self.alpha, self.missed, matched=matched, or_abstain=or_abstain)
        if matched and not or_abstain:
            return _least_for_chosen(self.n0, self.n, self.alpha, self.missed, count)
        # What remains is excluded by this trial alone (a certified non-match needs all), or summed over all trials.
        draws, alpha = (self.share, self.alpha / count) if matched or not or_abstain else (self.n, self.alpha)
        missed = self.missed if matched else self.missed / count
        return least_for_fixed(self.n0, draws, alpha, missed, matched=matched, or_abstain=or_abstain)


class _Running:
    """A sequential test that can be interrupted and continued."""

    def __init__(self, test: TargetRadiusTest, limit: int) -> None:
        self.test, self.limit = test, limit
        self.found: Certificate | None = None
        self._looks = looks(limit)
        self._ballot: Ballot | None = None
        self._matches = self._draws = 0

    def run(self, open_: Callable[[], Ballot], most: int) -> Certificate | None:
        """Go on until the test ends or has ``most`` draws; return the certificate once there is one.

        A proven match is the answer: its test goes on for the target radius, however many draws that takes.
        """
        if self._ballot is None:
            self._ballot = open_()
        while self.found is None and (self._draws < most or self.test.answer is Decision.MATCH):
            draws = next(self._looks)
            self._matches += self._ballot.more(draws - self._draws)
            self._draws = draws
            self.found = self.test.look(self._matches, draws)
        return self.found


def _of_one(found: Certificate, trial: int) -> Outcome:
    return Outcome(found, trial, (found,))


def _weakest(found: Sequence[Certificate]) -> Outcome:
    """Return the outcome of trials without a match: an abstention if there is one, or the smallest radius."""
    trial = min(range(len(found)), key=lambda i: (found[i].decision is not Decision.ABSTAIN, found[i].radius))
    return Outcome(found[trial], trial, tuple(found))


@lru_cache(maxsize=64)
def _least_for_chosen(n0: int, n: int, alpha: float, missed: float, count: int) -> float | None:
    """The least p of one trial at which a match is answered with probability 1 - ``missed``, with ``count`` trials.

    This trial qualifies by its selecting votes, except with a small probability. Then whichever trial is chosen has
    qualified, and is certified: this one because its p is large, another one unless it qualified by luck.
    """
    certifies = bisect_left(range(n + 1), True, key=lambda k: clopper_pearson_lower(k, n, alpha) > 0.5)
    qualifies = math.ceil(QUALIFIES * n0)
    lucky = (count - 1) * _by_luck(n0, qualifies, n, certifies)

    def answers(p: float) -> float:
        return at_least(qualifies, n0, p) + at_least(certifies, n, p) - 1 - lucky

    return least_above(answers, missed)


def _by_luck(n0: int, qualifies: int, n: int, certifies: int) -> float:
    """The largest probability, over all p, that a trial qualifies and is then not certified."""
    if certifies > n:
        return 1.0
    # The first probability rises with p and the second falls: over a cell both are largest at an end.
    p = np.linspace(0, 1, 2001)
    qualified = betainc(qualifies, n0 - qualifies + 1, p)
    failed = 1 - betainc(certifies, n - certifies + 1, p)
    return float((qualified[1:] * failed[:-1]).max())
