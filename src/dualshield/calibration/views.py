"""Calibrate a preset of views for votes: the thresholds at which unrelated images match no more often than before.

References are enrolled as deployed, with all views, both sigmas and the probes. Every other image is drawn through all
views of a query. A pair counts as a false match if the majority of any trial matches. Thresholds are lowered until
there are no more false matches than with the plain hash without views. The second sigma is the largest one that keeps
what the plain hash keeps of everyday edits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from dualshield.calibration.false_matches import threshold_at
from dualshield.calibration.plain_views import PlainViews
from dualshield.errors import TooLittleStructureError
from dualshield.hashes.codes import distance_table
from dualshield.images.canonical import CanonicalImage
from dualshield.images.documents import documents
from dualshield.images.synthetic import blank_images
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.matcher import SmoothedMatcher
from dualshield.smoothing.member import Member
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.preset import Preset
from dualshield.smoothing.profile import Profile, with_preset
from dualshield.smoothing.views import Views
from dualshield.transforms import EVERYDAY_EDITS

DRAWS = 3
TOLERANCE = 0.01  # an edit may evade this much more often than with the plain hash
FAR = 10_000  # the distance to a reference that was refused

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class ViewPlan:
    """How much to measure."""

    references: int = 300
    edit_images: int = 24
    documents: int = 60
    fractions: tuple[float, ...] = (0.4, 0.2, 0.1)  # second sigmas to try, of the largest sigma
    seed: int = 2026


class ViewCalibration:
    """Measures sets of views on photos. The first photos are references too; the last ones are edited."""

    def __init__(
        self,
        deployment: Deployment,
        profile: Profile,
        photos: Sequence[CanonicalImage],
        plan: ViewPlan,
        progress: Progress = lambda what, done, total: None,
    ) -> None:
        self.deployment, self.profile, self.plan, self.progress = deployment, profile, plan, progress
        self.plain = PlainViews(deployment)
        self.hash = self.plain.hash
        screens = list(documents(plan.documents, plan.seed))
        self.references = [*photos[: plan.references], *screens]
        self.queries = [*photos, *screens, *blank_images()]
        # Where each reference is among the queries: not unrelated to itself.
        self.own = [*range(len(photos[: plan.references])), *(len(photos) + i for i in range(len(screens)))]
        self.edited = list(photos[-plan.edit_images :])
        self._noise = GaussianSource.from_seed(plan.seed)

    def preset(self, views: Views) -> Preset:
        """Return the views with their thresholds, and the largest second sigma that keeps everyday edits."""
        plain = self._plain_evasion(views)
        best: Preset | None = None
        for fraction in self.plan.fractions:
            second = float(f"{fraction * self.profile.sigma:.2g}")
            found = self._with_second(views, second)
            evasion = self._evasion(found)
            worst = max(evasion[name] - plain[name] for name in plain)
            kept = worst <= TOLERANCE + 0.5 / len(self.edited)
            measured = {**found.measured, "evasion": evasion, "plain_evasion": plain, "edit_images": len(self.edited)}
            best = replace(found, measured=measured)
            if kept:
                break
        assert best is not None
        return best

    def _matcher(self, preset: Preset) -> SmoothedMatcher:
        config = replace(with_preset(self.profile.config(), preset), n=1000, target_radius=0.0)
        member = Member(self.hash, config)
        deployed = Deployment((member,), self.deployment.engine, self.deployment.device, self.deployment.batch_size)
        (matcher,) = deployed.matchers
        assert isinstance(matcher, SmoothedMatcher)
        return matcher

    # -- false matches -----------------------------------------------------------------------------

    def _with_second(self, views: Views, second: float) -> Preset:
        most = self.hash.threshold
        draft = Preset(views, most, second, most)
        matcher = self._matcher(draft)
        tables = [torch.full((len(self.references), len(self.queries)), FAR, dtype=torch.int16) for _ in range(2)]
        codes = _QueryCodes(matcher, self.queries, self._noise.fork("queries"), self.progress)
        refused = 0
        for i, image in enumerate(self.references):
            self.progress(f"views, second sigma {second:g}, references", i, len(self.references))
            try:
                levels = matcher.enroll(image.pixels).levels
            except TooLittleStructureError:
                refused += 1
                continue
            for level in levels:
                place = int(level.sigma == second)
                found = codes.nearest(level.sigma, level.codes)
                # What enrollment lowered for this reference stays lowered, whatever the others' threshold is.
                found[found > level.most(self.hash.bits)] = FAR
                tables[place][i] = found
        for i, own in enumerate(self.own):
            for table in tables:
                table[i, own] = FAR
        pairs = len(self.references) * (len(self.queries) - 1)
        allowed = int(self.profile.unprotected.collisions * pairs)
        first, other = thresholds(tables, self.hash.max_distance, allowed)
        matched = int(((tables[0] <= first) | (tables[1] <= other)).sum())
        bits = self.hash.bits
        return Preset(
            views,
            threshold_at(first, bits) if first < self.hash.max_distance else self.hash.threshold,
            second,
            threshold_at(other, bits) if other < self.hash.max_distance else self.hash.threshold,
            false_matches=matched / pairs,
            measured={
                "references": len(self.references),
                "queries": len(self.queries),
                "pairs": pairs,
                "refused": refused,
                "seed": self.plan.seed,
            },
        )

    # -- everyday edits ----------------------------------------------------------------------------

    def _plain_evasion(self, views: Views) -> dict[str, float]:
        """Return how often each edit evades the plain hash with the same views."""
        evaded: dict[str, int] = {edit.name: 0 for edit in EVERYDAY_EDITS}
        for i, photo in enumerate(self.edited):
            self.progress("views, plain hash", i, len(self.edited))
            known = self.plain.codes(photo.pixels, views.reference)
            for edit in EVERYDAY_EDITS:
                codes = self.plain.codes(edit(photo.pixels, seed=self.plan.seed), views.query)
                evaded[edit.name] += int(distance_table(codes, known).min()) > self.hash.max_distance
        return {name: count / len(self.edited) for name, count in evaded.items()}

    def _evasion(self, preset: Preset) -> dict[str, float]:
        """Return how often each edit evades the deployment, of photos that can be enrolled."""
        matcher = self._matcher(preset)
        evaded: dict[str, int] = {edit.name: 0 for edit in EVERYDAY_EDITS}
        for i, photo in enumerate(self.edited):
            self.progress("views, everyday edits", i, len(self.edited))
            try:
                reference = matcher.enroll(photo.pixels)
            except TooLittleStructureError:
                evaded = {name: count + 1 for name, count in evaded.items()}
                continue
            for edit in EVERYDAY_EDITS:
                edited = edit(photo.pixels, seed=self.plan.seed)
                found = matcher.certify(reference, edited, self._noise.fork("edit"))
                evaded[edit.name] += found.decision.value != "match"
        return {name: count / len(self.edited) for name, count in evaded.items()}


class _QueryCodes:
    """Noisy codes of all queries in all views, drawn once per sigma."""

    def __init__(
        self, matcher: SmoothedMatcher, queries: Sequence[CanonicalImage], noise: GaussianSource, progress: Progress
    ) -> None:
        self.matcher, self.queries, self.noise, self.progress = matcher, queries, noise, progress
        self._codes: dict[float, torch.Tensor] = {}

    def _of(self, sigma: float) -> torch.Tensor:
        if sigma not in self._codes:
            found = []
            for i, query in enumerate(self.queries):
                self.progress(f"views, queries at sigma {sigma:g}", i, len(self.queries))
                drawn = (
                    torch.cat(list(self.matcher.sampler.codes(query.pixels, sigma, DRAWS, self.noise, view=view)))
                    for view in self.matcher.config.views.query
                )
                found.append(torch.stack(list(drawn)))
            self._codes[sigma] = torch.stack(found)
        return self._codes[sigma]

    def nearest(self, sigma: float, known: torch.Tensor) -> torch.Tensor:
        """Return for each query the smallest distance at which a majority of the draws of some view matches."""
        codes = self._of(sigma)  # (queries, views, draws, bits)
        distances = distance_table(codes.flatten(0, 2), known).min(1).values
        return distances.view(codes.shape[:3]).median(-1).values.min(-1).values.to(torch.int16)


def thresholds(tables: Sequence[torch.Tensor], most: int, allowed: int) -> tuple[int, int]:
    """Return the largest distances of both levels, at most ``most``, that let at most ``allowed`` pairs match.

    The level that is responsible for more of the false matches is lowered first.
    """
    first = other = most
    while first >= 0 and other >= 0:
        by = (tables[0] <= first), (tables[1] <= other)
        if int((by[0] | by[1]).sum()) <= allowed:
            break
        if int(by[0].sum()) >= int(by[1].sum()):
            first -= 1
        else:
            other -= 1
    return max(first, 0), max(other, 0)
