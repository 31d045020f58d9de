"""Certified radii of positive pairs: the published image with itself, and with a benign variant of it.

The benign variant is one of the paper's transformations at its lowest intensity, drawn for each image by the seed. All
nine for each image would take nine times as long and say the same about the mean. The plain hash has a certificate only
if its network can be verified (CROWN), and only for the pair of the image with itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from dualshield.errors import TooLittleStructureError
from dualshield.evaluation.parts.under_test import DeploymentUnderTest, ImageUnderTest
from dualshield.evaluation.plan.datasets import Picture
from dualshield.images import CanonicalImage
from dualshield.images.eight_bit import to_8bit
from dualshield.smoothing.noise_kinds import noise_kind
from dualshield.smoothing.result import MatchResult, MemberResult
from dualshield.smoothing.statistics import Decision, certified_radius, clopper_pearson_lower
from dualshield.smoothing.variants import SMOOTHED, Variant
from dualshield.transforms import LOWEST_INTENSITY, Transform, parse
from dualshield.verification import verify

PART = "certified"
IDENTITY = "identity"
VOTES = ("p_lower", "sigma", "n", "matching_votes")  # fields that only a single smoothed matcher has

Records = Iterator[tuple[str, dict[str, Any]]]


def details(lab: DeploymentUnderTest, variant: Variant, picture: Picture) -> tuple[str, ...]:
    """Return the names of the pairs that can be certified."""
    if variant in SMOOTHED:
        return IDENTITY, benign(lab.plan.seed, picture).name
    return (IDENTITY,) if lab.is_verifiable else ()


def benign(seed: int, picture: Picture) -> Transform:
    """Return the benign transformation of an image, the same for all hashes and variants."""
    return random.Random(f"{seed} benign {picture.label}").choice(LOWEST_INTENSITY)


def work(subject: ImageUnderTest, missing: tuple[str, ...]) -> Records:
    """Yield one record per pair."""
    if subject.variant not in SMOOTHED:
        yield IDENTITY, _verified(subject)
        return
    deployment = subject.lab.deployment
    try:
        enrolled = deployment.enroll(subject.published)
    except TooLittleStructureError:
        yield from ((detail, _refused()) for detail in missing)
        return
    reference = deployment.for_known_queries(enrolled, subject.noise(PART, "known"))
    for detail in missing:
        yield detail, _record(deployment.match(reference, _query(subject, detail), noise=subject.noise(PART, detail)))


def _query(subject: ImageUnderTest, detail: str) -> CanonicalImage:
    published = subject.published
    if detail == IDENTITY:
        return published
    pixels = to_8bit(parse(detail)(published.pixels, seed=subject.lab.plan.seed))
    return CanonicalImage(pixels, f"{published.name} {detail}")


def _record(result: MatchResult) -> dict[str, Any]:
    """Return the record of one matcher, or the joint certificate of several and the record of each."""
    decision = {"decision": result.decision.value}  # with the deployed rule for abstentions
    kept = {"deployment": result.deployment, "reference_fingerprint": result.reference_fingerprint}
    if len(result.members) == 1:
        found = _member_record(result.member)
        return {**found, **decision, "radius_detected": result.radius_detected, **kept, "seconds": result.seconds}
    return {
        **decision,
        "radius": result.radius,
        "radius_detected": result.radius_detected,
        **dict.fromkeys(VOTES),
        "members": {member.hash: _member_record(member) for member in result.members},
        **kept,
        "seconds": result.seconds,
        "method": "exact" if all(member.method == "exact" for member in result.members) else "smoothing",
    }


def _refused() -> dict[str, Any]:
    """Return the record of an image that cannot be a reference: nothing matches it, and nothing is proven."""
    return {"decision": Decision.NO_MATCH.value, "radius": 0.0, **dict.fromkeys(VOTES), "method": "refused"}


def _member_record(result: MemberResult) -> dict[str, Any]:
    if result.soft_distance is not None:
        return {
            "decision": result.decision.value,
            "radius": result.radius,
            **dict.fromkeys(VOTES),
            "sigma": result.sigma,
            "soft_distance": result.soft_distance,
            "threshold": result.threshold,
            "distance": result.distance,
            "method": "exact",
        }
    # After an abstention it is not known which class the votes are for.
    votes = {Decision.MATCH: result.votes, Decision.NO_MATCH: result.draws - result.votes}
    limit = not noise_kind(result.noise).certifies
    return {
        "decision": result.decision.value,
        "radius": _estimate(result) if limit else result.radius,
        "p_lower": result.p_lower,
        "sigma": result.sigma,
        "n": result.draws,
        "matching_votes": votes.get(result.decision),
        "distance": result.distance,
        "method": "smoothing-limit" if limit else "smoothing",
    }


def _estimate(result: MemberResult) -> float:
    """Return the radius that the votes would certify if their noise were the paper's own; it is not a guarantee."""
    if result.decision is Decision.ABSTAIN:
        return 0.0
    return certified_radius(clopper_pearson_lower(result.votes, result.draws, result.alpha), result.sigma)


def _verified(subject: ImageUnderTest) -> dict[str, Any]:
    hash_ = subject.lab.deployment.members[0].hash.to("cpu")
    found = verify(subject.published, hash_, rule=hash_.rule)
    return {
        "decision": Decision.MATCH.value,  # an image always matches its own plain hash
        "radius": found.radius,
        **dict.fromkeys(VOTES),
        "distance": 0.0,
        "seconds": found.seconds,
        "method": "crown",
    }
