"""Certified radii of positive pairs: the published image with itself, and with a benign variant of it.

The benign variant is one of the paper's transformations at its lowest intensity, another one for each image, drawn by
the seed; all nine of each image would cost nine times as much and say the same about the mean. The plain hash has a
certificate only where its network can be verified (CROWN), and that one is about the image itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from dualshield.attacks.space import saved
from dualshield.attacks.victim import Against
from dualshield.evaluation.datasets import Picture
from dualshield.evaluation.laboratory import Laboratory, Subject
from dualshield.evaluation.plan import SMOOTHED
from dualshield.images import CanonicalImage
from dualshield.smoothing.matcher import MatchResult
from dualshield.smoothing.statistics import Decision
from dualshield.transforms import LOWEST_INTENSITY, Transform, parse
from dualshield.verification import verify

PART = "certified"
IDENTITY = "identity"


def details(lab: Laboratory, variant: Against, picture: Picture) -> tuple[str, ...]:
    """Several hashes that decide together have no common certificate here."""
    if lab.is_joint:
        return ()
    if variant in SMOOTHED:
        return IDENTITY, benign(lab.plan.seed, picture).name
    return (IDENTITY,) if lab.is_verifiable else ()


def benign(seed: int, picture: Picture) -> Transform:
    """The same for all hashes and variants, so that they can be compared pair by pair."""
    return random.Random(f"{seed} benign {picture.label}").choice(LOWEST_INTENSITY)


def work(subject: Subject, missing: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """One record per pair."""
    if subject.variant not in SMOOTHED:
        yield IDENTITY, _verified(subject)
        return
    matcher, published = subject.lab.certifier, subject.published
    matcher.source = subject.noise(PART, "enrol")
    reference = matcher.enroll(published)
    for detail in missing:
        query = published
        if detail != IDENTITY:
            pixels = saved(parse(detail)(published.pixels, seed=subject.lab.plan.seed))
            query = CanonicalImage(pixels, f"{published.name} {detail}")
        matcher.source = subject.noise(PART, detail)
        yield detail, _record(matcher.match(reference, query))


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
        "method": "smoothing",
    }


def _verified(subject: Subject) -> dict[str, Any]:
    hash_ = subject.lab.hash.to("cpu")
    found = verify(hash_, subject.published, rule=hash_.rule)
    nothing = dict.fromkeys(("p_lower", "sigma", "n", "matching_votes"))
    return {
        "decision": Decision.MATCH.value,  # an image always matches its own plain hash
        "radius": found.radius,
        **nothing,
        "distance": 0.0,
        "seconds": found.seconds,
        "method": "crown",
    }
