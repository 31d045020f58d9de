"""Several hashes at once: a pair matches if any member says so, and an attacker must evade all of them together.

Each member is a smoothed matcher of its own with alpha divided by their number, so that all their certificates hold
together with probability 1 - alpha (union bound), whichever of them is then quoted:

* a match holds as long as any member's match does: the largest radius of those that match;
* a non-match needs every member's non-match: the smallest radius of all.

The price is false matches, which add up: at most the sum of the members' rates.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from dualshield.errors import InputError
from dualshield.hashes.contract import PerceptualHash
from dualshield.images.canonical import CanonicalImage
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.matcher import MatchResult, SmoothedMatcher
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.reference import Reference
from dualshield.smoothing.statistics import Decision

MAX_MEMBERS = 8


@dataclass(frozen=True)
class EnsembleResult:
    """The joint decision, its certificate, and what each member said."""

    reference: str
    query: str
    hash: str
    decision: Decision
    radius: float
    radius_space: str
    radius_upload: float | None
    alpha: float  # of the joint certificate
    members: tuple[MatchResult, ...]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class EnsembleReference:
    """One reference image as each member enrolled it."""

    name: str
    members: tuple[Reference, ...]


class EnsembleMatcher:
    """Matches by several hashes; the same calls as a SmoothedMatcher."""

    def __init__(
        self,
        members: Sequence[tuple[PerceptualHash, MatcherConfig]],
        *,
        engine: str = "auto",
        device: str = "cpu",
        batch_size: int | None = None,
        source: GaussianSource | None = None,
    ) -> None:
        names = [hash_.name for hash_, _ in members]
        check_members(names)
        alphas = {config.alpha for _, config in members}
        if len(alphas) > 1:
            raise InputError(f"several hashes at once: their alphas differ ({', '.join(map(str, sorted(alphas)))})")
        self.name = "+".join(names)
        self.alpha = alphas.pop()
        source = source or GaussianSource.secret()
        self.members = tuple(
            SmoothedMatcher(
                hash_,
                replace(config, alpha=self.alpha / len(members)),
                engine=engine,
                device=device,
                batch_size=batch_size,
                source=source.fork(f"member {hash_.name}"),
            )
            for hash_, config in members
        )

    def draw_from(self, source: GaussianSource) -> None:
        """Take all further noise from here, each member from a stream of its own."""
        for member in self.members:
            member.source = source.fork(f"member {member.hash.name}")

    def enroll(self, image: CanonicalImage) -> EnsembleReference:
        """Prepare a reference image for every member."""
        return EnsembleReference(image.name, tuple(member.enroll(image) for member in self.members))

    def match(self, reference: EnsembleReference, query: CanonicalImage) -> EnsembleResult:
        """Decide by all members, each on noise of its own."""
        started = time.perf_counter()
        results = tuple(
            member.match(enrolled, query) for member, enrolled in zip(self.members, reference.members, strict=True)
        )
        decision, quoted = joint(results)
        return EnsembleResult(
            reference=reference.name,
            query=query.name,
            hash=self.name,
            decision=decision,
            radius=0.0 if quoted is None else quoted.radius,
            radius_space=results[0].radius_space,
            radius_upload=None if quoted is None else quoted.radius_upload,
            alpha=self.alpha,
            members=results,
            seconds=time.perf_counter() - started,
        )


def check_members(names: Sequence[str]) -> None:
    """The same hash twice would add nothing but false matches."""
    if not 2 <= len(set(names)) == len(names) <= MAX_MEMBERS:
        raise InputError(f"several hashes at once: give 2 to {MAX_MEMBERS} different ones, got {'+'.join(names)}")


def joint(results: Sequence[MatchResult]) -> tuple[Decision, MatchResult | None]:
    """The decision of all, and the member whose certificate stands for it."""
    decision = joint_decision(result.decision for result in results)
    if decision is Decision.MATCH:
        matching = (result for result in results if result.decision is Decision.MATCH)
        return decision, max(matching, key=lambda result: result.radius)
    if decision is Decision.NO_MATCH:
        return decision, min(results, key=lambda result: result.radius)
    return decision, None


def joint_decision(decisions: Iterable[Decision]) -> Decision:
    """A match is one whoever says so, and no further member is asked; a non-match needs all of them."""
    others = set()
    for decision in decisions:
        if decision is Decision.MATCH:
            return decision
        others.add(decision)
    return Decision.NO_MATCH if others == {Decision.NO_MATCH} else Decision.ABSTAIN
