"""Several hashes behind one service: the match of any member is a match, so an attack must evade all of them."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from dualshield.attacks.victim import Target, Victim
from dualshield.smoothing.joint_decision import joint_decision
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.statistics import Decision


class JointVictim(Target):
    """Several members with the same reference enrolled; a call to the service is one query, not one per member.

    The distance, which is also the score, is that of the nearest member in units of that member's boundary. The joint
    decision depends on this number alone; it exceeds 1 only if no member matches. A member may have several trials.
    """

    def __init__(self, members: Iterable[Victim]) -> None:
        self._members = tuple(members)
        self.name, self.service = self._members[0].name, self._members[0].service
        self.queries = 0

    @property
    def members(self) -> tuple[Victim, ...]:
        """All members; an attack must evade each of them."""
        return self._members

    def with_noise(self, noise: GaussianSource) -> JointVictim:
        """Return a copy whose members draw from separate streams of ``noise``."""
        return JointVictim(member.with_noise(noise.fork(f"member {member.hash.name}")) for member in self.members)

    def for_known_queries(self) -> JointVictim:
        """Return a copy whose members use one set of noisy reference codes for all queries."""
        return JointVictim(member.for_known_queries() for member in self.members)

    @property
    def boundary(self) -> float:
        """The boundary in units of the nearest member's boundary."""
        return 1.0

    def decision(self, pixels: torch.Tensor) -> Decision:
        """Return the joint decision: a match if any member matches."""
        return joint_decision(member.decision(pixels) for member in self.members)

    def distance(self, pixels: torch.Tensor) -> float:
        """Return the distance of the nearest member, over the votes of the service."""
        return self._nearest(member.distance(pixels) for member in self.members)

    def plain_distance(self, pixels: torch.Tensor) -> float:
        """Return the distance of the nearest plain hash."""
        return self._nearest(member.plain_distance(pixels) for member in self.members)

    def noisy_distance(self, pixels: torch.Tensor, count: int, source: GaussianSource) -> float:
        """Return the distance of the nearest member on the attacker's noise, which is fresh for each member."""
        return self._nearest(member.noisy_distance(pixels, count, source) for member in self.members)

    def _nearest(self, distances: Iterable[float]) -> float:
        return min(distance / member.boundary for distance, member in zip(distances, self.members, strict=True))
