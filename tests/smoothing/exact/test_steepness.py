"""The cheap bound: no soft distance changes faster, along gradients or between any two images."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

from dualshield.hashes.linear.linear_hash import Rule
from dualshield.smoothing.exact.rows import Rows
from dualshield.smoothing.exact.soft_distance import gradient
from dualshield.smoothing.exact.steepness import cheap_radii, steepness
from tests.smoothing.exact.test_certificate import SEEDS, Attack, pdq_soft, photo, plain_hash, random_case


def of(soft: object) -> float:
    return steepness(soft.rows, soft.sigma, by_median=soft.ones is not None)  # type: ignore[attr-defined]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(SEEDS)
@pytest.mark.parametrize("rule", ["median", "zero"])
def test_no_gradient_is_steeper(rule: Rule, seed: int) -> None:
    soft, coefficients, code, limit = random_case(seed, rule)
    attack = Attack(soft, coefficients, code, limit)
    rng = np.random.default_rng(seed)
    change = np.zeros(attack.map.shape[1])
    for _ in range(12):  # walk to where it is steep: near the boundary of many bits
        slope = attack.gradient(change)
        assert float(np.linalg.norm(slope)) <= of(soft)
        change = change + rng.normal(size=len(change)) * soft.sigma * rng.uniform(0, 1)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(SEEDS)
@pytest.mark.parametrize("rule", ["median", "zero"])
def test_no_difference_of_two_images_is_larger(rule: Rule, seed: int) -> None:
    soft, coefficients, code, limit = random_case(seed, rule)
    attack = Attack(soft, coefficients, code, limit)
    rng = np.random.default_rng(seed)
    for size in np.exp(rng.uniform(-4, 3, size=8)):
        one, other = rng.normal(size=(2, attack.map.shape[1])) * soft.sigma * size
        apart = abs(soft.distance(attack.moved(one), code) - soft.distance(attack.moved(other), code))
        assert apart <= of(soft) * float(np.linalg.norm(one - other)) + 1e-9


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SEEDS)
@pytest.mark.parametrize("rule", ["median", "zero"])
def test_no_attack_is_shorter_than_the_cheap_radius(rule: Rule, seed: int) -> None:
    soft, coefficients, code, limit = random_case(seed, rule)
    away = np.array([abs(soft.distance(coefficients, code) - limit)])
    (radius,) = cheap_radii(soft.rows, soft.sigma, away, by_median=rule == "median")
    assert radius <= Attack(soft, coefficients, code, limit).shortest(np.random.default_rng(seed))


def test_rows_of_different_lengths_are_steeper_with_a_median() -> None:
    """The example in which the bound nearly holds: the short rows' bits pull the median, a long row answers for all."""
    equal, unequal = (Rows.of(plain_hash(lengths)) for lengths in (np.ones(16), np.r_[np.ones(8), 2 * np.ones(8)]))
    assert steepness(unequal, 1.0, by_median=True) > steepness(equal, 1.0, by_median=True)
    assert steepness(equal, 1.0, by_median=True) == pytest.approx(4 / math.sqrt(2 * math.pi))
    assert steepness(equal, 0.5, by_median=False) == pytest.approx(8 / math.sqrt(2 * math.pi))


def test_the_bound_is_reached_where_all_bits_are_on_the_boundary() -> None:
    linear = plain_hash(np.ones(16))
    code = np.arange(16) % 2 == 0
    value, slopes = gradient(np.zeros(16), np.ones(16), 8, code)
    assert value == pytest.approx(8)
    assert float(np.linalg.norm(slopes)) == pytest.approx(steepness(Rows.of(linear), 1.0, by_median=True))


def test_it_is_within_a_few_times_the_slope_of_photos() -> None:
    soft = pdq_soft(1.0)
    coefficients = photo(np.random.default_rng(1))
    slope = Attack(soft, coefficients, soft.code(coefficients), 60.0).gradient(np.zeros(256))
    assert of(soft) < 5 * float(np.linalg.norm(slope))
