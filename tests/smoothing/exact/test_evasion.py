"""What an attacker has to reach, and each step of the proof of what it costs at least."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from dualshield.hashes.linear.linear_hash import LinearHash, Rule
from dualshield.images.axes import Matrix
from dualshield.images.space import LUMA
from dualshield.smoothing.exact.evasion import Bound, Evasion
from dualshield.smoothing.exact.rows import Rows
from dualshield.smoothing.exact.soft_distance import probabilities, soft_distance, soft_median

SIZE = 5
SEEDS = st.integers(0, 2**32)
GRID = np.linspace(-9, 9, 1201)


class Problem:
    """A random hash, image, code and sigma; the whole map from pixels is explicit."""

    def __init__(self, seed: int, *, median: bool = True) -> None:
        self.rng = rng = np.random.default_rng(seed)
        mix = rng.normal(size=(int(rng.integers(2, 13)), 6))
        if rng.random() < 0.3:
            mix[-1] = mix[0]  # the correlations are singular
        rule: Rule = "median" if median else "zero"
        self.linear = LinearHash("random", "1", rng.normal(size=(2, SIZE)), rng.normal(size=(3, SIZE)), rule, mix)
        self.rows = Rows.of(self.linear)
        luma = mix @ np.kron(self.linear.vertical, self.linear.horizontal)
        self.map = np.concatenate([weight * luma for weight in LUMA], axis=1)
        self.ones = self.linear.expected_ones
        self.sigma = float(np.exp(rng.uniform(-2, 2)))
        self.coefficients = rng.normal(size=len(mix)) * self.rows.lengths * 2
        self.code = rng.random(len(mix)) < rng.random()

    def evasion(self, limit: float) -> Evasion:
        return Evasion(self.rows, self.coefficients, self.code, limit, self.sigma, self.ones)

    def change(self) -> Matrix:
        """Return a random change of the pixels; often one that moves coefficients as far as it can."""
        size = self.rng.exponential(5.0)
        if self.rng.random() < 0.3:
            noise: Matrix = self.rng.normal(0, size / 5, size=self.map.shape[1:])
            return noise
        toward = np.where(self.code, -1.0, 1.0) * self.rng.random(len(self.code)) / self.rows.lengths
        change: Matrix = toward @ self.map * size
        return change

    def multipliers(self) -> tuple[Matrix, list[list[float]]]:
        p = self.rng.normal(size=len(self.code)) * self.rng.exponential(2.0)
        return p, [np.exp(self.rng.uniform(-4, 4, size=3)).tolist() for _ in range(1 if self.ones is None else 2)]


def flips(evasion: Evasion, coefficients: Matrix, theta: float) -> list[float]:
    """Return the sums over the groups of the probability that a bit is flipped, straight from the definition."""
    one = ndtr((coefficients - theta) / (evasion.sigma * evasion.rows.lengths))
    flipped = np.where(evasion.code, 1 - one, one)
    return [float(flipped[group].sum()) for group in evasion.groups]


def largest(kappa: float, y: Matrix) -> Matrix:
    """Return the largest ``Phi(x) - kappa (x - y)^2`` of a search over x."""
    x = np.concatenate([np.broadcast_to(GRID, (*y.shape, len(GRID))), y[..., None]], axis=-1)
    found: Matrix = (ndtr(x) - kappa * (x - y[..., None]) ** 2).max(-1)
    return found


def right_hand_side(evasion: Evasion, p: Matrix, mu: Sequence[float], thetas: Matrix) -> Matrix:
    """Return the right-hand side of (2) without any slack; a little too high, because E is searched."""
    d, correlations = evasion.rows.floor, evasion.correlations
    w = correlations @ p - p / d
    total = np.full(len(thetas), -float(p @ p - d * p @ correlations @ p) / d)
    margins = np.array([evasion.margins(theta) for theta in thetas.tolist()])
    for group, need, price in zip(evasion.groups, evasion.needs, mu, strict=True):
        if price > 0:
            y = (w - margins)[:, group] / evasion.sigma
            total += price * (need - largest(d * evasion.sigma**2 / price, y).sum(1))
    return total


# -- inequality (1) ------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None, derandomize=True)
@given(SEEDS)
def test_no_change_is_shorter_than_the_quadratic_bound(seed: int) -> None:
    problem = Problem(seed)
    evasion, rows = problem.evasion(1.0), problem.rows
    p, _ = problem.multipliers()
    d, correlations = rows.floor, evasion.correlations
    w = correlations @ p - p / d
    base = float(p @ p - d * p @ correlations @ p) / d

    def bound(change: Matrix) -> float:
        u = evasion.toward * (problem.map @ change) / rows.lengths
        return d * float((u - w) @ (u - w)) - base

    change = problem.change()
    assert float(change @ change) >= bound(change) - 1e-9 * (1 + float(p @ p) + float(change @ change)) / d
    best = (p * evasion.toward / rows.lengths) @ problem.map  # the change for which it is an equality
    assert float(best @ best) == pytest.approx(bound(best), rel=1e-9, abs=1e-9 * (1 + float(p @ p)) / d)


# -- what an attacker has to reach ---------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None, derandomize=True)
@given(SEEDS, st.floats(0, 1))
def test_the_distance_is_above_the_limit_if_and_only_if_both_sums_are_reached_at_some_theta(
    seed: int, part: float
) -> None:
    problem = Problem(seed)
    assert problem.ones is not None
    limit = part * len(problem.code)
    evasion = problem.evasion(limit)
    spread = problem.sigma * problem.rows.lengths
    distance = soft_distance(probabilities(problem.coefficients, spread, problem.ones), problem.code)
    middle = soft_median(problem.coefficients, spread, problem.ones)
    thetas = [middle, *(middle + np.linspace(-5, 5, 81) * spread.max())]
    if min(len(group) for group in evasion.groups) == 0:
        return  # a constant code is at the same distance of every image
    room = [
        min(f - need for f, need in zip(flips(evasion, problem.coefficients, theta), evasion.needs, strict=True))
        for theta in thetas
    ]
    assert room[0] == pytest.approx((distance - limit) / 2, abs=1e-9)
    assert max(room) <= room[0] + 1e-9


@settings(max_examples=100, deadline=None, derandomize=True)
@given(SEEDS, st.floats(0, 1), st.booleans())
def test_a_forced_match_is_an_evasion_of_the_inverted_code(seed: int, part: float, median: bool) -> None:
    problem = Problem(seed, median=median)
    bits = len(problem.code)
    limit = part * bits
    forced = Evasion.forced_match(problem.rows, problem.coefficients, problem.code, limit, problem.sigma, problem.ones)
    found = probabilities(problem.coefficients, problem.sigma * problem.rows.lengths, problem.ones)
    to_code, to_inverse = soft_distance(found, problem.code), soft_distance(found, forced.code)
    assert to_inverse - forced.limit == pytest.approx(limit - to_code, abs=1e-9)
    assert sum(forced.needs) == pytest.approx(bits - limit)
    if problem.ones is not None:
        difference = int((~problem.code).sum()) - problem.ones
        assert forced.needs[0] - forced.needs[1] == pytest.approx(difference, abs=1e-9)


@pytest.mark.parametrize(
    ("ones", "limit", "impossible"),
    [(4, 7.9, False), (4, 8.1, True), (6, 5.9, False), (6, 6.1, True), (2, 5.9, False), (2, 6.1, True), (8, 4.1, True)],
)
def test_a_limit_above_the_largest_distance_of_any_image_is_impossible(
    ones: int, limit: float, impossible: bool
) -> None:
    linear = LinearHash("plain", "1", np.eye(8), np.ones((1, 1)), "median")
    code = np.arange(8) < ones
    evasion = Evasion(Rows.of(linear), np.zeros(8), code, limit, 0.1, 4)
    assert evasion.is_impossible is impossible
    rng = np.random.default_rng(0)
    images = [rng.normal(size=8) for _ in range(50)] + [-1e3 * np.where(code, 1.0, -1.0) + rng.normal(size=8)]
    reached = max(soft_distance(probabilities(image, np.full(8, 0.01), 4), code) for image in images)
    assert (reached <= limit) if impossible else (reached > limit - 1)


# -- inequality (2) ------------------------------------------------------------------------------------------------


@settings(max_examples=250, deadline=None, derandomize=True)
@given(SEEDS, st.booleans())
def test_no_evader_is_shorter_than_the_dual_bound(seed: int, median: bool) -> None:
    problem = Problem(seed, median=median)
    change = problem.change()
    moved = problem.coefficients + problem.map @ change
    # Any theta will do. The limit is what the change just reaches there.
    theta = float(np.median(moved) + problem.rng.normal() * problem.rows.lengths.mean()) if median else 0.0
    sums = flips(problem.evasion(0.0), moved, theta)
    if problem.ones is None:
        limit = sums[0]
    else:
        surplus = int(problem.code.sum()) - problem.ones
        limit = min(2 * sums[0] - surplus, 2 * sums[1] + surplus)
    p, prices = problem.multipliers()
    if problem.rng.random() < 0.5:  # about the best p: that of the change itself
        evasion = problem.evasion(limit)
        u = evasion.toward * (problem.map @ change) / problem.rows.lengths
        p = np.linalg.pinv(evasion.correlations, rcond=1e-9) @ u
    bound = Bound(problem.evasion(limit), p, prices, np.array([theta])).at_thetas
    assert bound.shape == (1,)
    assert float(change @ change) >= bound[0]


def test_the_dual_bound_reaches_the_cost_of_the_cheapest_evader_of_one_bit() -> None:
    linear = LinearHash("one", "1", np.ones((1, 1)), np.ones((1, 1)), "zero")
    rows = Rows.of(linear)
    sigma, margin, need, quantile = 0.5, 2.0, 0.995, 2.575829  # Phi(quantile) = need
    evasion = Evasion(rows, rows.lengths * margin, np.array([True]), need, sigma, None)
    cost = margin + sigma * quantile
    # With this price the slopes of the cost and of the flips are equal there.
    mu = 2 * cost * sigma / float(np.exp(-(quantile**2) / 2) / np.sqrt(2 * np.pi))
    bound = Bound(evasion, np.array([cost]), [[mu]], np.zeros(1)).at_thetas[0]
    assert bound <= cost**2
    assert bound > 0.95 * cost**2


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SEEDS)
def test_the_computed_bound_is_never_above_the_right_hand_side(seed: int) -> None:
    problem = Problem(seed)
    evasion = problem.evasion(problem.rng.uniform(0, len(problem.code)))
    p, prices = problem.multipliers()
    thetas = problem.rng.normal(size=5) * problem.rows.lengths.mean() * 3
    found = Bound(evasion, p, prices, thetas).at_thetas
    exact = np.max([right_hand_side(evasion, p, (a, b), thetas) for a in (0, *prices[0]) for b in (0, *prices[1])], 0)
    slack = 1e-4 * max(max(of_group) for of_group in prices) * len(p)  # the search over x is not exact
    assert (found <= exact + slack).all()


# -- all theta at once ---------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SEEDS, st.floats(0.01, 3))
def test_the_bound_of_a_cell_is_below_the_right_hand_side_everywhere_inside(seed: int, width: float) -> None:
    problem = Problem(seed)
    evasion = problem.evasion(problem.rng.uniform(0, len(problem.code)))
    p, prices = problem.multipliers()
    prices = [of_group[:1] for of_group in prices]
    ends = problem.rng.normal() + np.arange(4) * width * problem.rows.lengths.mean() * problem.sigma
    cells = Bound(evasion, p, prices, ends).cells()
    assert cells.shape == (5,)
    choices = [(a, b) for a in (0, *prices[0]) for b in (0, *prices[1])]

    def best(thetas: Matrix) -> Matrix:
        found: Matrix = np.max([right_hand_side(evasion, p, choice, thetas) for choice in choices], 0)
        return found

    slack = 1e-9 * (1 + float(np.abs(cells).max()))
    for cell, (low, high) in enumerate(pairwise(ends), start=1):
        assert cells[cell] <= best(np.linspace(low, high, 15)).min() + slack
    away = np.array([0, 0.1, 1, 10]) * problem.rows.lengths.max()
    assert cells[0] <= best(ends[0] - away).min() + slack
    assert cells[-1] <= best(ends[-1] + away).min() + slack


def test_between_the_ends_of_a_wide_cell_the_right_hand_side_falls_below_both_ends() -> None:
    """So the bend that is subtracted from the ends is needed; and it is no larger than it has to be."""
    linear = LinearHash("plain", "1", np.eye(2) / np.linalg.norm(LUMA), np.ones((1, 1)), "median")
    # Both bits have to flip nearly for certain: the bound is about the sum of their squared margins, 8 + 2 theta^2.
    evasion = Evasion(Rows.of(linear), np.array([2.0, -2.0]), np.array([True, False]), 1.99, 0.2, 1)
    p, prices, ends = np.zeros(2), [[30.0], [30.0]], np.array([-1.0, 1.0])
    inside = np.linspace(ends[0], ends[1], 41)
    found = Bound(evasion, p, prices, inside).at_thetas
    cell = Bound(evasion, p, prices, ends).cells()[1]
    at_ends = min(found[0], found[-1])
    assert found.min() < at_ends - 1.8
    assert cell <= found.min()
    assert cell >= at_ends - 2 * evasion.rows.floor * np.diff(ends)[0] ** 2 / 4 * (1 + 1e-6)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(SEEDS, st.integers(2, 12))
def test_no_evader_is_shorter_than_the_lowest_cell(seed: int, count: int) -> None:
    problem = Problem(seed)
    assert problem.ones is not None
    change = problem.change()
    moved = problem.coefficients + problem.map @ change
    spread = problem.sigma * problem.rows.lengths
    reached = soft_distance(probabilities(moved, spread, problem.ones), problem.code)
    p, prices = problem.multipliers()
    ends = np.sort(problem.rng.normal(size=count)) * problem.rows.lengths.mean() * problem.rng.exponential(4.0)
    cells = Bound(problem.evasion(reached), p, prices, ends).cells()
    assert float(change @ change) >= cells.min()
