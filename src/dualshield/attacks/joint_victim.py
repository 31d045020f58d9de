"""Several hashes behind one service: any member's match is a match, so evasion must get past all of them at once."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from dualshield.attacks.victim import Target, Victim
from dualshield.smoothing.joint_decision import joint_decision
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.statistics import Decision


class JointVictim(Target):
    """The members with the same reference enrolled; one call to the service is one query, however many they are.

    Its distance, and so the score it tells, is that of the nearest member in units of that member's boundary: this is
    the one number that the joint decision depends on, and it exceeds 1 only where no member matches any more.
    """

    def __init__(self, members: Iterable[Victim]) -> None:
        self._members = tuple(members)
        self.name, self.service = self._members[0].name, self._members[0].service
        self.queries = 0

    @property
    def members(self) -> tuple[Victim, ...]:
        """All of them: an evasion has to get past each."""
        return self._members

    def with_noise(self, noise: GaussianSource) -> JointVictim:
        """Each member with a stream of its own."""
        return JointVictim(member.with_noise(noise.fork(f"member {member.hash.name}")) for member in self.members)

    def for_known_queries(self) -> JointVictim:
        """Each member with one set of noisy codes."""
        return JointVictim(member.for_known_queries() for member in self.members)

    @property
    def boundary(self) -> float:
        """Where the nearest member is at its own."""
        return 1.0

    def decision(self, pixels: torch.Tensor) -> Decision:
        """A match if any member says so."""
        return joint_decision(member.decision(pixels) for member in self.members)

    def distance(self, pixels: torch.Tensor) -> float:
        """Of the nearest member, over the votes of the service."""
        return self._nearest(member.distance(pixels) for member in self.members)

    def plain_distance(self, pixels: torch.Tensor) -> float:
        """Of the nearest plain hash."""
        return self._nearest(member.plain_distance(pixels) for member in self.members)

    def noisy_distance(self, pixels: torch.Tensor, count: int, source: GaussianSource) -> float:
        """Of the nearest member, on the attacker's noise, fresh for each."""
        return self._nearest(member.noisy_distance(pixels, count, source) for member in self.members)

    def _nearest(self, distances: Iterable[float]) -> float:
        return min(distance / member.boundary for distance, member in zip(distances, self.members, strict=True))
