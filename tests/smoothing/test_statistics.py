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
    certified_radius,
    clopper_pearson_lower,
    fixed_certificate,
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


def test_radius_is_zero_without_a_majority_and_infinite_never() -> None:
    assert certified_radius(0.5, 1.0) == 0.0
    assert certified_radius(0.3, 1.0) == 0.0
    assert certified_radius(float(norm.cdf(1.5)), 2.0) == pytest.approx(3.0)
    assert math.isfinite(radius_ceiling(1.0, 10**6, 1e-3))


def test_the_papers_ceiling() -> None:
    # 0.2993 in the paper's tables is sigma * Phi^-1(alpha^(1/N)): all 5,000 votes agreed.
    assert radius_ceiling(0.1, 5000, 1e-3) == pytest.approx(0.2993, abs=5e-5)
    assert radius_ceiling(0.1, 5000, 1e-3) == pytest.approx(0.1 * norm.ppf(1e-3 ** (1 / 5000)), rel=1e-9)


def test_a_bound_that_is_no_number_decides_nothing() -> None:
    # So small an alpha is refused by the configuration; scipy's inverse gives NaN there.
    found = fixed_certificate(matched=True, votes=3, draws=5, alpha=1e-300, sigma=1.0)
    assert (found.decision, found.radius) == (Decision.ABSTAIN, 0.0)


def test_fixed_certificate_for_each_decision() -> None:
    match = fixed_certificate(matched=True, votes=990, draws=1000, alpha=1e-3, sigma=0.5)
    assert match.decision is Decision.MATCH
    assert match.radius == pytest.approx(0.5 * norm.ppf(match.p_lower))
    other = fixed_certificate(matched=False, votes=990, draws=1000, alpha=1e-3, sigma=0.5)
    assert (other.decision, other.radius) == (Decision.NO_MATCH, match.radius)
    unsure = fixed_certificate(matched=True, votes=510, draws=1000, alpha=1e-3, sigma=0.5)
    assert (unsure.decision, unsure.radius) == (Decision.ABSTAIN, 0.0)
