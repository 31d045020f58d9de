"""Certified radii of positive pairs: the published image with itself, and with a benign variant of it.

The benign variant is one of the paper's transformations at its lowest intensity, another one for each image, drawn by
the seed; all nine of each image would cost nine times as much and say the same about the mean. The plain hash has a
certificate only where its network can be verified (CROWN), and that one is about the image itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from dualshield.attacks.space import saved
from dualshield.attacks.victim import Against
from dualshield.evaluation.datasets import Picture
from dualshield.evaluation.laboratory import Laboratory, Subject
from dualshield.evaluation.plan import SMOOTHED
from dualshield.images import CanonicalImage
from dualshield.smoothing.ensemble import EnsembleMatcher, EnsembleResult
from dualshield.smoothing.matcher import MatchResult, SmoothedMatcher
from dualshield.smoothing.statistics import Decision
from dualshield.transforms import LOWEST_INTENSITY, Transform, parse
from dualshield.verification import verify

PART = "certified"
IDENTITY = "identity"
VOTES = ("p_lower", "sigma", "n", "matching_votes")  # what only one smoothed matcher has

Records = Iterator[tuple[str, dict[str, Any]]]


def details(lab: Laboratory, variant: Against, picture: Picture) -> tuple[str, ...]:
    """The pairs that can be certified."""
    if variant in SMOOTHED:
        return IDENTITY, benign(lab.plan.seed, picture).name
    return (IDENTITY,) if lab.is_verifiable else ()


def benign(seed: int, picture: Picture) -> Transform:
    """The same for all hashes and variants, so that they can be compared pair by pair."""
    return random.Random(f"{seed} benign {picture.label}").choice(LOWEST_INTENSITY)


def work(subject: Subject, missing: tuple[str, ...]) -> Records:
    """One record per pair."""
    if subject.variant not in SMOOTHED:
        yield IDENTITY, _verified(subject)
        return
    matcher = subject.lab.certifier
    matcher.draw_from(subject.noise(PART, "enrol"))
    certify = _certifying(matcher, subject.published)
    for detail in missing:
        matcher.draw_from(subject.noise(PART, detail))
        yield detail, certify(_query(subject, detail))


def _certifying(
    matcher: SmoothedMatcher | EnsembleMatcher, published: CanonicalImage
) -> Callable[[CanonicalImage], dict[str, Any]]:
    """What says of a query whether and how surely it matches the published image."""
    if isinstance(matcher, EnsembleMatcher):
        members = matcher.enroll(published)
        return lambda query: _joint_record(matcher.match(members, query))
    reference = matcher.for_known_queries(matcher.enroll(published))
    return lambda query: _record(matcher.match(reference, query))


def _query(subject: Subject, detail: str) -> CanonicalImage:
    published = subject.published
    if detail == IDENTITY:
        return published
    pixels = saved(parse(detail)(published.pixels, seed=subject.lab.plan.seed))
    return CanonicalImage(pixels, f"{published.name} {detail}")


def _record(result: MatchResult) -> dict[str, Any]:
    # On abstention the votes are for the class that was tried, and which one that was is not told.
    votes = {Decision.MATCH: result.votes, Decision.NO_MATCH: result.draws - result.votes}
    return {
        "decision": result.decision.value,
        "radius": result.radius,
        "p_lower": result.p_lower,
        "sigma": result.sigma,
        "n": result.draws,
        "matching_votes": votes.get(result.decision),
        "distance": result.distance,
        "seconds": result.seconds,
        "method": "smoothing-limit" if result.noise == "clipped-limit" else "smoothing",
    }


def _joint_record(result: EnsembleResult) -> dict[str, Any]:
    """The certificate that stands for all, and what each member said."""
    members = {member.hash: _record(member) for member in result.members}
    for record in members.values():
        del record["seconds"]  # the only thing that another run would not repeat; the sum is kept
    return {
        "decision": result.decision.value,
        "radius": result.radius,
        **dict.fromkeys(VOTES),
        "members": members,
        "seconds": result.seconds,
        "method": "smoothing",
    }


def _verified(subject: Subject) -> dict[str, Any]:
    hash_ = subject.lab.hash.to("cpu")
    found = verify(hash_, subject.published, rule=hash_.rule)
    return {
        "decision": Decision.MATCH.value,  # an image always matches its own plain hash
        "radius": found.radius,
        **dict.fromkeys(VOTES),
        "distance": 0.0,
        "seconds": found.seconds,
        "method": "crown",
    }
