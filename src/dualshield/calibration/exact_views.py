"""Thresholds of an exact matcher with views: views bring unrelated images closer too, so thresholds are lower.

For each sigma the threshold stands where the plain hash's threshold stands among unrelated pairs (exact.py): among the
soft distances without views, and among those with views, where a pair's distance is the smallest of all pairs of views.
The lower of the two counts. Then it is lowered further, if necessary, until no more unrelated pairs match than with the
plain hash without views. Photos, generated documents and blank images are counted apart, so that many pairs of one kind
excuse none of another.

Every ordered pair of images is compared in all pairs of views: some 2,000 images with 100 and 8 views are 3 billion
soft distances for each sigma. They are matrix products in single precision, a few references at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from dualshield.calibration.exact import MOST, tail
from dualshield.errors import InputError
from dualshield.hashes.linear.linear_hash import LinearHash, luma_of
from dualshield.images.documents import documents
from dualshield.images.synthetic import blank_images
from dualshield.smoothing.exact.query_views import QueryViews
from dualshield.smoothing.exact.reference_views import ReferenceViews
from dualshield.smoothing.views import Views

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Codes = npt.NDArray[np.bool_]

DOCUMENTS, SEED = 240, 2026
PHOTO, DOCUMENT, BLANK = range(3)
KINDS = ("photos", "documents", "blanks")
STANDING = "standing"
BLOCK_NUMBERS = 2**24  # soft distances at a time
ROWS = 2**14  # images and views whose soft median is found at a time
SINGLE = 0.01  # bits; far above the rounding of soft distances in single precision


@dataclass(frozen=True)
class ViewedThresholds:
    """One threshold per sigma, and what was measured with them on all ordered pairs of unrelated images."""

    thresholds: tuple[float, ...]
    pairs: int
    plain_matches: int  # pairs that match by the plain hash without views
    matches: tuple[int, ...]  # pairs that match with views, for each sigma
    nearest: tuple[float, ...]  # smallest soft distance, as a fraction of the bits, for each sigma
    nearest_plain: float
    limited_by: tuple[str, ...]  # what sets the threshold of each sigma: where the plain one stands, or pairs of a kind

    @property
    def false_matches(self) -> float:
        """The fraction of unrelated pairs that match, at the sigma with the most of them."""
        return max(self.matches) / max(1, self.pairs)


class Unrelated:
    """What is kept of unrelated images: coefficients of all their views, and plain codes; no pixels."""

    def __init__(self, linear: LinearHash, lowpass: int | None, views: Views) -> None:
        self.plain = linear
        self.linear = linear.with_lowpass(lowpass)
        self.queries = QueryViews(self.linear, views.query)
        self.references = ReferenceViews(self.linear, views.reference)
        self._kinds: list[int] = []
        self._codes: list[Codes] = []
        self._as_query: list[Singles] = []
        self._as_reference: list[Singles] = []

    def add(self, pixels: npt.NDArray[np.floating], kind: int) -> None:
        """Look at one image."""
        luma = luma_of(pixels)
        self._kinds.append(kind)
        self._codes.append(self.plain.code(pixels))
        self._as_query.append(self.queries.coefficients(luma).astype(np.float32))
        self._as_reference.append(self.references.coefficients(luma).astype(np.float32))

    @property
    def kinds(self) -> npt.NDArray[np.int64]:
        """The kind of each image."""
        return np.array(self._kinds)

    def unrelated(self) -> Codes:
        """Return which ordered pairs are unrelated: not an image with itself, not two blank ones."""
        blank = self.kinds == BLANK
        return ~(np.eye(len(blank), dtype=np.bool_) | np.outer(blank, blank))

    def plain_distances(self) -> Singles:
        """Return the plain distances of all ordered pairs, in bits."""
        codes = np.array(self._codes, np.float32)
        found: Singles = codes @ (1 - codes.T) + (1 - codes) @ codes.T
        return found

    def distances(self, sigma: float, *, viewed: bool = True) -> Singles:
        """Return the smallest soft distance of all ordered pairs (reference, query), in bits; or that without views."""
        images, bits = len(self._kinds), self.linear.bits
        used = None if viewed else 1
        queries = np.stack([of_image[:used] for of_image in self._as_query])  # (images, views, bits)
        probability = np.empty(queries.shape, np.float32)
        for view in range(queries.shape[1]):
            soft = self.queries.soft(sigma, view)
            probability[:, view] = _probabilities(queries[:, view], soft.spread, soft.ones)
        flat = probability.reshape(-1, bits)
        against, base = np.ascontiguousarray((1 - 2 * flat).T), flat.sum(1)
        soft = self.queries.soft(sigma, 0)
        views = len(self._as_reference[0][:used])
        block = max(1, BLOCK_NUMBERS // (views * len(flat)))
        found = np.empty((images, images), np.float32)
        for first in range(0, images, block):
            rows = np.concatenate([of_image[:used] for of_image in self._as_reference[first : first + block]])
            codes = (_probabilities(rows, soft.spread, soft.ones) > 0.5).astype(np.float32)
            near = (codes @ against).reshape(-1, views, len(flat)).min(1) + base
            found[first : first + block] = near.reshape(-1, images, queries.shape[1]).min(2)
        return found


def exact_thresholds(
    linear: LinearHash,
    lowpass: int | None,
    sigmas: tuple[float, ...],
    views: Views,
    photos: Iterable[npt.NDArray[np.floating]],
    *,
    threshold: float,
    generated: int = DOCUMENTS,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> ViewedThresholds:
    """Return the thresholds with views, one per sigma; ``threshold`` is that of the plain hash without views.

    ``photos`` are canonical pixels ``(3, 512, 512)``. Documents and blank images are added to them.
    """
    seen = Unrelated(linear, lowpass, views)
    for photo in photos:
        seen.add(photo, PHOTO)
        progress("photos, in all views", len(seen.kinds), len(seen.kinds))
    if len(seen.kinds) < 2:
        raise InputError("calibration with views needs at least two photos")
    for document in documents(generated, SEED):
        seen.add(document.pixels.numpy(), DOCUMENT)
    for blank in blank_images():
        seen.add(blank.pixels.numpy(), BLANK)
    return thresholds_of(seen, sigmas, threshold, progress)


def thresholds_of(
    seen: Unrelated, sigmas: tuple[float, ...], threshold: float, progress: Callable[[str, int, int], None]
) -> ViewedThresholds:
    """Return the thresholds for images that were looked at."""
    plain, unrelated = seen.plain_distances(), seen.unrelated()
    most = threshold * seen.linear.bits
    photos = unrelated & np.logical_and.outer(seen.kinds == PHOTO, seen.kinds == PHOTO)
    thresholds, matches, nearest, limited_by = [], [], [], []
    for place, sigma in enumerate(sigmas):
        progress(f"exact with views, sigma {sigma:g}", place, len(sigmas))
        distances = seen.distances(sigma)
        standing = min(
            _standing(found, plain, photos, most) for found in (distances, seen.distances(sigma, viewed=False))
        )
        highest = min(standing, MOST * seen.linear.bits)
        limit, why = _lowered(highest, distances, plain <= most, unrelated, seen.kinds)
        limited_by.append(why)
        thresholds.append(limit / seen.linear.bits)
        matches.append(int((unrelated & (distances <= limit)).sum()))
        nearest.append(float(distances[unrelated].min()) / seen.linear.bits)
    plainly = int((unrelated & (plain <= most)).sum())
    nearest_plain = float(plain[unrelated].min()) / seen.linear.bits
    return ViewedThresholds(
        tuple(thresholds),
        int(unrelated.sum()),
        plainly,
        tuple(matches),
        tuple(nearest),
        nearest_plain,
        tuple(limited_by),
    )


def _standing(distances: Singles, plain: Singles, photos: Codes, most: float) -> float:
    """Return where ``most`` among the plain distances of photos is among these, in units of their lower tail."""
    (low, middle), (plain_low, plain_middle) = (tail(d[photos].astype(np.float64)) for d in (distances, plain))
    # With a few photos there may be no tail at all.
    spread = (middle - low) / (plain_middle - plain_low) if plain_middle > plain_low else 1.0
    return middle - (plain_middle - most) * spread


def _lowered(
    limit: float, distances: Singles, plainly: Codes, unrelated: Codes, kinds: npt.NDArray[np.int64]
) -> tuple[float, str]:
    """Return the limit, or a lower one at which no more pairs of any kind match than match ``plainly``; and why."""
    why = STANDING
    kind_of_pair = np.maximum.outer(kinds, kinds)
    for kind in range(len(KINDS)):
        of_kind = unrelated & (kind_of_pair == kind)
        allowed = int((of_kind & plainly).sum())
        near = np.sort(distances[of_kind & (distances <= limit + SINGLE)])
        if len(near) > allowed:
            limit, why = float(near[allowed]) - SINGLE, KINDS[kind]
    return max(float(limit), 0.0), why


def _probabilities(coefficients: Singles, spread: Floats, ones: int | None) -> Singles:
    """Return the probability that each bit is one, for many images, in single precision."""
    found = np.empty(coefficients.shape, np.float32)
    for first in range(0, len(coefficients), ROWS):
        rows = coefficients[first : first + ROWS].astype(np.float64)
        theta = np.zeros(len(rows)) if ones is None else soft_medians(rows, spread, ones)
        found[first : first + ROWS] = ndtr((rows - theta[:, None]) / spread)
    return found


def soft_medians(coefficients: Floats, spread: Floats, ones: int, steps: int = 60) -> Floats:
    """Return theta of each row with ``sum Phi((c_i - theta) / spread_i) = ones``, up to 1e-6 bits."""
    low, high = (coefficients - 9 * spread).min(1), (coefficients + 9 * spread).max(1)
    place = coefficients.shape[1] - ones
    theta = np.partition(coefficients, place, axis=1)[:, place]
    left = np.arange(len(coefficients))
    for _ in range(steps):
        x = (coefficients[left] - theta[left, None]) / spread
        excess = ndtr(x).sum(1) - ones
        missed = np.abs(excess) > 1e-6
        left, excess, x = left[missed], excess[missed], x[missed]
        if not len(left):
            break
        slope = (np.exp(-(x * x) / 2) / spread).sum(1) / np.sqrt(2 * np.pi)
        low[left] = np.where(excess > 0, theta[left], low[left])
        high[left] = np.where(excess > 0, high[left], theta[left])
        with np.errstate(divide="ignore"):
            after = theta[left] + excess / slope
        # Where Newton's method leaves the bounds, halve the interval instead.
        inside = (after > low[left]) & (after < high[left])
        theta[left] = np.where(inside, after, (low[left] + high[left]) / 2)
    return theta
