"""Calibrate the exact matcher of a linear hash: one threshold for each sigma, and the largest sigma worth having.

Noise pulls all soft distances towards half the bits, those of unrelated images too. So the threshold may rise with
sigma. It stands where the plain hash's threshold stands among unrelated pairs: as many times the distance from their
mean to their lower tail. Then it is lowered, if necessary, until no more unrelated pairs match than with the plain
hash. Coefficients are all that is needed, so every pair of all photos is counted, and every transformation at every
strength.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dualshield.errors import InputError
from dualshield.hashes.linear.linear_hash import LinearHash
from dualshield.smoothing.exact.certificate import SoftHash
from dualshield.smoothing.exact.profile import ExactProfile, ExactRates
from dualshield.smoothing.exact.rows import Rows

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.bool_]

SIGMAS = (0.1, 0.18, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)
TAIL, LEAST_IN_TAIL = 1e-4, 10
KEPT_TOLERANCE = 0.01
REFERENCES = 300  # photos whose own sigma is found; they are compared with all others
SAME_RADIUS = 0.99  # mean radii above this fraction of the best count as equal
MOST = 0.49  # no threshold is above this fraction of the bits


@dataclass(frozen=True, eq=False)
class Seen:
    """What a calibration knows of its images behind one low-pass: coefficients, row by row.

    ``variants`` has the transformed versions of the first photos ``(photos, transformations, bits)``.
    """

    linear: LinearHash
    photos: Floats
    blanks: Floats
    variants: Floats


@dataclass(frozen=True, eq=False)
class PlainSeen:
    """The codes of the plain hash for the same images."""

    photos: Codes
    blanks: Codes
    variants: Codes
    threshold: float

    @property
    def limit(self) -> float:
        """The largest distance that matches, in bits."""
        return float(self.threshold * self.photos.shape[1])

    @cached_property
    def distances(self) -> Floats:
        """The distances of all ordered pairs of photos and blanks; infinity where a pair is not unrelated."""
        codes = np.concatenate([self.photos, self.blanks]).astype(np.float64)
        found = codes @ (1 - codes.T) + (1 - codes) @ codes.T
        return _unrelated(found, len(self.photos))

    def kept(self) -> float:
        """Return the fraction of variants that match their photo."""
        own = self.photos[: len(self.variants), None]
        return float(((own != self.variants).sum(-1) <= self.limit).mean())


class _Level:
    """One sigma behind one low-pass: soft distances of all pairs to the references' codes, and the threshold."""

    def __init__(self, seen: Seen, plain: PlainSeen, rows: Rows, sigma: float, codes: Codes | None) -> None:
        self.seen, self.sigma = seen, sigma
        self.soft = SoftHash(seen.linear, rows, sigma)
        images = np.concatenate([seen.photos, seen.blanks])
        probability = np.array([self.soft.probabilities(row) for row in images])
        self.codes = probability > 0.5 if codes is None else codes
        self.distances = _unrelated(_soft(self.codes, probability), len(seen.photos))
        self.limit = self._limit(plain)
        self.variants = np.array(
            [
                [self.soft.distance(row, self.codes[photo]) for row in of_photo]
                for photo, of_photo in enumerate(seen.variants)
            ]
        )

    def _limit(self, plain: PlainSeen) -> float:
        before, after = plain.distances, self.distances
        photos = len(plain.photos)
        (low, middle), (plain_low, plain_middle) = (tail(d[:photos, :photos]) for d in (after, before))
        # With a few photos there may be no tail at all.
        spread = (middle - low) / (plain_middle - plain_low) if plain_middle > plain_low else 1.0
        limit = min(middle - (plain_middle - plain.limit) * spread, MOST * plain.photos.shape[1])
        allowed = int((before <= plain.limit).sum())
        # The first distance beyond those that may match, so that no more do.
        near = np.sort(after[after <= limit])
        if len(near) > allowed:
            limit = np.nextafter(float(near[allowed]), 0.0)
        return max(float(limit), 0.0)

    def radius(self, photo: int) -> float:
        """Return the proven radius of a photo with itself, 0 if it does not match."""
        found = self.soft.certify(self.seen.photos[photo], self.codes[photo], self.limit)
        return found.radius if found.matched else 0.0


def calibrate_exact(
    behind: list[Seen],
    plain: PlainSeen,
    *,
    radius_images: int,
    sigmas: tuple[float, ...] = SIGMAS,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> ExactProfile:
    """Choose low-pass, sigmas and thresholds: the largest mean radius that keeps the plain hash's rates."""
    distances = plain.distances[: min(REFERENCES, len(plain.photos))]
    collisions = _rate(distances <= plain.limit, distances)
    unprotected = ExactRates(0.0, plain.kept(), collisions, _nearest(distances, plain))
    candidates: list[tuple[float, ExactProfile]] = []
    bare_codes = np.concatenate([plain.photos, plain.blanks])
    for number, seen in enumerate(behind):
        rows = Rows.of(seen.linear)
        chosen, bare = [], []
        for place, sigma in enumerate(sigmas):
            progress(f"exact, sigma {sigma:g}", number * len(sigmas) + place, len(behind) * len(sigmas))
            chosen.append(_Level(seen, plain, rows, sigma, None))
            bare.append(_Level(seen, plain, rows, sigma, bare_codes))
        deployed = _best([chosen[: i + 1] for i in range(len(chosen))], unprotected, plain, radius_images)
        external = _best([[level] for level in bare], unprotected, plain, radius_images)
        if deployed is None or external is None:
            continue
        levels, rates = deployed
        (level,), external_rates = external
        bits = seen.linear.bits
        profile = ExactProfile(
            seen.linear.lowpass,
            tuple(level.sigma for level in levels),
            tuple(level.limit / bits for level in levels),
            level.sigma,
            level.limit / bits,
            unprotected,
            rates,
            external_rates,
        )
        candidates.append((rates.radius, profile))
    if not candidates:
        raise InputError("calibration: no sigma keeps the rates of the plain hash; give more photos")
    return max(candidates, key=lambda candidate: candidate[0])[1]


def _best(
    sets: list[list[_Level]], unprotected: ExactRates, plain: PlainSeen, radius_images: int
) -> tuple[list[_Level], ExactRates] | None:
    """Return the first set of levels with about the largest mean radius, of those that keep the plain hash's rates."""
    found: list[tuple[list[_Level], ExactRates]] = []
    radii: dict[int, list[float]] = {}
    count = min(REFERENCES, len(plain.photos))
    for levels in sets:
        for level in levels:
            if id(level) not in radii:
                radii[id(level)] = [level.radius(photo) for photo in range(count)]
        rates = _rates(levels, [radii[id(level)] for level in levels], plain, radius_images)
        keeps = rates.variants_matched >= unprotected.variants_matched - KEPT_TOLERANCE
        if keeps and rates.collisions <= unprotected.collisions:
            found.append((levels, rates))
    best = max((rates.radius for _, rates in found), default=0.0)
    return next(((levels, rates) for levels, rates in found if rates.radius >= SAME_RADIUS * best), None)


def _rates(levels: list[_Level], radii: list[list[float]], plain: PlainSeen, radius_images: int) -> ExactRates:
    """Return the rates if each reference has the sigma with its largest radius, as in enrollment."""
    table = np.array(radii)
    choice = table.argmax(0)
    variants = [levels[choice[photo]].variants[photo] for photo in range(len(levels[0].variants))]
    limits = [levels[choice[photo]].limit for photo in range(len(variants))]
    kept = np.mean([distances <= limit for distances, limit in zip(variants, limits, strict=True)])
    own = np.array([levels[best].distances[photo] for photo, best in enumerate(choice)])
    limit = np.array([levels[best].limit for best in choice])
    # A photo without a radius cannot be enrolled, so nothing matches it.
    own[table.max(0) <= 0] = np.inf
    rate = _rate(own <= limit[:, None], own)
    return ExactRates(float(table.max(0)[:radius_images].mean()), float(kept), rate, _nearest(own, plain))


def _soft(codes: Codes, probability: Floats) -> Floats:
    found: Floats = probability.sum(1)[None] + codes.astype(np.float64) @ (1 - 2 * probability).T
    return found


def _unrelated(distances: Floats, photos: int) -> Floats:
    """Put infinity where a pair is not unrelated: an image with itself, two blank images."""
    distances = distances.copy()
    np.fill_diagonal(distances, np.inf)
    distances[photos:, photos:] = np.inf
    return distances


def tail(distances: Floats) -> tuple[float, float]:
    """Return a low quantile and the mean of the distances."""
    values = distances[np.isfinite(distances)]
    share = min(max(TAIL, LEAST_IN_TAIL / len(values)), 0.5)
    return float(np.quantile(values, share)), float(values.mean())


def _rate(matched: npt.NDArray[np.bool_], distances: Floats) -> float:
    pairs = np.isfinite(distances)
    return float((matched & pairs).sum() / max(1, int(pairs.sum())))


def _nearest(distances: Floats, plain: PlainSeen) -> float:
    return float(min(distances.min(), plain.photos.shape[1]) / plain.photos.shape[1])
