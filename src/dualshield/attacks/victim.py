"""The matcher under attack, as an attacker meets it: decisions that count as queries, gradients that do not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch

from dualshield.attacks.space import saved
from dualshield.errors import InputError, NothingToAttackError
from dualshield.hashes.contract import PerceptualHash
from dualshield.hashes.margins import signs
from dualshield.images.canonical import CanonicalImage
from dualshield.images.frontend import Expansion
from dualshield.smoothing.matcher import SmoothedMatcher
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.reference import Reference
from dualshield.smoothing.statistics import Decision

Against = Literal["original", "smoothing", "hardening", "ours"]

# What a service that tells a score averages over. A network's draws cost a thousand times those of a light hash.
SCORE_DRAWS = 32
NETWORK_SCORE_DRAWS = 8


@dataclass(eq=False)
class Victim:
    """A plain hash, or a smoothed matcher (``matcher`` set), with one enrolled reference.

    ``hash`` is what gradients go through: behind the matcher's low-pass where there is one. ``code`` is what queries
    are compared with, in its signs.
    """

    hash: PerceptualHash
    reference: Reference
    matcher: SmoothedMatcher | None = None
    queries: int = 0

    @staticmethod
    def plain(hash_: PerceptualHash, reference: CanonicalImage) -> Victim:
        """The original hash and its native matching rule."""
        code = hash_.code(reference.pixels)
        return Victim(hash_, Reference(reference.name, 0.0, code, code))

    @staticmethod
    def smoothed(matcher: SmoothedMatcher, reference: CanonicalImage) -> Victim:
        """A deployed smoothed matcher; the attacker's noise is its own, never the defender's."""
        return Victim(matcher.hash, matcher.enroll(reference), matcher)

    @property
    def sigma(self) -> float:
        """The noise an adaptive attacker has to average over; 0 for a plain hash."""
        return self.reference.sigma if self.matcher else 0.0

    @property
    def signs(self) -> torch.Tensor:
        """The reference's bits as -1 and 1, on the hash's device."""
        return signs(self.reference.code).to(self.hash.device)

    def require_differentiable(self) -> None:
        """White-box attacks need gradients; a hash without any can only be attacked by queries."""
        if not self.hash.is_differentiable:
            raise InputError(f"hash {self.hash.name} has no gradient: only black-box attacks (nes) can be used")

    def noisy_margins(self, pixels: torch.Tensor, count: int, source: GaussianSource) -> torch.Tensor:
        """Margins ``(count, bits)`` under the deployed kind of noise, differentiable; without noise, one row."""
        if self.matcher is None:
            return self.hash.margins(pixels[None])
        if self.matcher.config.noise == "clipped":
            noise = source.normal((count, *pixels.shape)).to(pixels.device)
            return self.hash.margins((pixels + self.sigma * noise).clamp(0, 1))
        core = self.hash.front_end.core(pixels)
        noise = source.normal((count, *core.shape)).to(core.device)
        margins: torch.Tensor = self.hash.network(self._expansion(core + self.sigma * noise))
        return margins

    def noisy_distance(self, pixels: torch.Tensor, count: int, source: GaussianSource) -> float:
        """The mean Hamming distance over votes, on the forward engine and the attacker's noise."""
        if self.matcher is None:
            return self._plain_distance(pixels)
        queries = self.matcher.sampler.codes(pixels, self.sigma, count, source)
        pairs = self.reference.pair(queries, count, self.matcher.sampler, source)
        return float(torch.cat([(codes ^ other).sum(-1) for codes, other in pairs]).float().mean())

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

    @cached_property
    def _expansion(self) -> Expansion:
        return self.hash.front_end.expansion().to(self.hash.device)

    def decide(self, pixels: torch.Tensor) -> Decision:
        """One query to the service."""
        self.queries += 1
        if self.matcher is None:
            matched = bool(self.hash.matches(self.hash.code(pixels), self.reference.code))
            return Decision.MATCH if matched else Decision.NO_MATCH
        image = CanonicalImage(pixels.cpu(), "query")
        return self.matcher.match(self.reference, image).decision

    def score(self, pixels: torch.Tensor) -> float:
        """One query to a service that tells its Hamming score; under smoothing the mean over its votes' distances."""
        self.queries += 1
        if self.matcher is None:
            return self._plain_distance(pixels)
        draws = SCORE_DRAWS if self.hash.is_light else NETWORK_SCORE_DRAWS
        return self.noisy_distance(pixels, draws, self.matcher.source.fork("score"))

    def plain_score(self, pixels: torch.Tensor) -> float:
        """One query to a service that leaks the Hamming distance of its plain hash, whatever it decides by."""
        self.queries += 1
        return self._plain_distance(pixels)

    def _plain_distance(self, pixels: torch.Tensor) -> float:
        plain = self.hash if self.matcher is None else self.matcher.plain_hash
        return float(plain.distances(plain.code(pixels), self.reference.plain))

    def start(self, query: CanonicalImage, *, matching: bool = True) -> torch.Tensor:
        """Where an attack begins: the query as a file holds it, after checking that there is something to achieve."""
        pixels = saved(query.pixels).to(self.hash.device)
        decision = self.decide(pixels)
        self.queries = 0
        if matching and decision != Decision.MATCH:
            raise NothingToAttackError(
                f"{query.name} does not match {self.reference.name} to begin with ({decision.value}): nothing to evade"
            )
        if not matching and decision == Decision.MATCH:
            raise NothingToAttackError(f"{query.name} matches {self.reference.name} already: nothing to collide")
        return pixels
