"""Votes looked at while they come in: exact failure probabilities, and decisions whenever there is one."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from dualshield.smoothing.sequential import (
    LARGEST_LEVEL,
    TargetRadiusTest,
    anytime_lower,
    largest_reachable,
    log_evidence,
    looks,
    proves,
)
from dualshield.smoothing.statistics import Certificate, Decision, clopper_pearson_lower, probability_for


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


def run_of(votes: np.ndarray, target: float, alpha: float) -> Certificate:
    """What the test says of these votes, in this order."""
    test = TargetRadiusTest(target, 1.0, alpha, len(votes))
    matches = np.cumsum(votes)
    for draws in looks(len(votes)):
        found = test.look(int(matches[draws - 1]), draws)
        if found is not None:
            return found
    raise AssertionError("it always ends at its limit")


def repeated(p: float, n: int) -> np.ndarray:
    """Votes spread as evenly as whole numbers allow."""
    return np.asarray(np.diff(np.floor(p * np.arange(n + 1) + 1e-9)) > 0)


class Exactly:
    """The whole sequential procedure as a Markov chain over (votes, answer): every outcome with its probability."""

    def __init__(self, target: float, alpha: float, limit: int) -> None:
        self.target, self.alpha, self.limit = target, alpha, limit

    def outcomes(self, p: float) -> list[tuple[float, Certificate]]:
        """(probability, certificate) of every way it can end; sums to one."""
        # A state is what the test has latched so far (nothing, or a class at some look) and the matches.
        alive: dict[tuple[tuple[int, int] | None, int], float] = {(None, 0): 1.0}
        ended = []
        before = 0
        for draws in looks(self.limit):
            steps = binom.pmf(np.arange(draws - before + 1), draws - before, p)
            moved: dict[tuple[tuple[int, int] | None, int], float] = {}
            for (latched, matches), mass in alive.items():
                for added, share in enumerate(steps):
                    key = (latched, matches + added)
                    moved[key] = moved.get(key, 0.0) + mass * share
            alive, before = {}, draws
            for (latched, matches), mass in moved.items():
                test = TargetRadiusTest(self.target, 1.0, self.alpha, self.limit)
                if latched is not None:
                    test.look(*latched)  # what it knew already
                found = test.look(matches, draws)
                if found is not None:
                    ended.append((mass, found))
                    continue
                if latched is None and test._answer is not None:
                    latched = (matches, draws)
                alive[latched, matches] = alive.get((latched, matches), 0.0) + mass
        return ended


@pytest.mark.parametrize("target", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("p", [0.5, 0.52, 0.6, 0.7, probability_for(1.0, 1.0), 0.95])
def test_the_whole_procedure_is_wrong_at_most_alpha_summed_over_all_outcomes(target: float, p: float) -> None:
    alpha, limit = 0.2, 96
    ended = Exactly(target, alpha, limit).outcomes(p)
    assert sum(mass for mass, _ in ended) == pytest.approx(1.0)
    # A claim about a class is wrong where its probability is not above what was claimed, boundary included.
    truth = {Decision.MATCH: p, Decision.NO_MATCH: 1 - p}
    wrong = 0.0
    for mass, found in ended:
        if found.decision is Decision.ABSTAIN:
            assert (found.radius, found.p_lower) == (0.0, 0.0)
            continue
        true_radius = norm.ppf(truth[found.decision])
        wrong += mass * (found.p_lower >= truth[found.decision] or found.radius >= true_radius > 0)
    assert wrong <= alpha
    if p == 0.5:
        assert wrong > alpha / 100  # not vacuous: at the boundary it does err


def test_the_largest_level_keeps_its_promise_too() -> None:
    ended = Exactly(0.0, 0.9, 24).outcomes(0.5)  # both classes get a quarter, not 0.45
    assert sum(mass for mass, found in ended if found.decision is not Decision.ABSTAIN) <= 2 * LARGEST_LEVEL


@given(st.integers(1, 400), st.data(), st.sampled_from([0.25, 0.05, 1e-3, 1e-6]))
@settings(max_examples=200, deadline=None)
def test_the_bound_is_the_end_of_what_is_disproven(n: int, data: st.DataObject, alpha: float) -> None:
    k = data.draw(st.integers(0, n))
    bound = anytime_lower(k, n, alpha)
    assert 0 <= bound <= k / n
    # All below is disproven, nothing above is: the disproven values are an interval.
    for null in np.linspace(1e-4, 1 - 1e-4, 97):
        if null < bound:
            assert proves(k, n, float(null), alpha)
        elif null > bound + 1e-9:
            assert not proves(k, n, float(null), alpha)


def test_a_bound_at_a_level_it_cannot_have_is_refused() -> None:
    with pytest.raises(ValueError, match="level"):
        anytime_lower(5, 5, 0.5)


@pytest.mark.parametrize("p", [0.3, 0.6, 0.9])
def test_the_bound_is_ever_above_p_at_most_alpha_of_the_time_exactly(p: float) -> None:
    alpha, horizon = 0.1, 200
    alive, wrong = np.array([1.0]), 0.0
    for n in range(1, horizon + 1):
        step = np.zeros(n + 1)
        step[:-1] += alive * (1 - p)
        step[1:] += alive * p
        above = np.array([anytime_lower(k, n, alpha) >= p for k in range(n + 1)])
        wrong += step[above].sum()
        alive = np.where(above, 0.0, step)
    assert alpha / 50 < wrong <= alpha


def test_it_stops_early_where_the_answer_is_clear() -> None:
    def draws(p: float, target: float) -> int:
        return run_of(repeated(p, 5000), target, 1e-3).draws

    assert draws(1.0, 0.0) == 16  # fourteen prove it, and every fourth is a look
    assert draws(0.0, 0.0) == 16
    assert draws(1.0, 1.0) <= 64
    assert draws(1.0, 2.0) < 600
    assert draws(0.8, 1.5) < 150  # out of reach: given up, not drawn to the end


def test_a_target_that_is_proven_is_the_least_that_is_claimed() -> None:
    found = run_of(np.ones(5000, dtype=bool), 1.0, 1e-3)
    assert found.decision is Decision.MATCH
    assert 1.0 <= found.radius < 1.3
    assert found.p_lower >= norm.cdf(1.0)


def test_a_target_out_of_reach_still_leaves_a_decision_with_what_radius_there_is() -> None:
    for p, decision in ((0.8, Decision.MATCH), (0.2, Decision.NO_MATCH)):
        found = run_of(repeated(p, 5000), 1.5, 1e-3)  # the true radius is 0.84
        assert found.decision is decision
        assert 0.2 < found.radius < norm.ppf(0.8)


def test_a_target_that_no_votes_could_prove_leaves_a_decision() -> None:
    found = run_of(np.ones(200, dtype=bool), 50.0, 1e-3)
    assert found.decision is Decision.MATCH
    assert 0 < found.radius < 50


def test_draws_that_are_spent_leave_a_decision() -> None:
    found = run_of(repeated(0.75, 200), 0.6, 1e-3)
    assert (found.decision, found.draws) == (Decision.MATCH, found.draws)
    assert 0 < found.radius < 0.6


def test_only_votes_near_one_half_end_in_an_abstention() -> None:
    for target in (0.0, 0.5):
        found = run_of(repeated(0.5, 1000), target, 1e-3)
        assert (found.decision, found.radius, found.draws) == (Decision.ABSTAIN, 0.0, 1000)
        assert run_of(repeated(0.6, 1000), target, 1e-3).decision is Decision.MATCH


def test_an_answer_once_proven_is_kept_whatever_comes() -> None:
    votes = np.concatenate([np.ones(20, dtype=bool), np.zeros(180, dtype=bool)])
    found = run_of(votes, 0.8, 1e-3)  # the target keeps it drawing
    assert found.decision is Decision.MATCH
    assert found.p_lower >= 0.5


def test_it_looks_often_at_first_and_always_at_the_end() -> None:
    found = list(looks(1000))
    assert found[:4] == [4, 8, 12, 16]
    assert found[-1] == 1000
    assert all(0 < later - earlier <= 32 for earlier, later in pairwise(found))
    assert list(looks(1)) == [1]
    assert list(looks(66)) == [*range(4, 65, 4), 66]


def test_reachability_is_the_limit_of_unanimous_votes() -> None:
    largest = largest_reachable(1.0, 1e-3, 500)
    assert TargetRadiusTest(largest, 1.0, 1e-3, 500).reachable
    assert not TargetRadiusTest(largest + 1e-6, 1.0, 1e-3, 500).reachable
    assert not TargetRadiusTest(50.0, 1.0, 1e-3, 10**6).reachable
