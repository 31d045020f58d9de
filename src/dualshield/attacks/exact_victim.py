"""An exact matcher under attack: its decision is a known function with a gradient, and there is no noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from dualshield.attacks.victim import Service, Victim
from dualshield.smoothing.exact.reference import ExactReference
from dualshield.smoothing.exact_matcher import DeployedExactMatcher
from dualshield.smoothing.member_reference import MemberReference
from dualshield.smoothing.names import Origin
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.statistics import Decision


@dataclass(eq=False)
class ExactVictim(Victim):
    """A victim whose score is the soft distance, in bits."""

    exact: DeployedExactMatcher | None = None
    kept: ExactReference | None = None

    @staticmethod
    def of(matcher: DeployedExactMatcher, name: str, kept: ExactReference, service: Service) -> ExactVictim:
        """Return the matcher with this reference enrolled."""
        levels = tuple(replace(level, codes=torch.from_numpy(level.codes)) for level in kept.levels)
        seen = MemberReference(kept.terms, torch.from_numpy(kept.plain), levels)
        return ExactVictim(matcher.hash, name, seen, service=service, exact=matcher, kept=kept)

    @property
    def noise_source(self) -> Origin | None:
        """None: nothing is drawn."""
        return None

    @property
    def parts(self) -> tuple[DeployedExactMatcher, ExactReference]:
        """The matcher and its reference."""
        assert self.exact is not None
        assert self.kept is not None
        return self.exact, self.kept

    @property
    def sigma(self) -> float:
        """The sigma of the smoothing, which is computed and not drawn."""
        return self.reference.sigma

    @property
    def boundary(self) -> float:
        """The largest soft distance that matches, in bits."""
        _, kept = self.parts
        return kept.threshold * self.hash.bits

    def soft_distance(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the soft distance in bits, differentiable."""
        matcher, kept = self.parts
        return matcher.soft_distance(kept, pixels)

    def loss(self, image: torch.Tensor, draws: int, source: GaussianSource, towards: float) -> torch.Tensor:
        """Return how far the soft distance is from the other side, as a fraction of the bits."""
        return towards * (self.boundary - self.soft_distance(image)) / self.hash.bits

    def decision(self, pixels: torch.Tensor) -> Decision:
        """Decide by the soft distance."""
        matcher, kept = self.parts
        return matcher.decide(kept, pixels.detach().cpu().numpy())

    def distance(self, pixels: torch.Tensor) -> float:
        """Return the soft distance in bits."""
        matcher, kept = self.parts
        return matcher.distance(kept, pixels.detach().cpu().numpy())

    def noisy_distance(self, pixels: torch.Tensor, count: int, source: GaussianSource) -> float:
        """Return the soft distance: the mean over noise, without drawing any."""
        return self.distance(pixels)

    def plain_distance(self, pixels: torch.Tensor) -> float:
        """Return the distance of the plain hash."""
        plain = self.parts[0].plain_hash
        return float(plain.distances(plain.code(pixels), self.reference.plain))
