"""Trials decide together, spend alpha once, and say no more than they prove."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import ndtri

from dualshield.smoothing.statistics import Decision
from dualshield.smoothing.trials import Ballot, Outcome, Procedure

ALPHA, MISSED = 0.05, 0.05


class Coins:
    """Votes that match with a fixed probability."""

    def __init__(self, rng: np.random.Generator, p: float) -> None:
        self.rng, self.p, self.drawn = rng, p, 0

    def more(self, count: int) -> int:
        self.drawn += count
        return int(self.rng.binomial(count, self.p))


def opener(rng: np.random.Generator, chances: list[float], log: list[tuple[int, str]]) -> Callable[..., Ballot]:
    def start(trial: int, label: str, most: int) -> Ballot:
        log.append((trial, label))
        return Coins(rng, chances[trial])

    return start


def run(procedure: Procedure, chances: list[float], seed: int) -> Outcome:
    return procedure.decide(opener(np.random.default_rng(seed), chances, []))


def procedure(sigmas: tuple[float, ...], target: float | None, n: int = 400) -> Procedure:
    return Procedure(sigmas, 40, n, ALPHA, target, MISSED)


@pytest.mark.parametrize("target", [None, 0.0, 1.0])
def test_any_trial_makes_a_match_and_it_is_named(target: float | None) -> None:
    for place in range(4):
        chances = [0.02] * 4
        chances[place] = 0.99
        outcome = run(procedure((2.0, 2.0, 1.0, 1.0), target), chances, seed=place)
        assert outcome.certificate.decision is Decision.MATCH
        assert outcome.trial == place
        assert outcome.certificate.radius > 0


@pytest.mark.parametrize("target", [None, 0.0])
def test_a_non_match_has_the_smallest_radius_of_all_trials(target: float | None) -> None:
    outcome = run(procedure((2.0, 2.0, 0.5), target), [0.01, 0.2, 0.01], seed=3)
    assert outcome.certificate.decision is Decision.NO_MATCH
    assert len(outcome.by_trial) == 3
    assert outcome.certificate.radius == min(found.radius for found in outcome.by_trial)
    assert all(found.decision is Decision.NO_MATCH for found in outcome.by_trial)


@pytest.mark.parametrize("target", [None, 0.0])
def test_an_undecided_trial_stands_in_the_way_of_a_non_match(target: float | None) -> None:
    outcomes = [run(procedure((1.0, 1.0), target, n=60), [0.02, 0.49], seed) for seed in range(60)]
    assert any(outcome.certificate.decision is Decision.ABSTAIN for outcome in outcomes)


def test_of_several_matching_trials_the_one_with_the_largest_radius_is_certified() -> None:
    outcome = run(procedure((1.0, 3.0), None), [0.999, 0.95], seed=5)
    assert outcome.trial == 1


def test_certifying_draws_are_not_selecting_draws() -> None:
    for chances in ([0.99, 0.01], [0.01, 0.01]):
        log: list[tuple[int, str]] = []
        procedure((1.0, 1.0), None).decide(opener(np.random.default_rng(0), chances, log))
        assert {label for _, label in log} == {"select", "certify"}
        assert len(log) == len(set(log))


def test_a_clear_match_looks_at_no_other_trial() -> None:
    log: list[tuple[int, str]] = []
    procedure((1.0, 1.0, 1.0), None).decide(opener(np.random.default_rng(0), [0.99, 0.5, 0.5], log))
    assert log == [(0, "select"), (0, "certify")]


def test_draws_of_a_non_match_are_shared() -> None:
    coins: list[Coins] = []
    rng = np.random.default_rng(0)

    def start(trial: int, label: str, most: int) -> Coins:
        coins.append(Coins(rng, 0.01))
        return coins[-1]

    procedure((1.0,) * 4, None).decide(start)
    assert sum(coin.drawn for coin in coins) == 4 * 40 + 400


@pytest.mark.parametrize("target", [None, 0.0, 0.8])
@pytest.mark.parametrize("chances", [[0.5, 0.5, 0.5], [0.45, 0.5, 0.3], [0.5, 0.02, 0.02], [0.02, 0.02, 0.55]])
def test_a_certificate_is_wrong_with_probability_alpha_at_most(target: float | None, chances: list[float]) -> None:
    """The claimed bound of the claimed trial (of a non-match, of any trial) exceeds the truth in at most alpha runs."""
    sigmas = (2.0, 1.0, 1.0)
    runs, wrong = 1500, 0
    for seed in range(runs):
        outcome = run(procedure(sigmas, target, n=200), chances, seed)
        found = outcome.certificate
        if found.decision is Decision.MATCH:
            wrong += found.p_lower > chances[outcome.trial]
        elif found.decision is Decision.NO_MATCH:
            wrong += any(each.p_lower > 1 - p for each, p in zip(outcome.by_trial, chances, strict=True))
    assert wrong <= runs * ALPHA + 3 * (runs * ALPHA) ** 0.5


@pytest.mark.parametrize("target", [None, 0.0])
@pytest.mark.parametrize("others", [0.02, 0.45, 0.52, 0.6, 0.75])
@pytest.mark.parametrize("matched", [True, False])
def test_the_same_answer_inside_the_detected_radius(target: float | None, others: float, matched: bool) -> None:
    """At the least probability that the detected radius counts on, whatever other trials do, the answer is the same."""
    sigmas = (2.0, 2.0, 1.0)
    found = procedure(sigmas, target, n=400)
    least = found.least(matched=matched, or_abstain=False)
    assert least is not None
    assert 0.5 < least < 0.95
    chances = [others, least, others] if matched else [1 - least] * 3
    answer = Decision.MATCH if matched else Decision.NO_MATCH
    runs = 400
    same = sum(run(found, chances, seed).certificate.decision is answer for seed in range(runs))
    assert same >= runs * (1 - MISSED) - 3 * (runs * MISSED) ** 0.5


def test_the_detected_radius_of_a_non_match_is_that_of_its_weakest_trial() -> None:
    found = procedure((2.0, 1.0), None, n=400)
    outcome = run(found, [0.001, 0.05], seed=1)
    least = found.least(matched=False, or_abstain=False)
    assert least is not None
    each = [
        min(trial.radius, sigma * float(ndtri(trial.p_lower) - ndtri(least)))
        for trial, sigma in zip(outcome.by_trial, (2.0, 1.0), strict=True)
    ]
    assert found.detected(outcome, or_abstain=False) == pytest.approx(min(each))


def test_abstentions_that_count_as_the_answer_give_a_larger_detected_radius() -> None:
    for target in (None, 0.0):
        for chances in ([0.02, 0.99], [0.01, 0.01]):
            found = procedure((1.0, 1.0), target)
            outcome = run(found, chances, seed=2)
            assert found.detected(outcome, or_abstain=True) >= found.detected(outcome, or_abstain=False)


def test_a_match_that_needs_many_draws_for_its_target_is_not_left_for_an_easier_one() -> None:
    """Proven at the large sigma, the match goes on to its target; the small sigma could never reach it."""
    outcome = run(Procedure((5.0, 1.0), 100, 5000, 1e-3, 10.0, 1e-3), [0.9999, 0.9999], seed=0)
    assert outcome.trial == 0
    assert outcome.certificate.radius >= 10.0


def test_one_trial_is_algorithm_2_or_one_sequential_test() -> None:
    log: list[tuple[int, str]] = []
    procedure((1.0,), None).decide(opener(np.random.default_rng(0), [0.01], log))
    assert log == [(0, "select"), (0, "certify")]
    outcome = run(procedure((1.0,), 1.0), [0.001], seed=0)
    assert outcome.certificate.radius >= 1.0  # a single trial proves the target of a non-match too
