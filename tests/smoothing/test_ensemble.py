"""Several hashes at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dualshield.errors import InputError
from dualshield.hashes import PerceptualHash
from dualshield.images import CanonicalImage
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.ensemble import EnsembleMatcher, joint
from dualshield.smoothing.matcher import MatchResult, SmoothedMatcher
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.statistics import Decision

CONFIG = MatcherConfig(sigma=0.5, n=300)


def ensemble(hash_: PerceptualHash, *thresholds: float, **changes: Any) -> EnsembleMatcher:
    """The same hash under several names and thresholds."""
    members = [(replace(hash_, name=f"m{i}", threshold=t), CONFIG) for i, t in enumerate(thresholds)]
    return EnsembleMatcher(members, source=GaussianSource.from_seed(3), **changes)


@pytest.fixture
def said(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> MatchResult:
    matcher = SmoothedMatcher(toy_hash, CONFIG, source=GaussianSource.from_seed(1))
    return matcher.match(matcher.enroll(photos[0]), photos[0])


def test_the_joint_decision_and_whose_certificate_stands_for_it(said: MatchResult) -> None:
    def result(decision: Decision, radius: float) -> MatchResult:
        return replace(said, decision=decision, radius=radius)

    yes, no, maybe = Decision.MATCH, Decision.NO_MATCH, Decision.ABSTAIN
    for members, decision, radius in (
        ([(yes, 1.0), (yes, 3.0)], yes, 3.0),
        ([(no, 9.0), (yes, 1.0)], yes, 1.0),  # never the radius of a member that says otherwise
        ([(maybe, 0.0), (yes, 1.0)], yes, 1.0),
        ([(no, 2.0), (no, 5.0)], no, 2.0),
        ([(no, 2.0), (maybe, 0.0)], maybe, None),
        ([(maybe, 0.0), (maybe, 0.0)], maybe, None),
    ):
        found, quoted = joint([result(*member) for member in members])
        assert found is decision
        assert (None if quoted is None else quoted.radius) == radius


def test_members_share_alpha_and_nothing_else(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    matcher = ensemble(toy_hash, 0.2, 0.2)
    result = matcher.match(matcher.enroll(photos[0]), photos[0])
    assert result.decision is Decision.MATCH
    assert result.alpha == CONFIG.alpha
    assert [member.alpha for member in result.members] == [CONFIG.alpha / 2] * 2
    assert result.radius == max(member.radius for member in result.members)
    # Quoting the better of two certificates is paid for: less than one of them alone at the whole alpha.
    alone = SmoothedMatcher(toy_hash, CONFIG, source=GaussianSource.from_seed(3))
    assert result.radius < alone.match(alone.enroll(photos[0]), photos[0]).radius
    draws = [member.source.fork("x").normal((4,)) for member in matcher.members]
    assert not (draws[0] == draws[1]).any()


def test_any_member_is_enough_and_all_are_needed_against(
    toy_hash: PerceptualHash, photos: list[CanonicalImage]
) -> None:
    tolerant = ensemble(toy_hash, 0.0, 0.45)
    variant = CanonicalImage(photos[0].pixels.flip(2) * 0.3 + photos[0].pixels * 0.7, "ghost")
    result = tolerant.match(tolerant.enroll(photos[0]), variant)
    assert [member.decision for member in result.members] == [Decision.NO_MATCH, Decision.MATCH]
    assert result.decision is Decision.MATCH
    assert result.radius == result.members[1].radius
    strict = ensemble(toy_hash, 0.0, 0.1)
    result = strict.match(strict.enroll(photos[0]), photos[1])
    assert result.decision is Decision.NO_MATCH
    assert result.radius == min(member.radius for member in result.members)
    assert result.to_dict()["members"][1]["threshold"] == 0.1


def test_what_is_not_an_ensemble(toy_hash: PerceptualHash) -> None:
    with pytest.raises(InputError, match="different ones"):
        EnsembleMatcher([(toy_hash, CONFIG), (toy_hash, CONFIG)])
    with pytest.raises(InputError, match="different ones"):
        EnsembleMatcher([(toy_hash, CONFIG)])
    with pytest.raises(InputError, match="alphas differ"):
        EnsembleMatcher([(toy_hash, CONFIG), (replace(toy_hash, name="b"), replace(CONFIG, alpha=0.01))])
