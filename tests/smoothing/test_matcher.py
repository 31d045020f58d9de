"""The smoothed matcher: Algorithm 2, its sequential sibling, and the reference modes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.detection import half_space
from dualshield.errors import InputError
from dualshield.hashes import get_hash
from dualshield.images import RADIUS_SPACE, CanonicalImage
from dualshield.smoothing.config import PAPER, MatcherConfig
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.level import Level
from dualshield.smoothing.member_reference import MemberReference, majority
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.statistics import Decision, radius_ceiling
from tests.helpers.matchers import ONE, SIGMA, Matcher, at_distance, kept, matcher_for


def test_paired_noise_is_drawn_independently_for_both_images() -> None:
    hash_, gradient = half_space()
    matcher = matcher_for(hash_, reference_mode="paired")
    boundary = at_distance(gradient, 0.0)
    reference = matcher.enroll(boundary)
    assert reference.members[0].mode == "paired"
    votes = matcher.count(reference, boundary.pixels, 4000, 5)
    # On the boundary both bits are fair coins: shared noise would match always, a fixed reference too.
    assert votes / 4000 == pytest.approx(0.5, abs=0.04)


def test_known_queries_meet_the_same_codes_of_a_paired_reference() -> None:
    hash_, gradient = half_space()
    matcher = matcher_for(hash_, reference_mode="paired", n0=50, n=400)
    reference = matcher.for_known_queries(matcher.enroll(at_distance(gradient, 0.0)))
    assert reference.members[0].mode == "paired"
    selecting, certifying = kept(reference).split(50)
    drawn = certifying.drawn
    assert drawn is not None
    ones = int(drawn.part(certifying.first, 400).sum())
    assert 140 < ones < 260  # on the boundary every code is a fair coin
    # Queries far from the boundary always have the same bit, so the votes are the codes: those that certify, in order.
    for distance, matching in ((50 * SIGMA, ones), (-50 * SIGMA, 400 - ones)):
        result = matcher.match(reference, at_distance(gradient, distance))
        assert result.member.votes in (matching, 400 - matching)  # of the class that was chosen
        count = matcher.count(certifying, at_distance(gradient, distance).pixels, 400, 1)
        assert count == matching
    # What chooses never certifies.
    assert selecting.drawn is drawn
    assert (selecting.first, certifying.first, certifying.split(5)[1].first) == (0, 50, 55)
    assert torch.equal(drawn.part(0, 450)[60:70], drawn.part(60, 10))
    assert drawn.part(0, 450)[60:70].data_ptr() == drawn.part(60, 10).data_ptr()  # in one piece
    with pytest.raises(ValueError, match="451 votes, but only 450 codes"):
        drawn.part(0, 451)
    other = matcher_for(hash_)
    code = other.enroll_code(ONE)
    assert other.for_known_queries(code).members[0] is code.members[0]  # nothing to draw


def test_codes_for_known_queries_are_drawn_when_they_are_needed() -> None:
    hash_, gradient = half_space()
    matcher = matcher_for(hash_, reference_mode="paired", target_radius=0.0, n=10_000)
    reference = matcher.for_known_queries(matcher.enroll(at_distance(gradient, 50 * SIGMA)))
    assert matcher.match(reference, at_distance(gradient, 50 * SIGMA)).decision is Decision.MATCH
    drawn = kept(reference).drawn
    assert drawn is not None
    assert 0 < drawn._known < 10_000


def test_bank_votes_are_independent() -> None:
    hash_, gradient = half_space()
    matcher = matcher_for(hash_, reference_mode="bank")
    bank = torch.tensor([[True], [False]])
    reference = MemberReference({}, ONE, (Level(SIGMA, ONE[None], 0.0),), bank=bank)
    certain = at_distance(gradient, 50 * SIGMA).pixels
    counts = [matcher.count(reference, certain, 64, seed) for seed in range(200)]
    # Each vote is a fair coin through its own bank entry: variance 16. One entry per batch would give 1,024.
    assert np.mean(counts) == pytest.approx(32, abs=1.5)
    assert 11 < np.var(counts) < 22


def test_all_votes_agreeing_gives_the_papers_figure(photos: list[CanonicalImage]) -> None:
    # The paper's parameters, at an N that clipped pixel noise can reach in a test.
    config = replace(PAPER, n=40, n0=10)
    matcher = Matcher(get_hash("pdq"), config, 1)
    result = matcher.match(matcher.enroll(photos[0]), photos[0])
    found = result.member
    assert (result.decision, found.votes, found.draws) == (Decision.MATCH, 40, 40)
    assert result.radius == pytest.approx(radius_ceiling(0.1, 40, 1e-3))
    assert (found.noise, found.reference_mode, found.sigma, found.threshold) == ("clipped", "paired", 0.1, 0.2)


def test_every_field_of_a_result(photos: list[CanonicalImage]) -> None:
    deployment = deploy(get_hash("pdq"), config=MatcherConfig(sigma=0.5, n=300, lowpass=64))
    reference = deployment.enroll(photos[1])
    result = deployment.match(reference, photos[1])
    assert result.decision is Decision.MATCH
    assert result.member.distance == 0.0
    assert (result.noise_source, result.abstained) == ("secret", False)
    assert (result.deployment, result.reference_fingerprint) == (deployment.digest, reference.fingerprint)
    assert 0 < result.radius_detected < result.radius
    assert result.radius_space == RADIUS_SPACE
    assert result.radius_upload is not None
    assert photos[1].upload_norm is not None
    assert result.radius_upload == pytest.approx(result.radius / photos[1].upload_norm)
    assert (result.member.lowpass, result.member.engine, result.alpha) == (64, "torch", 1e-3)
    values = result.to_dict()
    assert (values["decision"], values["votes"], values["method"]) == ("match", 300, "votes")
    assert values["radius_psnr"] == pytest.approx(10 * np.log10(786432 / result.radius**2))
    assert values["radius_grey_levels"] == pytest.approx(255 * result.radius / np.sqrt(786432))
    assert "members" not in values


@pytest.mark.parametrize("mode", ["code", "bank", "paired"])
@pytest.mark.parametrize("noise", ["linear", "clipped"])
def test_every_mode_matches_itself_and_not_others(mode: str, noise: str, photos: list[CanonicalImage]) -> None:
    config = MatcherConfig(sigma=0.1, n=24, n0=8, alpha=0.01, reference_mode=mode, noise=noise, bank_size=15)  # type: ignore[arg-type]
    matcher = Matcher(get_hash("pdq"), config, 2)
    reference = matcher.enroll(photos[0])
    assert reference.members[0].mode == mode
    assert matcher.match(reference, photos[0]).decision is Decision.MATCH
    assert matcher.match(reference, photos[1]).decision is Decision.NO_MATCH


def test_every_match_uses_fresh_noise(photos: list[CanonicalImage]) -> None:
    deployment = deploy(get_hash("pdq"), config=MatcherConfig(sigma=4.0, n=2000))
    reference = deployment.enroll(photos[0])
    counts = {deployment.match(reference, photos[0]).member.votes for _ in range(6)}
    assert len(counts) > 1


def test_selection_and_certification_draws_are_different_streams() -> None:
    source = GaussianSource.from_seed(1).fork("match")
    assert not torch.equal(source.fork("select").normal((16,)), source.fork("certify").normal((16,)))


def test_auto_sigma_is_large_for_texture_and_small_for_faint_images(photos: list[CanonicalImage]) -> None:
    grid = (0.05, 0.2, 0.8)
    config = MatcherConfig(sigma="auto", sigma_grid=grid, n=500)
    matcher = Matcher(get_hash("pdq"), config, 3)
    faint = CanonicalImage(0.5 + 0.02 * (photos[0].pixels - 0.5), "faint")
    assert matcher.enroll(photos[0]).sigma == 0.8
    assert matcher.enroll(faint).sigma < 0.8
    assert matcher.match(matcher.enroll(faint), faint).decision is Decision.MATCH


def test_a_faint_reference_is_decided_where_the_target_is_out_of_its_reach(photos: list[CanonicalImage]) -> None:
    config = MatcherConfig(sigma="auto", sigma_grid=(0.05, 0.8), n=500, target_radius=0.8)
    matcher = Matcher(get_hash("pdq"), config, 3)
    faint = CanonicalImage(0.5 + 0.02 * (photos[0].pixels - 0.5), "faint")
    result = matcher.match(matcher.enroll(faint), faint)
    assert result.decision is Decision.MATCH
    assert 0 < result.radius < 0.2
    assert result.member.draws < 100
    assert matcher.match(matcher.enroll(photos[0]), photos[0]).radius >= 0.8


def test_sequential_draws_far_fewer(photos: list[CanonicalImage]) -> None:
    matcher = Matcher(get_hash("pdq"), MatcherConfig(sigma=0.5, n=5000, target_radius=0.5))
    reference = matcher.enroll(photos[0])
    same, other = matcher.match(reference, photos[0]), matcher.match(reference, photos[1])
    assert (same.decision, other.decision) == (Decision.MATCH, Decision.NO_MATCH)
    assert min(same.radius, other.radius) >= 0.5
    assert max(same.member.draws, other.member.draws) < 200


def test_enrolment_does_not_see_the_query(photos: list[CanonicalImage]) -> None:
    matcher = Matcher(get_hash("pdq"), MatcherConfig(sigma=0.5, n=100))
    reference = matcher.enroll(photos[0])
    before = kept(reference).code.clone()
    matcher.match(reference, photos[1])
    assert torch.equal(kept(reference).code, before)


def test_majority_of_an_odd_bank() -> None:
    bank = torch.tensor([[True, False, True], [True, True, False], [False, False, True]])
    assert torch.equal(majority(bank), torch.tensor([True, False, True]))


def test_wrong_uses_are_refused() -> None:
    pdq, none = get_hash("pdq"), torch.zeros(256).bool()

    def deployed(**changes: object) -> Deployment:
        return deploy(pdq, config=MatcherConfig(**{"sigma": 0.1, **changes}))  # type: ignore[arg-type]

    with pytest.raises(InputError, match="cannot be proven"):
        deployed(target_radius=5.0).enroll_code(none)
    with pytest.raises(InputError, match="needs a reference image"):
        deployed(reference_mode="bank").enroll_code(none)
    with pytest.raises(InputError, match="sigma auto"):
        deployed(sigma="auto", sigma_grid=(0.1,)).enroll_code(none)
    with pytest.raises(InputError, match="bits"):
        deployed().enroll_code(torch.zeros(8).bool())
