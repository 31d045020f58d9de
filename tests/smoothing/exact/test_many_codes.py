"""The bound for many codes at once: never above an attack, and not far below the full certificates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from dualshield.hashes.linear.linear_hash import Rule
from dualshield.smoothing.exact.evasion import Bound, Evasion
from dualshield.smoothing.exact.many_codes import ManyCodes
from tests.smoothing.exact.test_certificate import SEEDS, Attack, pdq_soft, photo, random_case


@settings(max_examples=80, deadline=None, derandomize=True)
@given(SEEDS)
@pytest.mark.parametrize("rule", ["median", "zero"])
def test_no_attack_is_shorter_than_the_radius_of_any_code(rule: Rule, seed: int) -> None:
    soft, coefficients, code, _ = random_case(seed, rule)
    rng = np.random.default_rng(seed)
    codes = np.array([code, ~code, *(rng.random((3, len(code))) < rng.random())])
    distances = [soft.distance(coefficients, one) for one in codes]
    limit = min(distances) - float(rng.exponential())
    radii = soft.many_non_matches(coefficients, codes, limit)
    for one, radius in zip(codes, radii, strict=True):
        assert radius <= Attack(soft, coefficients, one, limit).shortest(rng, starts=1, steps=10)


@pytest.mark.parametrize("rule", ["median", "zero"])
@pytest.mark.parametrize("seed", range(30))
def test_it_is_the_bound_of_each_code_with_p_0(seed: int, rule: Rule) -> None:
    soft, coefficients, code, limit = random_case(seed, rule)
    rng = np.random.default_rng(seed)
    codes = np.array([code, rng.random(len(code)) < 0.5])
    sums = 1 if soft.ones is None else 2
    prices = [list(np.exp(rng.normal(size=4)) * soft.sigma) for _ in range(sums)]
    thetas = np.zeros(1) if soft.ones is None else np.sort(rng.normal(size=5)) * soft.spread.mean()
    for kind, many in ((Evasion, ManyCodes), (Evasion.forced_match, ManyCodes.forced_match)):
        found = many(soft.rows, coefficients, codes, limit, soft.sigma, soft.ones).squares(prices, thetas)
        for one, square in zip(codes, found, strict=True):
            evasion = kind(soft.rows, coefficients, one, limit, soft.sigma, soft.ones)
            bound = Bound(evasion, np.zeros(len(one)), prices, thetas)
            expected = bound.at_thetas.max() if soft.ones is None else bound.cells().min()
            assert square == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_for_pdq_it_is_near_the_full_certificates() -> None:
    rng = np.random.default_rng(3)
    soft, coefficients = pdq_soft(1.0), photo(rng, 60.0)
    codes = np.array([rng.permutation(np.arange(256) < 128) for _ in range(20)])
    radii = soft.many_non_matches(coefficients, codes, 60.0)
    full = np.array([soft.certify(coefficients, code, 60.0).radius for code in codes])
    assert (radii <= full * 1.02).all()
    assert (radii > 0.85 * full).all()


def test_a_code_that_matches_has_no_radius() -> None:
    rng = np.random.default_rng(4)
    soft, coefficients = pdq_soft(1.0), photo(rng, 60.0)
    codes = np.array([soft.code(coefficients), ~soft.code(coefficients)])
    radii = soft.many_non_matches(coefficients, codes, soft.distance(coefficients, codes[0]) + 1)
    assert radii[0] == 0
    assert radii[1] > 0
