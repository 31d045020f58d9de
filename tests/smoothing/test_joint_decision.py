"""Several hashes that decide together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dualshield.errors import InputError
from dualshield.hashes import PerceptualHash
from dualshield.images import CanonicalImage
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.joint_decision import joint
from dualshield.smoothing.matcher import SmoothedMatcher
from dualshield.smoothing.member import Member
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.result import MatchResult, MemberResult
from dualshield.smoothing.statistics import Decision

CONFIG = MatcherConfig(sigma=0.5, n=300)


def several(hash_: PerceptualHash, *thresholds: float, **changes: Any) -> Deployment:
    """The same hash under several names and thresholds."""
    config = replace(CONFIG, **changes)
    return Deployment(
        tuple(Member(replace(hash_, name=f"m{i}", threshold=t), config) for i, t in enumerate(thresholds))
    )


def seeded(deployment: Deployment, reference: CanonicalImage, query: CanonicalImage) -> MatchResult:
    return deployment.match(deployment.enroll(reference), query, noise=GaussianSource.from_seed(3))


def test_the_joint_decision_and_whose_certificate_stands_for_it(
    toy_hash: PerceptualHash, photos: list[CanonicalImage]
) -> None:
    said = seeded(several(toy_hash, 0.2), photos[0], photos[0]).member

    def result(decision: Decision, radius: float) -> MemberResult:
        return replace(said, decision=decision, radius=radius, radius_detected=radius / 2)

    yes, no, maybe = Decision.MATCH, Decision.NO_MATCH, Decision.ABSTAIN
    for members, decision, radius in (
        ([(yes, 1.0), (yes, 3.0)], yes, 3.0),
        ([(no, 9.0), (yes, 1.0)], yes, 1.0),  # never the radius of a member that says otherwise
        ([(maybe, 0.0), (yes, 1.0)], yes, 1.0),
        ([(no, 2.0), (no, 5.0)], no, 2.0),
        ([(no, 2.0), (maybe, 0.0)], maybe, 0.0),
        ([(maybe, 0.0), (maybe, 0.0)], maybe, 0.0),
    ):
        assert joint([result(*member) for member in members]) == (decision, radius, radius / 2)


def test_members_share_alpha_and_nothing_else(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    deployment = several(toy_hash, 0.2, 0.2)
    result = seeded(deployment, photos[0], photos[0])
    assert (result.decision, result.alpha, result.hash) == (Decision.MATCH, CONFIG.alpha, "m0+m1")
    assert [matcher.config.alpha for matcher in deployment.matchers] == [CONFIG.alpha / 2] * 2
    for matcher in deployment.matchers:
        assert isinstance(matcher, SmoothedMatcher)
        assert matcher.missed == 5e-4
    assert result.radius == max(member.radius for member in result.members)
    # Quoting the better of two certificates is paid for: less than one of them alone at the whole alpha.
    alone = seeded(several(toy_hash, 0.2), photos[0], photos[0])
    assert result.radius < alone.radius
    assert len(result.to_dict()["members"]) == 2
    with pytest.raises(InputError, match="2 members"):
        _ = result.member


def test_any_members_match_is_one_and_a_non_match_needs_all(
    toy_hash: PerceptualHash, photos: list[CanonicalImage]
) -> None:
    query = CanonicalImage(photos[0].pixels.roll(40, 2), "rolled")
    alone = {t: seeded(several(toy_hash, t), photos[0], query).decision for t in (0.0, 0.49)}
    assert alone == {0.0: Decision.NO_MATCH, 0.49: Decision.MATCH}
    result = seeded(several(toy_hash, 0.0, 0.49), photos[0], query)
    assert result.decision is Decision.MATCH
    other = seeded(several(toy_hash, 0.0, 0.1), photos[0], photos[1])
    assert other.decision is Decision.NO_MATCH
    assert other.radius == min(member.radius for member in other.members)


def test_members_draw_noise_of_their_own(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    deployment = several(toy_hash, 0.2, 0.2, sigma=40.0)
    result = seeded(deployment, photos[0], photos[0])
    assert result.members[0].votes != result.members[1].votes


def test_what_cannot_decide_together_is_refused(toy_hash: PerceptualHash) -> None:
    member = Member(toy_hash, CONFIG)
    with pytest.raises(InputError, match="different hashes"):
        Deployment((member, member))
    with pytest.raises(InputError, match="none"):
        Deployment(())
    other = replace(toy_hash, name="other")
    with pytest.raises(InputError, match="alphas differ"):
        Deployment((member, Member(other, replace(CONFIG, alpha=0.01))))
    with pytest.raises(InputError, match="target radii differ"):
        Deployment((member, Member(other, replace(CONFIG, target_radius=0.0))))
    with pytest.raises(InputError, match="belongs to one hash"):
        several(toy_hash, 0.2, 0.2).enroll_code("00" * 8)
