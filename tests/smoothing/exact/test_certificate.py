"""Exact certificates against attacks on the soft distance itself: no attack is shorter than the radius."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualshield.errors import InputError
from dualshield.hashes.linear import pdq
from dualshield.hashes.linear.linear_hash import Bits, LinearHash, Rule, minus_mean
from dualshield.images.axes import Matrix
from dualshield.images.space import LUMA
from dualshield.smoothing.exact.certificate import SoftHash
from dualshield.smoothing.exact.rows import Rows
from dualshield.smoothing.exact.soft_distance import soft_median

SEEDS = st.integers(0, 2**32)


def plain_hash(lengths: Matrix, rule: Rule = "median") -> LinearHash:
    """Return a hash with orthogonal rows of these lengths: each coefficient is one pixel's luma."""
    return LinearHash("plain", "1", np.diag(lengths) / np.linalg.norm(LUMA), np.ones((1, 1)), rule)


class Attack:
    """Changes of the image, in coordinates in which their l2 is that of the pixels, and what they do to D."""

    def __init__(self, soft: SoftHash, coefficients: Matrix, code: Bits, limit: float) -> None:
        self.soft, self.coefficients, self.code, self.limit = soft, coefficients, code, limit
        values, vectors = np.linalg.eigh(soft.rows.correlations)
        kept = values > 1e-12 * values[-1]
        self.map = vectors[:, kept] * np.sqrt(values[kept]) * soft.rows.lengths[:, None]
        self.matched = self.is_match(np.zeros(self.map.shape[1]))

    def moved(self, change: Matrix) -> Matrix:
        moved: Matrix = self.coefficients + self.map @ change
        return moved

    def is_match(self, change: Matrix) -> bool:
        return self.soft.distance(self.moved(change), self.code) <= self.limit

    def gradient(self, change: Matrix) -> Matrix:
        """Return the gradient of the distance by the change."""
        moved, spread, ones = self.moved(change), self.soft.spread, self.soft.ones
        theta = 0.0 if ones is None else soft_median(moved, spread, ones)
        slopes = np.exp(-(((moved - theta) / spread) ** 2) / 2) / np.sqrt(2 * np.pi) / spread
        by_coefficient = np.where(self.code, -slopes, slopes)
        if ones is not None and slopes.sum() > 0:
            by_coefficient -= slopes * by_coefficient.sum() / slopes.sum()
        gradient: Matrix = by_coefficient @ self.map
        return gradient

    def shortest_multiple(self, change: Matrix) -> float:
        """Return the l2 of about the shortest multiple of a change that changes the decision."""
        longer = next((f for f in (1.0, 1.001, 1.03, 1.3, 2.0) if self.is_match(f * change) != self.matched), None)
        if longer is None or not change.any():
            return math.inf
        low, high = 0.0, longer
        while high - low > 1e-7 * high:
            middle = (low + high) / 2
            if self.is_match(middle * change) == self.matched:
                low = middle
            else:
                high = middle
        return high * float(np.linalg.norm(change))

    def from_start(self, change: Matrix, steps: int) -> float:
        """Go to the nearest point where the distance, made linear, reaches the limit, again and again."""
        for step in range(steps):
            gradient = self.gradient(change)
            square = float(gradient @ gradient)
            if square < 1e-200:
                break
            missing = self.limit - self.soft.distance(self.moved(change), self.code)
            move = gradient * (missing + float(gradient @ change)) / square - change
            most = self.soft.sigma * 2 / (1 + 0.2 * step) + 0.3 * float(np.linalg.norm(change))
            change = change + move * min(1.0, most / max(float(np.linalg.norm(move)), 1e-300))
        return self.shortest_multiple(change)

    def shortest(self, rng: np.random.Generator, starts: int = 2, steps: int = 15) -> float:
        """Return the l2 of the shortest change found that changes the decision."""
        evasion, found = self.soft.attack(self.coefficients, self.code, self.limit)
        inverse = np.linalg.pinv(self.map)
        guesses = [inverse @ (evasion.toward * (evasion.correlations @ found.p) * self.soft.rows.lengths)]
        theta = 0.0 if self.soft.ones is None else soft_median(self.coefficients, self.soft.spread, self.soft.ones)
        up = evasion.toward
        for _ in range(starts):  # move some bits past the boundary
            some = rng.random(len(up)) < rng.uniform(0.2, 1)
            past = rng.uniform(0, 3) * self.soft.spread - up * (self.coefficients - theta)
            guesses.append(inverse @ (up * some * np.maximum(past, 0)))
        both = [f for guess in guesses for f in (self.shortest_multiple(guess), self.from_start(guess, steps))]
        return min(both)


def random_hash(rng: np.random.Generator, rule: Rule) -> LinearHash:
    size, rows, columns = int(rng.integers(4, 9)), int(rng.integers(1, 6)), int(rng.integers(2, 6))
    vertical, horizontal = rng.normal(size=(rows, size)), rng.normal(size=(columns, size))
    mix: Matrix | None = rng.normal(size=(int(rng.integers(2, 25)), rows * columns))
    assert mix is not None
    kind = rng.integers(5)
    if kind == 0:
        mix = None
    elif kind == 1:
        mix = minus_mean(len(mix)) @ mix  # rows sum to zero
    elif kind == 2:
        mix[-1] = mix[0]  # two bits are the same
    elif kind == 3:
        mix = np.exp(rng.normal(size=(len(mix), 1))) * mix
    return LinearHash("random", "1", vertical, horizontal, rule, mix)


def random_case(
    seed: int, rule: Rule, *, sigmas: tuple[float, float] = (-2, 3)
) -> tuple[SoftHash, Matrix, Bits, float]:
    """Return a hash, an image, a code with any number of ones and a limit, often near the distance."""
    rng = np.random.default_rng(seed)
    linear = random_hash(rng, rule)
    rows = Rows.of(linear)
    soft = SoftHash(linear, rows, float(np.exp(rng.uniform(*sigmas))))
    size = soft.sigma * np.exp(rng.uniform(-1, 2))
    heavy = rng.random() < 0.4
    noise = rng.standard_t(2, size=linear.bits) if heavy else rng.normal(size=linear.bits)
    coefficients = noise * size * rows.lengths
    code = soft.code(coefficients) if rng.random() < 0.6 else rng.random(linear.bits) < rng.random()
    code = code ^ (rng.random(linear.bits) < rng.choice([0, 0.2]))
    limit = soft.distance(coefficients, code) + rng.normal() * float(rng.choice([0.1, 1, 4]))
    return soft, coefficients, code, float(rng.choice([limit, limit, np.rint(limit)]))


# -- no attack is shorter ------------------------------------------------------------------------------------------


@settings(max_examples=120, deadline=None, derandomize=True)
@given(SEEDS, st.sampled_from(["median", "zero"]))
def test_no_attack_is_shorter_than_the_radius(seed: int, rule: Rule) -> None:
    soft, coefficients, code, limit = random_case(seed, rule)
    certificate = soft.certify(coefficients, code, limit)
    attack = Attack(soft, coefficients, code, limit)
    assert certificate.matched == attack.matched
    assert certificate.soft_distance == soft.distance(coefficients, code)
    assert attack.shortest(np.random.default_rng(seed)) >= certificate.radius


@settings(max_examples=40, deadline=None, derandomize=True)
@given(SEEDS, st.sampled_from(["median", "zero"]), st.floats(1e-6, 1e-2) | st.floats(30, 1000))
def test_no_attack_is_shorter_than_the_radius_for_extreme_sigmas(seed: int, rule: Rule, sigma: float) -> None:
    soft, coefficients, code, limit = random_case(seed, rule, sigmas=(math.log(sigma), math.log(sigma)))
    radius = soft.certify(coefficients, code, limit).radius
    assert Attack(soft, coefficients, code, limit).shortest(np.random.default_rng(seed)) >= radius


@settings(max_examples=25, deadline=None, derandomize=True)
@given(SEEDS, st.sampled_from(["median", "zero"]), st.booleans())
def test_no_change_in_any_direction_of_a_plane_is_shorter_than_the_radius(
    seed: int, rule: Rule, is_bit_odd: bool
) -> None:
    rng = np.random.default_rng(seed)
    bits = 3 if is_bit_odd else 2
    linear = LinearHash("plane", "1", rng.normal(size=(bits, 2)), np.ones((1, 1)), rule)
    soft = SoftHash(linear, Rows.of(linear), float(np.exp(rng.uniform(-1, 1))))
    coefficients, code = rng.normal(size=bits) * 2, rng.random(bits) < 0.5
    limit = soft.distance(coefficients, code) + rng.uniform(-1, 1)
    radius = soft.certify(coefficients, code, limit).radius
    attack = Attack(soft, coefficients, code, limit)
    length = 0.999999 * min(radius, 50.0)
    for angle in np.linspace(0, 2 * np.pi, 91):
        direction = np.array([np.cos(angle), np.sin(angle)])[: attack.map.shape[1]]
        for part in (0.3, 0.7, 0.9, 1.0):
            assert attack.is_match(part * length * direction) == attack.matched


@cache
def pdq_soft(sigma: float) -> SoftHash:
    linear = pdq.load().with_lowpass(64)
    return SoftHash(linear, Rows.of(linear), sigma)


def photo(rng: np.random.Generator, size: float = 30.0) -> Matrix:
    """Return coefficients like those of photos: large at low frequencies, heavy tails."""
    frequency = np.arange(16, 0, -1)
    decay = (1 / np.hypot(frequency[:, None], frequency)).reshape(-1)
    return rng.standard_t(3, size=256) * decay * size * pdq_soft(1.0).rows.lengths


def test_for_pdq_no_attack_is_shorter_and_the_radius_is_close_to_the_shortest() -> None:
    rng = np.random.default_rng(5)
    ratios = []
    for number in range(10):
        soft = pdq_soft((0.3, 0.7, 1.0)[number % 3])
        coefficients = photo(rng, 60.0)
        other = rng.permutation(np.arange(256) < (128, 120, 150)[number % 3])
        code, limit = (soft.code(coefficients), 60.0) if number % 2 else (other, 90.0)
        certificate = soft.certify(coefficients, code, limit)
        assert certificate.matched == bool(number % 2)
        shortest = Attack(soft, coefficients, code, limit).shortest(rng, starts=0, steps=20)
        assert 0.5 < certificate.radius <= shortest < math.inf
        ratios.append(certificate.radius / shortest)
    assert np.median(ratios) > 0.9
    assert min(ratios) > 0.8


# -- what the radius depends on ------------------------------------------------------------------------------------


def test_the_radius_grows_with_the_room_to_the_limit_on_both_sides() -> None:
    soft = pdq_soft(0.7)
    coefficients = photo(np.random.default_rng(8), 60.0)
    code = soft.code(coefficients)
    distance = soft.distance(coefficients, code)
    matches = [soft.certify(coefficients, code, distance + room) for room in (0.0, 2, 5, 10, 20, 40, 80)]
    others = [soft.certify(coefficients, ~code, 256 - distance - room) for room in (0.01, 2, 5, 10, 20, 40, 80)]
    for found, is_match in ((matches, True), (others, False)):
        radii = [certificate.radius for certificate in found]
        assert {certificate.matched for certificate in found} == {is_match}
        assert radii == sorted(radii)
        assert radii[0] < 0.1
        assert radii[-1] > 3
        assert len(set(radii)) > 5


@pytest.mark.parametrize("rule", ["median", "zero"])
@pytest.mark.parametrize("bits", [2, 8, 32])
def test_the_radius_of_equal_margins_is_nearly_what_moving_all_bits_to_the_boundary_costs(
    bits: int, rule: Rule
) -> None:
    coefficients = np.where(np.arange(bits) % 2, -1.0, 1.0)
    soft = SoftHash(linear := plain_hash(np.ones(bits), rule), Rows.of(linear), 0.5)
    certificate = soft.certify(coefficients, coefficients > 0, bits / 2)
    assert 0.98 * math.sqrt(bits) < certificate.radius <= math.sqrt(bits)


def test_the_radius_is_in_pixels_whatever_the_scale_of_the_rows() -> None:
    rng = np.random.default_rng(2)
    coefficients, code = rng.normal(size=16), rng.random(16) < 0.5
    radii = []
    for scale in (1e-6, 1.0, 1e6):
        soft = SoftHash(linear := plain_hash(np.full(16, scale)), Rows.of(linear), 0.5)
        radii.append(soft.certify(scale * coefficients, code, 3.0).radius)
    assert radii[0] > 0.5
    assert radii == pytest.approx([radii[0]] * 3, rel=0.01)


# -- extremes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["median", "zero"])
@pytest.mark.parametrize("sigma", [1e-6, 1e-4, 1e-3, 1e-2])
def test_small_sigmas_have_a_certificate(sigma: float, rule: Rule) -> None:
    rng = np.random.default_rng(3)
    soft = SoftHash(linear := plain_hash(np.ones(16), rule), Rows.of(linear), sigma)
    coefficients = rng.normal(size=16)
    code = soft.code(coefficients)
    certificate = soft.certify(coefficients, code, 4.0)
    assert certificate.matched
    assert 0 <= certificate.radius <= Attack(soft, coefficients, code, 4.0).shortest(rng)


def test_a_limit_that_no_image_can_pass_has_an_infinite_radius() -> None:
    soft = SoftHash(linear := plain_hash(np.ones(8)), Rows.of(linear), 0.5)
    coefficients, code = np.arange(8.0), np.arange(8) < 6  # every image is 2 to 6 bits from this code
    assert soft.certify(coefficients, code, 6.5) == soft.certify(coefficients, code, 7.0)
    assert soft.certify(coefficients, code, 6.5).radius == math.inf
    assert not soft.certify(coefficients, code, 1.5).matched
    assert soft.certify(coefficients, code, 1.5).radius == math.inf
    assert soft.certify(coefficients, code, -1.0).radius == math.inf
    assert soft.certify(coefficients, code, 5.0).radius < math.inf


@pytest.mark.parametrize("rule", ["median", "zero"])
def test_a_distance_that_only_rounding_can_reach_has_no_infinite_radius(rule: Rule) -> None:
    """Far from the boundary a probability is 1 in floating point, so a distance of 0 occurs."""
    soft = SoftHash(linear := plain_hash(np.ones(4), rule), Rows.of(linear), 0.01)
    coefficients = np.array([0.05, 0.05, -0.05, -0.05])
    code = coefficients > 0
    certificate = soft.certify(coefficients, code, 0.0)
    assert not certificate.matched
    assert soft.distance(100 * coefficients, code) == 0
    assert certificate.radius <= 99 * np.linalg.norm(coefficients)


@pytest.mark.parametrize("seed", range(8))
def test_a_constant_code_at_its_own_distance_has_no_infinite_radius(seed: int) -> None:
    """Every image is half the bits from it; only rounding says on which side of that limit."""
    rng = np.random.default_rng(seed)
    soft = SoftHash(linear := plain_hash(np.exp(rng.normal(size=16))), Rows.of(linear), 0.5)
    assert soft.certify(rng.normal(size=16), np.ones(16, bool), 8.0).radius < 1e-3


def test_a_median_that_is_hard_to_find_changes_no_decision() -> None:
    """Newton's method goes to and fro between two sides of this soft median; both images are 2 bits away."""
    lengths = np.array([68.43, 16.27, 6.6])
    soft = SoftHash(linear := plain_hash(lengths), Rows.of(linear), 1.0)
    query, attacked = np.array([71.534, 11.806, -84.999]), np.array([71.6, 11.8, -85.0])
    code = np.array([False, False, True])
    assert soft.certify(query, code, 1.7533).radius > np.linalg.norm((attacked - query) / lengths)
    assert soft.distance(query, code) == pytest.approx(2, abs=1e-6)
    assert soft.distance(attacked, code) == pytest.approx(2, abs=1e-6)


@pytest.mark.parametrize("limit", [3.0, 7.9, 8.1, 12.0])
def test_a_constant_image_is_decided_and_certified(limit: float) -> None:
    soft = SoftHash(linear := plain_hash(np.ones(16)), Rows.of(linear), 0.5)
    code = np.arange(16) % 2 == 0
    certificate = soft.certify(np.full(16, 0.3), code, limit)
    assert certificate.soft_distance == pytest.approx(8)
    assert certificate.matched == (limit > 8)
    shortest = Attack(soft, np.full(16, 0.3), code, limit).shortest(np.random.default_rng(0))
    assert certificate.radius <= shortest < math.inf


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("rule", ["median", "zero"])
def test_numbers_that_are_not_finite_are_refused(rule: Rule, bad: float) -> None:
    soft = SoftHash(linear := plain_hash(np.ones(8), rule), Rows.of(linear), 0.5)
    code = np.arange(8) < 4
    with pytest.raises(InputError, match="finite"):
        soft.certify(np.array([bad, *range(7)]), code, 3.0)
    with pytest.raises(InputError, match="finite"):
        soft.certify(np.arange(8.0), code, bad)


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, math.inf])
def test_a_sigma_that_is_no_positive_number_is_refused(sigma: float) -> None:
    with pytest.raises(InputError, match="sigma"):
        SoftHash(linear := plain_hash(np.ones(8)), Rows.of(linear), sigma)


def test_the_median_of_a_single_bit_is_refused() -> None:
    with pytest.raises(InputError, match="bit"):
        SoftHash(linear := plain_hash(np.ones(1)), Rows.of(linear), 1.0)
