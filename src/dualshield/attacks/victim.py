"""The matcher under attack, as an attacker meets it: decisions that count as queries, gradients that do not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Self

import torch

from dualshield.engines.gradients import accelerated
from dualshield.errors import InputError, NothingToAttackError
from dualshield.hashes.margins import signs
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images import CanonicalImage, ImageLike, as_image
from dualshield.images.eight_bit import to_8bit
from dualshield.smoothing.matcher import SmoothedMatcher
from dualshield.smoothing.member_reference import MemberReference
from dualshield.smoothing.noise import GaussianSource, Origin
from dualshield.smoothing.statistics import Decision

# What a service that tells a score averages over. A network's draws cost a thousand times those of a light hash.
SCORE_DRAWS = 32
NETWORK_SCORE_DRAWS = 8


@dataclass(frozen=True)
class Service:
    """What is attacked, for the record."""

    deployment: str  # its digest
    reference_fingerprint: str


class Target(ABC):
    """What attacks need of a service with one enrolled reference, whether it asks one hash or several."""

    queries: int
    name: str  # of the reference
    service: Service | None  # what it is, where it is more than plain hashes

    @property
    def noise_source(self) -> Origin | None:
        """Whether the defender's noise is secret; None where there is none."""
        return None if self.service is None else self.members[0].noise.origin

    @property
    @abstractmethod
    def members(self) -> tuple[Victim, ...]:
        """Its hashes: gradients go through them one by one."""

    @property
    @abstractmethod
    def boundary(self) -> float:
        """The distance beyond which a query does not match any more."""

    @abstractmethod
    def decision(self, pixels: torch.Tensor) -> Decision:
        """What the service answers; ``decide`` counts it as a query."""

    @abstractmethod
    def distance(self, pixels: torch.Tensor) -> float:
        """What a service that tells its score would tell; ``score`` counts it as a query."""

    @abstractmethod
    def plain_distance(self, pixels: torch.Tensor) -> float:
        """The same without any noise; ``plain_score`` counts it as a query."""

    @abstractmethod
    def noisy_distance(self, pixels: torch.Tensor, count: int, source: GaussianSource) -> float:
        """The attacker's own estimate of the distance, on its own noise."""

    @abstractmethod
    def with_noise(self, noise: GaussianSource) -> Self:
        """The same service, which draws its noise from here: work that is resumed gets the noise it would have had."""

    @abstractmethod
    def for_known_queries(self) -> Self:
        """The service as it answers queries that do not depend on its answers: reference codes may be drawn once."""

    def decide(self, pixels: torch.Tensor) -> Decision:
        """One query to the service."""
        self.queries += 1
        return self.decision(pixels)

    def score(self, pixels: torch.Tensor) -> float:
        """One query to a service that tells its score."""
        self.queries += 1
        return self.distance(pixels)

    def plain_score(self, pixels: torch.Tensor) -> float:
        """One query to a service that leaks the score of the plain hash, whatever it decides by."""
        self.queries += 1
        return self.plain_distance(pixels)

    def require_differentiable(self) -> None:
        """White-box attacks need gradients of bits; without them a hash can only be attacked by queries."""
        for hash_ in (member.hash for member in self.members):
            if not hash_.is_differentiable:
                raise InputError(f"hash {hash_.name} has no gradient: only black-box attacks (nes) can be used")
            if hash_.rule == "native":
                raise InputError(
                    f"the native rule of {hash_.name} compares no bits: only black-box attacks (nes) can be used"
                )

    def start(self, query: CanonicalImage, *, matching: bool = True) -> torch.Tensor:
        """Where an attack begins: the query as a file holds it, after checking that there is something to achieve."""
        pixels = to_8bit(query.pixels).to(self.members[0].hash.device)
        decision = self.decision(pixels)
        self.queries = 0
        if matching and decision != Decision.MATCH:
            raise NothingToAttackError(
                f"{query.name} does not match {self.name} to begin with ({decision.value}): nothing to evade"
            )
        if not matching and decision == Decision.MATCH:
            raise NothingToAttackError(f"{query.name} matches {self.name} already: nothing to collide")
        return pixels


@dataclass(eq=False)
class Victim(Target):
    """A plain hash, or a smoothed matcher (``matcher`` set), with one enrolled reference.

    ``hash`` is what gradients go through: behind the matcher's low-pass where there is one. ``code`` is what queries
    are compared with, in its signs. ``noise`` is the defender's; the attacker draws its own.
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
        """The original hash and its native matching rule."""
        image = as_image(reference)
        code = hash_.code(image.pixels)
        return Victim(hash_, image.name, MemberReference({}, 0.0, code, code))

    def with_noise(self, noise: GaussianSource) -> Victim:
        """The same, with other noise of the defender."""
        return replace(self, noise=noise)

    @property
    def members(self) -> tuple[Victim, ...]:
        """One hash is all there is to evade."""
        return (self,)

    @property
    def boundary(self) -> float:
        """The Hamming distance between those that match and those that do not."""
        return self.hash.boundary

    def for_known_queries(self) -> Victim:
        """With one set of noisy codes for all queries, where each would have had its own."""
        if self.matcher is None:
            return self
        return replace(self, reference=self.matcher.for_known_queries(self.reference, self.noise))

    @property
    def sigma(self) -> float:
        """The noise an adaptive attacker has to average over; 0 for a plain hash."""
        return self.reference.sigma if self.matcher else 0.0

    @property
    def signs(self) -> torch.Tensor:
        """The reference's bits as -1 and 1, on the hash's device."""
        return signs(self.reference.code).to(self.hash.device)

    def noisy_margins(self, pixels: torch.Tensor, count: int, source: GaussianSource) -> torch.Tensor:
        """Margins ``(count, bits)`` under the deployed kind of noise, differentiable; without noise, one row."""
        hash_ = accelerated(self.hash)
        if self.matcher is None:
            return hash_.margins(pixels[None])
        return self.matcher.sampler.noise.margins(hash_, pixels, self.sigma, count, source)

    def noisy_distance(self, pixels: torch.Tensor, count: int, source: GaussianSource) -> float:
        """The mean distance over votes, on the forward engine and the attacker's noise."""
        if self.matcher is None:
            return self.plain_distance(pixels)
        queries = self.matcher.sampler.codes(pixels, self.sigma, count, source)
        pairs = self.reference.pair(queries, count, self.matcher.sampler, source)
        return float(torch.cat([self.hash.distances(codes, other) for codes, other in pairs]).float().mean())

    def reference_signs(self, count: int, source: GaussianSource) -> torch.Tensor:
        """What ``count`` votes compare with, as -1 and 1: one code, bank entries, or fresh noisy codes."""
        if self.reference.bank is not None:
            codes = self.reference.bank[source.integers(count, len(self.reference.bank))]
        elif self.reference.pixels is not None and self.matcher is not None:
            sampler = self.matcher.sampler
            codes = torch.cat(list(sampler.codes(self.reference.pixels, self.sigma, count, source)))
        else:
            return self.signs
        return signs(codes).to(self.hash.device)

    def decision(self, pixels: torch.Tensor) -> Decision:
        """By the plain hash's matching rule, or by votes on the defender's noise, abstentions as they are deployed."""
        if self.matcher is None:
            matched = bool(self.hash.matches(self.hash.code(pixels), self.reference.code))
            return Decision.MATCH if matched else Decision.NO_MATCH
        found = self.matcher.certify(self.reference, pixels.cpu(), self.noise.fork("match")).decision
        return self.matcher.abstain_as if found is Decision.ABSTAIN else found

    def distance(self, pixels: torch.Tensor) -> float:
        """The Hamming distance; under smoothing the mean over the votes' distances."""
        if self.matcher is None:
            return self.plain_distance(pixels)
        draws = SCORE_DRAWS if self.hash.has_small_network else NETWORK_SCORE_DRAWS
        return self.noisy_distance(pixels, draws, self.noise.fork("score"))

    def plain_distance(self, pixels: torch.Tensor) -> float:
        """The Hamming distance of the plain hash."""
        plain = self.hash if self.matcher is None else self.matcher.plain_hash
        return float(plain.distances(plain.code(pixels), self.reference.plain))
