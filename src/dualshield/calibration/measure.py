"""Measure a grid of (low-pass, sigma) on photos, and choose the point to deploy (METHOD.md 5).

With too much noise every image hashes like noise, low-texture images first. So blank images are among the unrelated
images, as queries and as references.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from dualshield._common.journal import Journal
from dualshield.calibration.false_matches import distance_histogram, hamming, threshold_at
from dualshield.engines.choose import make_engine
from dualshield.engines.fixed_function import require_fixed_function
from dualshield.errors import InputError
from dualshield.images.canonical import CanonicalImage
from dualshield.images.synthetic import blank_images
from dualshield.smoothing.config import DEFAULT_BANK, DEFAULT_N, MAX_DRAWS, MAX_SIGMA, MIN_SIGMA
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.enrollment import consensus_draws, draw_bank, expected_radius
from dualshield.smoothing.member_reference import majority
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.noise_kinds import LINEAR
from dualshield.smoothing.profile import GridPoint, Profile, Rates, choose
from dualshield.smoothing.sampler import Sampler
from dualshield.smoothing.statistics import certified_radius, clopper_pearson_lower
from dualshield.transforms import LOWEST_INTENSITY

Grid = tuple[tuple[int | None, tuple[float, ...]], ...]
DEFAULT_GRID: Grid = (
    (None, (0.1, 0.2, 0.4, 0.8, 1.2)),
    (64, (0.4, 0.8, 1.2, 1.6)),
    (32, (0.4, 0.8, 1.6, 2.4, 3.2)),
)


@dataclass(frozen=True)
class CalibrationPlan:
    """How much to measure. The first ``radius_images`` photos give the identity radius, and so on."""

    grid: Grid = DEFAULT_GRID
    images: int = 100
    variant_images: int = 40
    radius_images: int = 12
    draws: int = 1000
    vote_draws: int = 33
    alpha: float = 1e-3
    seed: int = 2026

    def __post_init__(self) -> None:
        least = (("images", self.images, 2), ("draws", self.draws, 1), ("vote draws", self.vote_draws, 1))
        for name, value, bound in (
            *least,
            ("radius images", self.radius_images, 1),
            ("variant images", self.variant_images, 1),
        ):
            if not bound <= value <= MAX_DRAWS:
                raise InputError(f"calibration: {name} {value} is not between {bound} and {MAX_DRAWS}")
        if not 0 < self.alpha < 1:
            raise InputError(f"alpha {self.alpha} is not in (0, 1)")
        if not 0 <= self.seed < 2**63:
            raise InputError(f"calibration: seed {self.seed} is not between 0 and 2^63 - 1")
        sigmas = [sigma for _, row in self.grid for sigma in row]
        if not sigmas or any(not MIN_SIGMA <= sigma <= MAX_SIGMA for sigma in sigmas):
            raise InputError(f"calibration: the grid needs positive sigmas, from {MIN_SIGMA:g} to {MAX_SIGMA}")
        if any(len(set(row)) < len(row) for row in ([lowpass for lowpass, _ in self.grid], *(s for _, s in self.grid))):
            raise InputError("calibration: the grid names a low-pass twice, or a sigma twice for one low-pass")


@dataclass(frozen=True)
class _Distances:
    """Hamming distances of noisy codes to one kind of reference at one sigma; a threshold turns them into votes."""

    identity: list[torch.Tensor]  # per photo (draws,)
    variants: list[list[torch.Tensor]]  # per photo and variant (draws,)
    unrelated: torch.Tensor  # (references, queries, vote draws)


@dataclass(frozen=True)
class _Level:
    """Everything drawn at one sigma behind one low-pass."""

    sigma: float
    banks: torch.Tensor  # (images, enrollment draws, bits)
    own: _Distances  # to the consensus of the bank
    plain: _Distances  # to the plain hash, as found in an external list


class Calibration:
    """One calibration run; ``run`` can be interrupted and resumed through its journal."""

    def __init__(
        self,
        deployment: Deployment,
        photos: Sequence[CanonicalImage],
        plan: CalibrationPlan,
        *,
        plain_codes: torch.Tensor | None = None,
    ) -> None:
        if len(photos) < 2:
            raise InputError(f"calibration needs at least 2 photos, got {len(photos)}")
        if len(deployment.members) > 1:
            raise InputError(f"calibration measures one hash at a time, not {deployment.name}")
        (self.hash,) = deployment.hashes
        # Fail here if the hash or engine is unusable, not after hours of measuring.
        require_fixed_function(
            make_engine(self.hash, deployment.engine, deployment.device, deployment.batch_size), self.hash
        )
        self.hashes = {lowpass: self.hash.with_lowpass(lowpass) for lowpass, _ in plan.grid}
        self.plan = plan
        self.photos = list(photos[: plan.images])
        self.images = [*self.photos, *blank_images()]
        self.deployment = deployment
        self.variants = [
            [transform(photo.pixels, seed=plan.seed) for transform in LOWEST_INTENSITY]
            for photo in self.photos[: plan.variant_images]
        ]
        self.plain = torch.stack([self.hash.code(image.pixels) for image in self.images])
        self.unprotected = self._measure_unprotected(plain_codes)

    def run(self, journal: Path | None = None, progress: Callable[[str, int, int], None] = lambda *_: None) -> Profile:
        """Measure the grid points that are not in the journal yet, then choose the profile."""
        depends_on = {"names": [photo.name for photo in self.photos], "unprotected": asdict(self.unprotected)}
        record = Journal(journal, {**self._described(), **depends_on}) if journal else None
        done = _finished(record) if record else {}
        grid: list[GridPoint] = []
        total = sum(len(sigmas) for _, sigmas in self.plan.grid)
        for lowpass, sigmas in self.plan.grid:
            if lowpass not in done:
                report = partial(self._report, progress, len(grid), total)
                done[lowpass] = self._measure(lowpass, sorted(sigmas), report)
                if record:
                    record.append([asdict(point) for point in done[lowpass]])
            grid += done[lowpass]
        progress("choosing", total, total)
        return choose(self.hash, self.unprotected, grid, self._described())

    @property
    def pairs(self) -> int:
        """The number of unrelated pairs behind the collision rate; both orders of a pair count once."""
        return sum(int(self._others(i).sum()) for i in range(len(self.images))) // 2

    @staticmethod
    def _report(progress: Callable[[str, int, int], None], before: int, total: int, what: str, here: int) -> None:
        progress(what, before + here, total)

    # -- measuring ---------------------------------------------------------------------------------

    def _measure(
        self, lowpass: int | None, sigmas: Sequence[float], report: Callable[[str, int], None]
    ) -> list[GridPoint]:
        """Measure all sigmas behind one low-pass, smallest first."""
        hash_ = self.hashes[lowpass]
        deployment = self.deployment
        engine = make_engine(hash_, deployment.engine, deployment.device, deployment.batch_size)
        sampler = Sampler(hash_, engine, LINEAR, deployment.device)
        # Each low-pass has its own stream, so that a resumed run draws the same noise.
        source = GaussianSource.from_seed(self.plan.seed).fork(f"low-pass {lowpass}")
        levels: list[_Level] = []
        points = []
        for sigma in sigmas:
            report(f"low-pass {lowpass or 'none'}, sigma {sigma:g}", len(levels))
            levels.append(self._draw_level(sampler, sigma, source))
            points.append(self._point(lowpass, levels))
        return points

    def _draw_level(self, sampler: Sampler, sigma: float, source: GaussianSource) -> _Level:
        plan = self.plan

        def draw(pixels: torch.Tensor, draws: int) -> torch.Tensor:
            return draw_bank(sampler, pixels, sigma, draws, source)

        enrollment = consensus_draws(self.hash, DEFAULT_BANK)
        banks = torch.stack([draw(image.pixels, enrollment) for image in self.images])
        queries = torch.stack([draw(image.pixels, plan.vote_draws) for image in self.images])
        identity = [draw(photo.pixels, plan.draws) for photo in self.photos[: plan.radius_images]]
        measured = max(1, plan.radius_images // 6)
        variants = [
            [draw(variant, plan.draws if i < measured else plan.vote_draws) for variant in of_photo]
            for i, of_photo in enumerate(self.variants)
        ]

        def distances(references: torch.Tensor) -> _Distances:
            return _Distances(
                [hamming(codes, references[i]) for i, codes in enumerate(identity)],
                [[hamming(codes, references[i]) for codes in of_photo] for i, of_photo in enumerate(variants)],
                torch.stack([hamming(queries, reference) for reference in references]),
            )

        consensus = torch.stack([majority(bank) for bank in banks])
        return _Level(sigma, banks, own=distances(consensus), plain=distances(self.plain))

    # -- rates -------------------------------------------------------------------------------------

    def _point(self, lowpass: int | None, levels: list[_Level]) -> GridPoint:
        """Measure the last level at the largest threshold (up to the hash's own) that adds no collisions."""

        def largest(rates: Callable[[int], Rates]) -> Rates:
            for distance in range(self.hash.max_distance, 0, -1):
                found = rates(distance)
                if found.collisions <= self.unprotected.collisions:
                    return found
            return rates(0)

        level = levels[-1]
        return GridPoint(
            lowpass,
            level.sigma,
            consensus=largest(lambda distance: self._deployed(levels, distance)),
            external=largest(lambda distance: self._rates([(level.sigma, level.plain)] * len(self.images), distance)),
        )

    def _deployed(self, levels: list[_Level], distance: int) -> Rates:
        """Return the rates if each reference gets its best sigma among the levels, as in enrollment."""
        hash_ = self.hash.with_threshold(threshold_at(distance, self.hash.bits))
        chosen = []
        for image in range(len(self.images)):
            expected = [
                expected_radius(level.banks[image], hash_, "code", level.sigma, DEFAULT_N, self.plan.alpha)
                for level in levels
            ]
            # If no sigma gives a radius, this is the first level, the smallest sigma.
            level = levels[expected.index(max(expected))]
            chosen.append((level.sigma, level.own))
        return self._rates(chosen, distance)

    def _rates(self, chosen: list[tuple[float, _Distances]], distance: int) -> Rates:
        """Return the rates if reference i has the sigma and distances ``chosen[i]``; votes match up to ``distance``."""

        def radius(distances: torch.Tensor, sigma: float) -> float:
            votes = int((distances <= distance).sum())
            return certified_radius(clopper_pearson_lower(votes, len(distances), self.plan.alpha), sigma)

        identity, variant_radii, matched, unrelated = [], [], [], []
        for i, (sigma, found) in enumerate(chosen):
            identity += [radius(found.identity[i], sigma)] if i < len(found.identity) else []
            for distances in found.variants[i] if i < len(found.variants) else []:
                matched.append(float((distances <= distance).float().mean()) > 0.5)
                variant_radii += [radius(distances, sigma)] if len(distances) == self.plan.draws else []
            unrelated.append((found.unrelated[i][self._others(i)] <= distance).float().mean(1))
        probability = torch.cat(unrelated)
        return Rates(
            threshold=self.hash.threshold
            if distance == self.hash.max_distance
            else threshold_at(distance, self.hash.bits),
            radius_identity=_mean(identity),
            radius_variants=_mean(variant_radii),
            variants_matched=_mean(matched),
            collisions=float((probability > 0.5).float().mean()),
            worst_unrelated=float(probability.max()),
        )

    def _others(self, index: int) -> torch.Tensor:
        """Return a mask of the images that are unrelated to this one; two blank images are not unrelated."""
        others = torch.ones(len(self.images), dtype=torch.bool)
        others[index] = False
        if index >= len(self.photos):
            others[len(self.photos) :] = False
        return others

    def _measure_unprotected(self, plain_codes: torch.Tensor | None) -> Rates:
        """Return the rates of the plain hash; collisions are rare, so they are counted on all photos."""
        matched = [
            bool(self.hash.matches(self.hash.code(variant), self.plain[i]))
            for i, of_photo in enumerate(self.variants)
            for variant in of_photo
        ]
        photos = self.plain[: len(self.photos)] if plain_codes is None else plain_codes
        histogram = distance_histogram(photos)
        for blank in self.plain[len(self.photos) :]:
            histogram += torch.bincount(hamming(photos, blank), minlength=len(histogram))
        collisions = float(histogram[: self.hash.max_distance + 1].sum() / histogram.sum())
        return Rates(self.hash.threshold, 0.0, 0.0, _mean(matched), collisions, float(collisions > 0))

    def _described(self) -> dict[str, Any]:
        return {
            **asdict(self.plan),
            "photos": len(self.photos),
            "threshold": self.hash.threshold,
            "hash": f"{self.hash.name} {self.hash.version}",
        }


def _finished(journal: Journal) -> dict[int | None, list[GridPoint]]:
    done = {}
    for record in journal.records():
        try:
            points = [GridPoint.parse(data) for data in record]
            done[points[0].lowpass] = points
        except (TypeError, LookupError, InputError):
            continue  # unreadable record: these points are measured again
    return done


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
