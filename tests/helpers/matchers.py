"""Matchers whose noise is seeded, and images at known distances from the boundary of a half-space."""

from __future__ import annotations

from dataclasses import replace

import torch

from dualshield.hashes import PerceptualHash
from dualshield.images import CanonicalImage
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.matcher import SmoothedMatcher
from dualshield.smoothing.member_reference import MemberReference
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.reference import Reference
from dualshield.smoothing.result import MatchResult

SIGMA = 0.5
ONE = torch.tensor([True])


def at_distance(gradient: torch.Tensor, distance: float) -> CanonicalImage:
    """An image at this signed l2 distance from the hyperplane (which goes through the origin)."""
    return CanonicalImage(gradient / gradient.norm() * distance, f"at {distance:g}")


def voting(deployment: Deployment) -> SmoothedMatcher:
    """The only matcher of a deployment that decides by votes."""
    (matcher,) = deployment.matchers
    assert isinstance(matcher, SmoothedMatcher), "decides exactly"
    return matcher


def kept(reference: Reference) -> MemberReference:
    """What the only matcher of votes keeps of a reference."""
    (member,) = reference.members
    assert isinstance(member, MemberReference), "enrolled for exact decisions"
    return member


class Matcher:
    """A deployment of one hash, whose noise comes from one seeded stream."""

    def __init__(self, hash_: PerceptualHash, config: MatcherConfig, seed: int = 0) -> None:
        self.deployment = deploy(hash_, config=config)
        self.noise = GaussianSource.from_seed(seed)

    @property
    def voter(self) -> SmoothedMatcher:
        return voting(self.deployment)

    def enroll(self, image: CanonicalImage) -> Reference:
        return self.deployment.enroll(image)

    def enroll_code(self, code: torch.Tensor) -> Reference:
        return self.deployment.enroll_code(code)

    def for_known_queries(self, reference: Reference) -> Reference:
        return self.deployment.for_known_queries(reference, self.noise)

    def match(self, reference: Reference, query: CanonicalImage) -> MatchResult:
        return self.deployment.match(reference, query, noise=self.noise)

    def count(self, reference: Reference | MemberReference, pixels: torch.Tensor, draws: int, seed: int) -> int:
        member = kept(reference) if isinstance(reference, Reference) else reference
        return self.voter.count(member, pixels, draws, GaussianSource.from_seed(seed))


def matcher_for(hash_: PerceptualHash, seed: int = 0, **changes: object) -> Matcher:
    return Matcher(hash_, replace(MatcherConfig(sigma=SIGMA, n=400), **changes), seed)  # type: ignore[arg-type]
