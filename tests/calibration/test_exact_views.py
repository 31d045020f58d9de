"""Thresholds with views: every pair of views counts, and no kind of image excuses another."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from dualshield.calibration.exact_views import (
    BLANK,
    DOCUMENT,
    PHOTO,
    Unrelated,
    ViewedThresholds,
    exact_thresholds,
    soft_medians,
    thresholds_of,
)
from dualshield.errors import InputError
from dualshield.hashes.linear import pdq
from dualshield.images.axes import Matrix
from dualshield.images.documents import documents
from dualshield.images.synthetic import natural_image
from dualshield.images.views import IDENTITY, View
from dualshield.smoothing.exact.config import ExactConfig
from dualshield.smoothing.exact.matcher import ExactMatcher
from dualshield.smoothing.exact.rows import Rows
from dualshield.smoothing.exact.soft_distance import soft_median
from dualshield.smoothing.views import NO_VIEWS, Views

VIEWS = Views((IDENTITY, View(mirror=True), View(rotation=5.0)), (IDENTITY, View.trimmed(0.06)))
SIGMAS = (0.5, 2.0)


def photo(seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    found: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = natural_image(seed).pixels.numpy()
    return found


def thresholds(views: Views, *more: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> ViewedThresholds:
    photos = [*(photo(seed) for seed in range(12)), *more]
    return exact_thresholds(pdq.load(), 32, SIGMAS, views, photos, threshold=0.2, generated=6)


def medians(rows: Matrix, spread: Matrix) -> Matrix:
    return np.array([soft_median(row, spread, 128) for row in rows])


@pytest.mark.parametrize("sigma", [0.01, 0.3, 1.0, 6.0])
def test_soft_medians_of_many_rows_are_those_of_each(sigma: float) -> None:
    linear = pdq.load().with_lowpass(32)
    spread = sigma * Rows.of(linear).lengths
    rows = np.array([linear.coefficients(photo(seed)) for seed in range(3)] + [np.zeros(256)])
    rows = np.concatenate([rows, np.random.default_rng(0).standard_t(1, size=(20, 256))])
    theta = soft_medians(rows, spread, 128)
    # Between two far coefficients every theta will do, so probabilities are compared.
    found, expected = (ndtr((rows - at[:, None]) / spread) for at in (theta, medians(rows, spread)))
    assert found == pytest.approx(expected, abs=1e-5)


def test_distances_are_those_of_the_matcher() -> None:
    matcher = ExactMatcher(pdq.load(), ExactConfig((1.0,), (0.23,), 32, VIEWS))
    seen = Unrelated(pdq.load(), 32, VIEWS)
    for seed in range(4):
        seen.add(photo(seed), PHOTO)
    found, without = seen.distances(1.0), seen.distances(1.0, viewed=False)
    plain = ExactMatcher(pdq.load(), ExactConfig((1.0,), (0.23,), 32))
    for one in range(4):
        for matchers, distances in ((matcher, found), (plain, without)):
            reference = matchers.enroll_pixels(photo(one))
            for other in range(4):
                assert distances[one, other] == pytest.approx(matchers.distance(reference, photo(other)), abs=0.01)
    assert (found <= without + 1e-4).all()


def test_views_of_unrelated_images_cost_no_false_match() -> None:
    found, without = thresholds(VIEWS), thresholds(NO_VIEWS)
    assert found.pairs == without.pairs == (12 + 6) * 17 + 2 * 18 * 5
    assert found.matches == (0, 0)
    assert found.plain_matches == 0
    assert found.false_matches == 0.0
    assert all(nearest > threshold for nearest, threshold in zip(found.nearest, found.thresholds, strict=True))
    assert all(a <= b + 1e-9 for a, b in zip(found.thresholds, without.thresholds, strict=True))
    assert found.thresholds[1] > found.thresholds[0] > 0.15


def test_a_pair_that_only_views_bring_together_lowers_the_thresholds() -> None:
    """The last photo is the first one mirrored: another photo to the plain hash."""
    mirrored = np.ascontiguousarray(photo(0)[..., ::-1])
    found, without = thresholds(VIEWS, mirrored), thresholds(NO_VIEWS, mirrored)
    assert found.plain_matches == without.plain_matches == 0
    assert found.matches == (0, 0)
    assert found.limited_by == ("photos", "photos")
    assert "photos" not in without.limited_by
    for lowered, kept, nearest in zip(found.thresholds, without.thresholds, found.nearest, strict=True):
        assert nearest - 1e-3 < lowered < nearest < kept


def test_pairs_that_match_plainly_excuse_as_many_of_their_own_kind_only() -> None:
    seen = Unrelated(pdq.load(), 32, VIEWS)
    pages = [document.pixels.numpy() for document in documents(3, 1)]
    for pixels in (*(photo(seed) for seed in range(8)), np.ascontiguousarray(photo(0)[..., ::-1])):
        seen.add(pixels, PHOTO)
    for page in (pages[0], pages[0], pages[1]):  # the same page twice matches plainly, in both orders
        seen.add(page, DOCUMENT)
    seen.add(np.full((3, 512, 512), 0.5, np.float32), BLANK)
    found = thresholds_of(seen, SIGMAS, 0.2, lambda *_: None)
    assert found.plain_matches == 2
    assert all(matches <= 2 for matches in found.matches)
    distances = seen.distances(SIGMAS[0])
    assert distances[0, 8] > found.thresholds[0] * 256  # the photo and its mirror image stay apart
    assert seen.unrelated().sum() == 13 * 12


def test_too_few_photos_are_refused() -> None:
    with pytest.raises(InputError, match="at least two photos"):
        exact_thresholds(pdq.load(), 32, SIGMAS, VIEWS, [photo(0)], threshold=0.2, generated=0)
