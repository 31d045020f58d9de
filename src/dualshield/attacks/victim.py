"""The matcher under attack: its decisions and scores count as queries, its gradients do not.

A matcher with several views of the query, or several sigmas, compares in several trials, and a match in any of them is
a match. Gradients are those of single trials (``trials``); decisions and scores are those of the matcher.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Self

import torch

from dualshield.attacks.nearest import look
from dualshield.attacks.objective import flip_all_margin, flip_margin, join_margin, nearest_view, needed_flips
from dualshield.attacks.viewed import behind, shown
from dualshield.engines.gradients import accelerated
from dualshield.errors import InputError, NothingToAttackError
from dualshield.hashes.margins import signs
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images import CanonicalImage, ImageLike, as_image
from dualshield.images.eight_bit import to_8bit
from dualshield.images.views import IDENTITY, View
from dualshield.smoothing.ballot import Trial
from dualshield.smoothing.level import Level
from dualshield.smoothing.matcher import SmoothedMatcher
from dualshield.smoothing.member_reference import MemberReference
from dualshield.smoothing.names import Origin
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.statistics import Decision
from dualshield.smoothing.views import NO_VIEWS, Views

# Votes averaged for a score. A draw of a network costs a thousand times one of a hash with a small network.
SCORE_DRAWS = 32
NETWORK_SCORE_DRAWS = 8


@dataclass(frozen=True)
class Service:
    """Identifies the attacked deployment and reference."""

    deployment: str  # digest
    reference_fingerprint: str


class Target(ABC):
    """A service with one enrolled reference, as attacks use it; it has one hash or several."""

    queries: int
    name: str  # of the reference
    service: Service | None  # None for plain hashes

    @property
    def noise_source(self) -> Origin | None:
        """Whether the defender's noise is secret or seeded; None without noise."""
        return None if self.service is None else self.members[0].noise.origin

    @property
    @abstractmethod
    def members(self) -> tuple[Victim, ...]:
        """The hashes."""

    @property
    def trials(self) -> tuple[Victim, ...]:
        """All trials of all hashes, each as a victim of its own, for gradients; an attack must evade each of them."""
        return tuple(trial for member in self.members for trial in member.trials)

    @property
    @abstractmethod
    def boundary(self) -> float:
        """Decision threshold; queries at larger distances do not match."""

    @abstractmethod
    def decision(self, pixels: torch.Tensor) -> Decision:
        """Return the answer of the service, not counted as a query (``decide`` counts it)."""

    @abstractmethod
    def distance(self, pixels: torch.Tensor) -> float:
        """Return the score of the service, not counted as a query (``score`` counts it)."""

    @abstractmethod
    def plain_distance(self, pixels: torch.Tensor) -> float:
        """Return the score of the plain hash, without noise, not counted as a query (``plain_score`` counts it)."""

    @abstractmethod
    def noisy_distance(self, pixels: torch.Tensor, count: int, source: GaussianSource) -> float:
        """Return the attacker's estimate of the distance, on the attacker's noise."""

    @abstractmethod
    def with_noise(self, noise: GaussianSource) -> Self:
        """Return a copy that draws the defender's noise from ``noise``; so resumed work gets the same noise."""

    @abstractmethod
    def for_known_queries(self) -> Self:
        """Return a copy for queries that do not depend on its answers; their noisy reference codes are drawn once."""

    def decide(self, pixels: torch.Tensor) -> Decision:
        """Ask the service for a decision; counts as one query."""
        self.queries += 1
        return self.decision(pixels)

    def score(self, pixels: torch.Tensor) -> float:
        """Ask the service for its score; counts as one query."""
        self.queries += 1
        return self.distance(pixels)

    def plain_score(self, pixels: torch.Tensor) -> float:
        """Ask the service for the score of the plain hash, which it may leak; counts as one query."""
        self.queries += 1
        return self.plain_distance(pixels)

    def require_differentiable(self) -> None:
        """Raise an error if a hash has no gradients of bits, which white-box attacks need."""
        for hash_ in (member.hash for member in self.members):
            if not hash_.is_differentiable:
                raise InputError(f"hash {hash_.name} has no gradient: only black-box attacks (nes) can be used")
            if hash_.rule == "native":
                raise InputError(
                    f"the native rule of {hash_.name} compares no bits: only black-box attacks (nes) can be used"
                )

    def start(self, query: CanonicalImage, *, matching: bool = True) -> torch.Tensor:
        """Return the query rounded to 8 bits, where the attack starts; an error if the attack has nothing to do."""
        pixels = to_8bit(query.pixels).to(self.members[0].hash.device)
        decision = self.decision(pixels)
        self.queries = 0
        if matching and decision != Decision.MATCH:
            raise NothingToAttackError(
                f"{query.name} does not match {self.name} to begin with ({decision.value}); there is nothing to evade"
            )
        if not matching and decision == Decision.MATCH:
            raise NothingToAttackError(f"{query.name} matches {self.name} already; give an unrelated query")
        return pixels


@dataclass(eq=False)
class Victim(Target):
    """A plain hash, or a smoothed matcher (``matcher`` set), with one enrolled reference.

    ``hash`` is the hash for gradients, behind the matcher's low-pass if there is one. ``noise`` is the defender's; the
    attacker draws separate noise. ``views`` are those in which a plain hash looks at the query; a matcher has its own.

    With several trials, distances are those of the nearest trial in units of its boundary. With ``trial``, distances
    and gradients are those of this trial; the decision is still the matcher's.
    """

    hash: PerceptualHash
    name: str
    reference: MemberReference
    matcher: SmoothedMatcher | None = None
    noise: GaussianSource = field(default_factory=GaussianSource.secret)
    queries: int = 0
    service: Service | None = None
    views: tuple[View, ...] = (IDENTITY,)
    trial: Trial | None = None

    @staticmethod
    def plain(hash_: PerceptualHash, reference: ImageLike, views: Views = NO_VIEWS) -> Victim:
        """Return the unprotected hash with its own matching rule as a victim: any pair of views may match."""
        image = as_image(reference)
        codes = torch.stack([hash_.code(shown(image.pixels, view)) for view in views.reference])
        kept = MemberReference({}, codes[0], (Level(0.0, codes, hash_.threshold),))
        return Victim(hash_, image.name, kept, views=views.query)

    def with_noise(self, noise: GaussianSource) -> Victim:
        """Return a copy with other noise of the defender."""
        return replace(self, noise=noise)

    @property
    def members(self) -> tuple[Victim, ...]:
        """This hash alone."""
        return (self,)

    # -- trials ------------------------------------------------------------------------------------

    @property
    def _ways(self) -> tuple[Trial, ...]:
        """The trials in which a query is compared."""
        if self.trial is not None:
            return (self.trial,)
        if self.matcher is not None:
            return self.matcher.trials(self.reference)
        return tuple(Trial(view, self.reference.levels[0]) for view in self.views)

    @property
    def trials(self) -> tuple[Victim, ...]:
        """One victim for each trial; this one if there is only one."""
        ways = self._ways
        return (self,) if len(ways) == 1 else tuple(replace(self, trial=way) for way in ways)

    @property
    def way(self) -> Trial:
        """The trial of gradients."""
        return self._ways[0]

    @property
    def judge(self) -> PerceptualHash:
        """The hash with the threshold of the trial, which may be lower for this reference."""
        return self.way.judge(self.hash)

    @property
    def boundary(self) -> float:
        """Decision threshold; smaller distances match."""
        return self.judge.boundary if len(self._ways) == 1 else 1.0

    def for_known_queries(self) -> Victim:
        """Return a copy that uses one set of noisy reference codes for all queries."""
        if self.matcher is None:
            return self
        return replace(self, reference=self.matcher.for_known_queries(self.reference, self.noise))

    # -- gradients ---------------------------------------------------------------------------------

    @property
    def sigma(self) -> float:
        """The sigma that an adaptive attacker averages over; 0 for a plain hash."""
        return self.way.level.sigma if self.matcher else 0.0

    @property
    def signs(self) -> torch.Tensor:
        """The reference's bits as -1 and 1, on the hash's device."""
        return signs(self.way.level.code).to(self.hash.device)

    @property
    def view_signs(self) -> torch.Tensor:
        """The bits of all views of the reference as -1 and 1 ``(views, bits)``."""
        return signs(self.way.level.codes).to(self.hash.device)

    def noisy_margins(self, pixels: torch.Tensor, count: int, source: GaussianSource) -> torch.Tensor:
        """Return margins ``(count, bits)`` under the deployed kind of noise, differentiable; one row without noise."""
        hash_, view = accelerated(self.hash), self.way.view
        if self.matcher is None:
            return behind(hash_, view).margins(pixels[None])
        return self.matcher.sampler.noise.margins(hash_, pixels, self.sigma, count, source, view)

    def loss(self, image: torch.Tensor, draws: int, source: GaussianSource, towards: float) -> torch.Tensor:
        """Return the objective of an attack, averaged over draws: to evade (``towards`` 1), or to collide (-1)."""
        judge = self.judge
        flips = needed_flips(judge.max_distance, judge.bits)
        margins = self.noisy_margins(image, draws, source)
        if len(self.way.level.codes) > 1:
            if towards > 0:
                return flip_all_margin(margins, self.view_signs, flips).mean()
            codes = nearest_view(margins, self.view_signs)
        else:
            codes = self.reference_signs(draws, source)
        if towards > 0:
            return flip_margin(margins, codes, flips).mean()
        return join_margin(margins, codes, judge.max_distance).mean()

    def reference_signs(self, count: int, source: GaussianSource) -> torch.Tensor:
        """Return the reference codes of ``count`` votes as -1 and 1: one code, bank entries, or fresh noisy codes."""
        if self.reference.bank is not None:
            codes = self.reference.bank[source.integers(count, len(self.reference.bank))]
        elif self.reference.pixels is not None and self.matcher is not None:
            sampler = self.matcher.sampler
            codes = torch.cat(list(sampler.codes(self.reference.pixels, self.sigma, count, source)))
        else:
            return self.signs
        return signs(codes).to(self.hash.device)

    # -- distances and decisions -------------------------------------------------------------------

    def drawn_distances(self, pixels: torch.Tensor, count: int, source: GaussianSource) -> torch.Tensor:
        """Return the distances of votes of the trial, with the deployed engine; one distance without noise."""
        if self.matcher is None:
            return torch.tensor([self.noisy_distance(pixels, count, source)])
        return self.matcher.distances(self.reference, pixels, count, source, source, self.trial)

    def noisy_distance(self, pixels: torch.Tensor, count: int, source: GaussianSource) -> float:
        """Return the mean distance over votes, with the deployed engine and noise from ``source``."""
        if self.matcher is None:
            return self.plain_distance(pixels)
        trials = self.trials
        if len(trials) > 1:
            return look(trials, pixels, count, source).least
        return float(self.drawn_distances(pixels, count, source).float().mean())

    def decision(self, pixels: torch.Tensor) -> Decision:
        """Decide by the plain hash's rule, or by votes on the defender's noise with the deployment's abstentions."""
        if self.matcher is None:
            pairs = ((self.plain_code(pixels, way.view), way.level.codes) for way in self._ways)
            matched = any(bool(self.hash.matches(code, codes).any()) for code, codes in pairs)
            return Decision.MATCH if matched else Decision.NO_MATCH
        found = self.matcher.certify(self.reference, pixels.cpu(), self.noise.fork("match")).decision
        return self.matcher.abstain_as if found is Decision.ABSTAIN else found

    def distance(self, pixels: torch.Tensor) -> float:
        """Return the distance of the plain hash, or under smoothing the mean distance of votes."""
        if self.matcher is None:
            return self.plain_distance(pixels)
        draws = SCORE_DRAWS if self.hash.has_small_network else NETWORK_SCORE_DRAWS
        return self.noisy_distance(pixels, draws, self.noise.fork("score"))

    def plain_code(self, pixels: torch.Tensor, view: View) -> torch.Tensor:
        """Return the code of the hash of a view of an image, without noise."""
        return self.hash.code(shown(pixels, view))

    def plain_distance(self, pixels: torch.Tensor) -> float:
        """Return the distance of the plain hash; of one behind a matcher, that of the images as they are."""
        if self.matcher is None:
            found = min(
                float(self.hash.distances(self.plain_code(pixels, way.view), way.level.codes).min())
                for way in self._ways
            )
            unit = self.hash.boundary
        else:
            plain = self.matcher.plain_hash
            found, unit = float(plain.distances(plain.code(pixels), self.reference.plain)), plain.boundary
        return found if len(self._ways) == 1 else found / unit
