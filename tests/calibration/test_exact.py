"""Calibration of exact matchers: thresholds that rise with sigma, and cost no false match."""

from __future__ import annotations

import numpy as np
import pytest

from dualshield.calibration.exact import PlainSeen, Seen, calibrate_exact
from dualshield.calibration.looked import Looked
from dualshield.hashes.linear import pdq
from dualshield.hashes.linear.linear_hash import LinearHash
from dualshield.images.synthetic import natural_image
from dualshield.smoothing.exact.certificate import SoftHash
from dualshield.smoothing.exact.profile import ExactProfile
from dualshield.smoothing.exact.rows import Rows

SIGMAS = (0.25, 0.5, 1.0)
SIGMA = 2.0


def looked(photos: int, variants: int) -> Looked:
    found = Looked(pdq.load(), (64,), variants, 2026)
    for seed in range(photos):
        found.add(natural_image(seed).pixels)
    return found


@pytest.fixture(scope="module")
def profile() -> ExactProfile:
    return looked(24, 2).calibrate(0.2, 6, lambda *_: None, SIGMAS)


def test_thresholds_rise_with_sigma_and_begin_near_the_plain_one(profile: ExactProfile) -> None:
    assert profile.lowpass == 64
    assert list(profile.thresholds) == sorted(profile.thresholds)
    assert 0.19 < profile.thresholds[0] < 0.23
    assert profile.thresholds[-1] < 0.4


def test_no_unrelated_pair_matches_and_radii_are_reported(profile: ExactProfile) -> None:
    assert profile.deployed.collisions == profile.unprotected.collisions == 0.0
    assert min(profile.deployed.radius, profile.external.radius) > 3
    assert profile.deployed.variants_matched >= profile.unprotected.variants_matched - 0.01
    assert profile.deployed.nearest > max(profile.thresholds)


def test_a_pair_that_the_plain_hash_tells_apart_lowers_the_threshold() -> None:
    """Photo 1 is photo 0 with 28 pairs of coefficients near the median exchanged: 56 bits, the plain hash allows 51."""
    linear = pdq.load()
    coefficients = 6.0 * np.sort(np.random.default_rng(5).standard_t(2, size=(40, 256)))
    coefficients = np.random.default_rng(6).permuted(coefficients, axis=1)
    order = coefficients[0].argsort()
    low, high = order[100:128], order[128:156]
    coefficients[1] = coefficients[0]
    coefficients[1, low], coefficients[1, high] = coefficients[0, high], coefficients[0, low]
    profile = _profile(linear, coefficients)
    soft = SoftHash(linear, Rows.of(linear), SIGMA)
    nearest = soft.distance(coefficients[1], soft.code(coefficients[0])) / 256
    assert profile.deployed.collisions == 0.0
    assert nearest - 1e-4 < max(profile.thresholds) < nearest  # lowered to just below it


def _profile(linear: LinearHash, coefficients: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> ExactProfile:
    codes = coefficients > np.median(coefficients, axis=1, keepdims=True)
    blanks = np.zeros((1, 256))
    seen = Seen(linear, coefficients, blanks, coefficients[:2, None])
    plain = PlainSeen(codes, np.zeros((1, 256), bool), codes[:2, None], 0.2)
    return calibrate_exact([seen], plain, radius_images=4, sigmas=(SIGMA,))
