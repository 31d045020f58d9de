"""The bounds behind a certificate: against scipy, by property, and by exact and simulated coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, norm

from dualshield.smoothing.statistics import (
    Decision,
    TargetRadiusTest,
    certified_radius,
    clopper_pearson_lower,
    fixed_certificate,
    log_evidence,
    probability_for,
    proves,
    radius_ceiling,
)

ALPHAS = st.sampled_from([0.1, 0.01, 1e-3, 1e-6])


@given(st.integers(1, 3000), st.data(), ALPHAS)
@settings(max_examples=100, deadline=None)
def test_clopper_pearson_agrees_with_scipy(n: int, data: st.DataObject, alpha: float) -> None:
    k = data.draw(st.integers(0, n))
    # binomtest's "greater" interval is the one-sided bound at the same confidence.
    expected = binomtest(k, n, alternative="greater").proportion_ci(1 - alpha, method="exact").low
    assert clopper_pearson_lower(k, n, alpha) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(st.integers(1, 2000), st.data(), ALPHAS)
@settings(max_examples=100, deadline=None)
def test_clopper_pearson_is_monotone(n: int, data: st.DataObject, alpha: float) -> None:
    k = data.draw(st.integers(0, n))
    bound = clopper_pearson_lower(k, n, alpha)
    assert 0 <= bound <= k / n
    if k < n:
        assert clopper_pearson_lower(k + 1, n, alpha) > bound  # more votes
    if k:
        assert clopper_pearson_lower(k, n, alpha / 10) < bound  # less risk
        assert clopper_pearson_lower(2 * k, 2 * n, alpha) > bound  # more draws at the same rate


@given(st.floats(0.01, 0.99), st.integers(1, 400), ALPHAS)
@settings(max_examples=200, deadline=None)
def test_fixed_bound_is_wrong_at_most_alpha_of_the_time_exactly(p: float, n: int, alpha: float) -> None:
    counts = np.arange(n + 1)
    wrong = np.array([clopper_pearson_lower(int(k), n, alpha) > p for k in counts])
    assert binom.pmf(counts, n, p)[wrong].sum() <= alpha * (1 + 1e-9)


def test_fixed_bound_coverage_simulated_at_the_certificate_boundary() -> None:
    rng = np.random.default_rng(2026)
    alpha, n, runs = 0.05, 200, 20_000
    # p = 1/2 is where a wrong bound turns into a wrong certificate.
    votes = rng.binomial(n, 0.5, runs)
    certified = np.array(
        [fixed_certificate(matched=True, votes=int(k), draws=n, alpha=alpha, sigma=1.0) for k in votes]
    )
    wrong = np.mean([certificate.decision is Decision.MATCH for certificate in certified])
    assert 0 < wrong <= alpha + 3 * math.sqrt(alpha * (1 - alpha) / runs)


def exact_false_proof(p: float, null: float, alpha: float, horizon: int) -> float:
    """P[the sequential test ever claims p > null within the horizon], by dynamic programming over the votes."""
    alive = np.array([1.0])
    false = 0.0
    for n in range(1, horizon + 1):
        step = np.zeros(n + 1)
        step[:-1] += alive * (1 - p)
        step[1:] += alive * p
        claims = np.array([proves(k, n, null, alpha) for k in range(n + 1)])
        false += step[claims].sum()
        alive = np.where(claims, 0.0, step)
    return float(false)


@pytest.mark.parametrize("null", [0.5, probability_for(1.0, 1.0), probability_for(2.0, 1.0)])
@pytest.mark.parametrize("below", [0.0, 0.02, 0.2])
def test_sequential_test_is_wrong_at_most_alpha_however_long_it_looks(null: float, below: float) -> None:
    alpha = 0.05
    wrong = exact_false_proof(null - below, null, alpha, horizon=300)
    assert wrong <= alpha
    if below == 0.0:
        assert wrong > alpha / 20  # not vacuous: at the boundary it does err


def test_peeking_at_clopper_pearson_would_break_the_guarantee() -> None:
    # Why a sequential test is needed at all: a fixed-N bound that is looked at after every vote is wrong far
    # more often than alpha.
    alpha, horizon = 0.05, 300
    alive, wrong = np.array([1.0]), 0.0
    for n in range(1, horizon + 1):
        step = np.zeros(n + 1)
        step[:-1] += alive * 0.5
        step[1:] += alive * 0.5
        claims = np.array([clopper_pearson_lower(k, n, alpha) > 0.5 for k in range(n + 1)])
        wrong += step[claims].sum()
        alive = np.where(claims, 0.0, step)
    assert wrong > 2 * alpha


def test_target_radius_test_simulated_coverage_for_both_classes() -> None:
    rng = np.random.default_rng(7)
    alpha, runs, limit = 0.05, 2000, 400
    test = TargetRadiusTest(target=0.5, sigma=1.0, alpha=alpha)
    for p in (test.needed, 1 - test.needed, 0.5):
        wrong = 0
        for votes in rng.random((runs, limit)) < p:
            matches = np.cumsum(votes)
            for n in range(8, limit + 1, 8):
                certificate = test.evaluate(int(matches[n - 1]), n, limit)
                if certificate is not None:
                    # Neither class has a probability above what the target needs: any certificate is wrong.
                    wrong += certificate.decision is not Decision.ABSTAIN
                    break
        assert wrong / runs <= alpha + 3 * math.sqrt(alpha * (1 - alpha) / runs)


@given(st.integers(1, 500), st.data(), st.floats(0.05, 0.99))
@settings(max_examples=200, deadline=None)
def test_evidence_is_the_mixture_likelihood_ratio(n: int, data: st.DataObject, null: float) -> None:
    k = data.draw(st.integers(0, n))
    q = null + (1 - null) * (np.arange(20_000) + 0.5) / 20_000
    log_ratio = k * np.log(q / null) + (n - k) * np.log((1 - q) / (1 - null))
    expected = np.logaddexp.reduce(log_ratio) - math.log(len(q))
    if expected > 0:
        assert log_evidence(k, n, null) == pytest.approx(expected, abs=1e-2)
    else:  # evidence for the null: it may underflow, as long as it never turns into evidence against it
        assert log_evidence(k, n, null) <= 1e-2


def test_radius_is_zero_without_a_majority_and_infinite_never() -> None:
    assert certified_radius(0.5, 1.0) == 0.0
    assert certified_radius(0.3, 1.0) == 0.0
    assert certified_radius(float(norm.cdf(1.5)), 2.0) == pytest.approx(3.0)
    assert math.isfinite(radius_ceiling(1.0, 10**6, 1e-3))


def test_the_papers_ceiling() -> None:
    # 0.2993 in the paper's tables is sigma * Phi^-1(alpha^(1/N)): all 5,000 votes agreed.
    assert radius_ceiling(0.1, 5000, 1e-3) == pytest.approx(0.2993, abs=5e-5)
    assert radius_ceiling(0.1, 5000, 1e-3) == pytest.approx(0.1 * norm.ppf(1e-3 ** (1 / 5000)), rel=1e-9)


def test_fixed_certificate_for_each_decision() -> None:
    match = fixed_certificate(matched=True, votes=990, draws=1000, alpha=1e-3, sigma=0.5)
    assert match.decision is Decision.MATCH
    assert match.radius == pytest.approx(0.5 * norm.ppf(match.p_lower))
    other = fixed_certificate(matched=False, votes=990, draws=1000, alpha=1e-3, sigma=0.5)
    assert (other.decision, other.radius) == (Decision.NO_MATCH, match.radius)
    unsure = fixed_certificate(matched=True, votes=510, draws=1000, alpha=1e-3, sigma=0.5)
    assert (unsure.decision, unsure.radius) == (Decision.ABSTAIN, 0.0)


def test_target_radius_test_stops_early_where_the_answer_is_clear() -> None:
    def draws_until_decided(p: float, target: float) -> int:
        test = TargetRadiusTest(target, sigma=1.0, alpha=1e-3)
        for n in range(1, 5001):
            if test.evaluate(round(p * n), n, 5000) is not None:
                return n
        raise AssertionError

    assert draws_until_decided(1.0, 0.0) == 14
    assert draws_until_decided(0.0, 0.0) == 14
    assert draws_until_decided(1.0, 1.0) < 80
    assert draws_until_decided(1.0, 2.0) < 600
    assert draws_until_decided(0.8, 1.5) < 100  # hopeless: given up, not drawn to the end


def test_target_radius_test_claims_the_target_and_nothing_more() -> None:
    test = TargetRadiusTest(target=1.0, sigma=0.5, alpha=1e-3)
    certificate = test.evaluate(5000, 5000, 5000)
    assert certificate is not None
    assert certificate.radius == 1.0
    assert certificate.p_lower == pytest.approx(norm.cdf(2.0))


def test_reachability_is_the_limit_of_unanimous_votes() -> None:
    test = TargetRadiusTest(target=0.0, sigma=1.0, alpha=1e-3)
    largest = test.largest_reachable(500)
    assert TargetRadiusTest(largest, 1.0, 1e-3).reachable(500)
    assert not TargetRadiusTest(largest + 1e-6, 1.0, 1e-3).reachable(500)
    assert not TargetRadiusTest(50.0, 1.0, 1e-3).reachable(10**6)


def test_the_limit_ends_in_abstention() -> None:
    test = TargetRadiusTest(target=0.0, sigma=1.0, alpha=1e-3)
    certificate = test.evaluate(50, 100, 100)
    assert certificate is not None
    assert (certificate.decision, certificate.radius) == (Decision.ABSTAIN, 0.0)
