"""The matcher under attack: its decisions and scores count as queries, its gradients do not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Self

import torch

from dualshield.attacks.objective import flip_margin, join_margin, needed_flips
from dualshield.engines.gradients import accelerated
from dualshield.errors import InputError, NothingToAttackError
from dualshield.hashes.margins import signs
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images import CanonicalImage, ImageLike, as_image
from dualshield.images.eight_bit import to_8bit
from dualshield.smoothing.level import Level
from dualshield.smoothing.matcher import SmoothedMatcher
from dualshield.smoothing.member_reference import MemberReference
from dualshield.smoothing.names import Origin
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.statistics import Decision

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
        """The hashes; gradients are taken for each of them."""

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
    attacker draws separate noise.
    """

    hash: PerceptualHash
    name: str
    reference: MemberReference
    matcher: SmoothedMatcher | None = None
    noise: GaussianSource = field(default_factory=GaussianSource.secret)
    queries: int = 0
    service: Service | None = None

    @staticmethod
    def plain(hash_: PerceptualHash, reference: ImageLike) -> Victim:
        """Return the unprotected hash with its own matching rule as a victim."""
        image = as_image(reference)
        code = hash_.code(image.pixels)
        return Victim(hash_, image.name, MemberReference({}, code, (Level(0.0, code[None], hash_.threshold),)))

    def with_noise(self, noise: GaussianSource) -> Victim:
        """Return a copy with other noise of the defender."""
        return replace(self, noise=noise)

    @property
    def members(self) -> tuple[Victim, ...]:
        """This hash alone."""
        return (self,)

    @property
    def boundary(self) -> float:
        """Decision threshold; smaller distances match."""
        return self.hash.boundary

    def for_known_queries(self) -> Victim:
        """Return a copy that uses one set of noisy reference codes for all queries."""
        if self.matcher is None:
            return self
        return replace(self, reference=self.matcher.for_known_queries(self.reference, self.noise))

    @property
    def sigma(self) -> float:
        """The sigma that an adaptive attacker averages over; 0 for a plain hash."""
        return self.reference.sigma if self.matcher else 0.0

    @property
    def signs(self) -> torch.Tensor:
        """The reference's bits as -1 and 1, on the hash's device."""
        return signs(self.reference.code).to(self.hash.device)

    def noisy_margins(self, pixels: torch.Tensor, count: int, source: GaussianSource) -> torch.Tensor:
        """Return margins ``(count, bits)`` under the deployed kind of noise, differentiable; one row without noise."""
        hash_ = accelerated(self.hash)
        if self.matcher is None:
            return hash_.margins(pixels[None])
        return self.matcher.sampler.noise.margins(hash_, pixels, self.sigma, count, source)

    def loss(self, image: torch.Tensor, draws: int, source: GaussianSource, towards: float) -> torch.Tensor:
        """Return the objective of an attack, averaged over draws: to evade (``towards`` 1), or to collide (-1)."""
        margins, codes = self.noisy_margins(image, draws, source), self.reference_signs(draws, source)
        if towards > 0:
            return flip_margin(margins, codes, needed_flips(self.hash.max_distance, self.hash.bits)).mean()
        return join_margin(margins, codes, self.hash.max_distance).mean()

    def noisy_distance(self, pixels: torch.Tensor, count: int, source: GaussianSource) -> float:
        """Return the mean distance over votes, with the deployed engine and noise from ``source``."""
        if self.matcher is None:
            return self.plain_distance(pixels)
        return float(self.matcher.distances(self.reference, pixels, count, source, source).float().mean())

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

    def decision(self, pixels: torch.Tensor) -> Decision:
        """Decide by the plain hash's rule, or by votes on the defender's noise with the deployment's abstentions."""
        if self.matcher is None:
            matched = bool(self.hash.matches(self.hash.code(pixels), self.reference.code))
            return Decision.MATCH if matched else Decision.NO_MATCH
        found = self.matcher.certify(self.reference, pixels.cpu(), self.noise.fork("match")).decision
        return self.matcher.abstain_as if found is Decision.ABSTAIN else found

    def distance(self, pixels: torch.Tensor) -> float:
        """Return the distance of the plain hash, or under smoothing the mean distance of votes."""
        if self.matcher is None:
            return self.plain_distance(pixels)
        draws = SCORE_DRAWS if self.hash.has_small_network else NETWORK_SCORE_DRAWS
        return self.noisy_distance(pixels, draws, self.noise.fork("score"))

    def plain_distance(self, pixels: torch.Tensor) -> float:
        """Return the distance of the plain hash."""
        plain = self.hash if self.matcher is None else self.matcher.plain_hash
        return float(plain.distances(plain.code(pixels), self.reference.plain))
