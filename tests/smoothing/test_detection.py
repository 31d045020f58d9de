"""How far a matcher keeps answering: against exact sums and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from dualshield.smoothing.detection import HORIZON, detected_radius, least_for_fixed, least_for_sequential
from dualshield.smoothing.sequential import TargetRadiusTest, looks
from dualshield.smoothing.statistics import Decision, fixed_certificate

ALPHA, MISSED = 0.01, 0.01


def fixed_answer(p: float, n0: int, n: int) -> dict[Decision, float]:
    """Probabilities of the three answers of Algorithm 2, by summing over all outcomes."""
    found = dict.fromkeys(Decision, 0.0)
    for k0 in range(n0 + 1):
        matched = 2 * k0 > n0
        for k in range(n + 1):
            votes = k if matched else n - k
            decision = fixed_certificate(matched=matched, votes=votes, draws=n, alpha=ALPHA, sigma=1.0).decision
            found[decision] += binom.pmf(k0, n0, p) * binom.pmf(k, n, p)
    return found


@pytest.mark.parametrize("n0", [9, 10])
@pytest.mark.parametrize("decision", [Decision.MATCH, Decision.NO_MATCH])
@pytest.mark.parametrize("or_abstain", [False, True])
def test_the_least_probability_for_fixed_draws_is_exact(n0: int, decision: Decision, or_abstain: bool) -> None:
    n, matched = 60, decision is Decision.MATCH
    least = least_for_fixed(n0, n, ALPHA, MISSED, matched=matched, or_abstain=or_abstain)
    assert least is not None

    def answered(p: float) -> float:
        found = fixed_answer(p if matched else 1 - p, n0, n)
        return found[decision] + (found[Decision.ABSTAIN] if or_abstain else 0.0)

    assert answered(least) >= 1 - MISSED - 1e-9
    if least > 0.5:
        assert answered(least - 1e-3) < 1 - MISSED
    assert all(answered(p) >= 1 - MISSED for p in np.linspace(least + 1e-6, 1, 8))  # and for every larger one


def test_it_holds_for_alphas_at_which_less_than_half_of_the_votes_certify() -> None:
    n0, n, alpha, missed = 10, 99, 0.9, 1e-3
    least = least_for_fixed(n0, n, alpha, missed, matched=True, or_abstain=True)
    assert least is not None
    opposite = sum(
        binom.pmf(k, n, least)
        for k in range(n + 1)
        if fixed_certificate(matched=False, votes=n - k, draws=n, alpha=alpha, sigma=1.0).decision is Decision.NO_MATCH
    )
    assert 1 - opposite * binom.cdf(n0 // 2, n0, least) >= 1 - missed - 1e-9


def sequential_answers(p: float, limit: int, target: float, runs: int) -> dict[Decision, float]:
    rng = np.random.default_rng(5)
    found = dict.fromkeys(Decision, 0)
    for votes in rng.random((runs, limit)) < p:
        test, matches = TargetRadiusTest(target, 1.0, ALPHA, limit), np.cumsum(votes)
        found[next(c.decision for n in looks(limit) if (c := test.look(int(matches[n - 1]), n)) is not None)] += 1
    return {decision: count / runs for decision, count in found.items()}


@pytest.mark.parametrize("target", [0.0, 0.7])
def test_the_least_probability_for_sequential_draws_is_that_of_simulated_runs(target: float) -> None:
    limit, missed, runs = 160, 0.1, 1500
    least = least_for_sequential(limit, ALPHA, missed, or_abstain=False)
    assert least is not None
    spread = 4 * math.sqrt(missed * (1 - missed) / runs)
    found = sequential_answers(least, limit, target, runs)[
        Decision.MATCH
    ]  # whatever the target, which is no part of it
    assert found == pytest.approx(1 - missed, abs=spread)


def test_more_draws_and_larger_risks_need_less() -> None:
    few, many = (least_for_sequential(n, 1e-3, 1e-3, or_abstain=False) for n in (500, 5000))
    assert few is not None
    assert many is not None
    assert 0.5 < many < few
    strict = least_for_sequential(500, 1e-6, 1e-3, or_abstain=False)
    assert strict is not None
    assert few < strict


def test_abstentions_that_count_as_the_answer_need_no_majority_to_spare() -> None:
    for n in (500, 10 * HORIZON):
        assert least_for_sequential(n, 1e-3, 1e-3, or_abstain=True) == 0.5
    assert least_for_fixed(100, 5000, 1e-3, 1e-3, matched=True, or_abstain=True) == 0.5
    # Not so where wrong answers alone are more than may be missed.
    loose = least_for_sequential(500, 0.2, 1e-3, or_abstain=True)
    assert loose is not None
    assert loose > 0.5


def test_beyond_the_horizon_only_what_is_certain_counts() -> None:
    near, far = (least_for_sequential(n, 1e-3, 1e-3, or_abstain=False) for n in (HORIZON, 100 * HORIZON))
    assert near == far


def test_too_few_draws_for_any_proof_are_never_enough() -> None:
    assert least_for_sequential(8, 1e-3, 1e-3, or_abstain=False) is None
    assert least_for_fixed(100, 5, 1e-3, 1e-3, matched=True, or_abstain=False) is None
    assert detected_radius(0.999, None, 1.0) == 0.0


def test_the_radius_is_where_the_probability_is_left() -> None:
    assert detected_radius(0.999, 0.6, 2.0) == pytest.approx(2 * (norm.ppf(0.999) - norm.ppf(0.6)))
    assert detected_radius(0.55, 0.6, 2.0) == 0.0
