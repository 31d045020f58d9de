"""The smoothed hash in closed form: the soft median, the probabilities and the soft distance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from dualshield.images.axes import Matrix
from dualshield.smoothing.exact.soft_distance import probabilities, soft_distance, soft_median

Case = tuple[Matrix, Matrix, int]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Coefficients, spreads and how many bits are one; heavy tails, ties and spreads of very different sizes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    bits = draw(st.integers(2, 60))
    shape = draw(st.sampled_from(["normal", "heavy", "equal", "two", "few"]))
    coefficients = rng.normal(size=bits) if shape == "normal" else rng.standard_cauchy(size=bits)
    if shape == "equal":
        coefficients = np.full(bits, coefficients[0])
    if shape == "two":
        coefficients = rng.choice(coefficients[:2], size=bits)
    if shape == "few":
        coefficients = rng.choice(coefficients[:3], size=bits) + 1e-3 * rng.normal(size=bits)
    spread = 10 ** draw(st.floats(-4, 3)) * np.exp(draw(st.floats(0, 3)) * rng.normal(size=bits))
    return coefficients, spread, draw(st.sampled_from([bits // 2, 1, bits - 1]))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(cases())
@example((np.array([-1e3, 1e3]), np.array([1e-3, 1e-3]), 1))
@example((np.array([0.0, 0.0]), np.array([1e-6, 1e6]), 1))
@example((np.array([71.6, 11.8, -85.0]), np.array([68.43, 16.27, 6.6]), 1))  # Newton's method goes to and fro
@example((np.array([0.12573022, -0.13210486]), np.array([1e-4, 1e-4]), 1))  # and creeps here
def test_at_the_soft_median_the_probabilities_sum_to_the_number_of_ones(case: Case) -> None:
    coefficients, spread, ones = case
    assert probabilities(coefficients, spread, ones).sum() == pytest.approx(ones, abs=1e-9)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(cases())
def test_the_soft_median_is_the_only_one(case: Case) -> None:
    coefficients, spread, ones = case
    theta = soft_median(coefficients, spread, ones)

    def total(at: float) -> float:
        return float(ndtr((coefficients - at) / spread).sum())

    step = 0.3 * spread.max()
    density = np.exp(-(((coefficients - theta) / spread) ** 2) / 2).max()
    # Between two groups of coefficients that are far apart the sum is level in floating point.
    assert total(theta - step) > ones - 1e-9
    assert total(theta + step) < ones + 1e-9
    if density > 1e-6:
        assert total(theta - step) > ones > total(theta + step)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(cases(), st.floats(-100, 100), st.floats(0.01, 100))
def test_the_probabilities_do_not_change_if_all_coefficients_move_or_stretch(
    case: Case, offset: float, factor: float
) -> None:
    coefficients, spread, ones = case
    before = probabilities(coefficients, spread, ones)
    after = probabilities(factor * (coefficients + offset * spread.max()), factor * spread, ones)
    # Within what the coefficients keep of their digits after the move.
    size = np.abs(coefficients).max() + abs(offset) * spread.max()
    assert after == pytest.approx(before, abs=1e-9 + 1e-14 * size / spread.min())


@settings(max_examples=200, deadline=None, derandomize=True)
@given(cases(), st.integers(0, 2**32), st.booleans())
def test_distances_to_a_code_and_to_its_inverse_sum_to_the_bits(case: Case, seed: int, has_median: bool) -> None:
    coefficients, spread, ones = case
    code = np.random.default_rng(seed).random(len(coefficients)) < 0.5
    found = probabilities(coefficients, spread, ones if has_median else None)
    distance = soft_distance(found, code)
    assert 0 <= distance <= len(code)
    assert distance + soft_distance(found, ~code) == pytest.approx(len(code))
    if has_median:  # a code with k ones too many is at least k away
        assert distance >= abs(int(code.sum()) - ones) - 1e-9
    nearest = soft_distance(found, found > 0.5)
    assert nearest <= distance + 1e-9


@pytest.mark.parametrize("value", [0.0, -3.0, 1e6])
@pytest.mark.parametrize("bits", [2, 16, 256])
def test_a_constant_image_is_half_the_bits_from_every_code(bits: int, value: float) -> None:
    rng = np.random.default_rng(bits)
    found = probabilities(np.full(bits, value), np.full(bits, 0.7), bits // 2)
    for part in (0.0, 0.3, 0.5, 1.0):
        assert soft_distance(found, rng.random(bits) < part) == pytest.approx(bits / 2)


def test_far_from_the_boundary_the_soft_distance_is_the_distance() -> None:
    coefficients = np.array([5.0, -4.0, 3.0, -6.0, 7.0, -8.0])
    code = np.array([True, True, False, False, True, False])
    for ones in (3, None):
        assert soft_distance(probabilities(coefficients, np.full(6, 0.01), ones), code) == pytest.approx(2)


@pytest.mark.parametrize("ones", [6, None])
def test_the_soft_distance_is_the_mean_over_noise_with_theta_held(ones: int | None) -> None:
    rng = np.random.default_rng(4)
    coefficients, spread, code = rng.normal(size=12), rng.uniform(0.2, 2, size=12), rng.random(12) < 0.5
    theta = 0.0 if ones is None else soft_median(coefficients, spread, ones)
    draws = 200_000
    noisy = coefficients + spread * rng.normal(size=(draws, 12)) > theta
    differing = (noisy != code).sum(1)
    error = 5 * differing.std() / np.sqrt(draws)
    found = soft_distance(probabilities(coefficients, spread, ones), code)
    assert found == pytest.approx(differing.mean(), abs=float(error))
    assert error < 0.03
