"""The smoothed matcher: Algorithm 2, its sequential sibling, the reference modes, and soundness in closed form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import binom, norm

from benchmarks.detection import half_space
from dualshield.errors import InputError
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.images import RADIUS_SPACE, CanonicalImage
from dualshield.smoothing.config import PAPER, MatcherConfig
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.matcher import SmoothedMatcher
from dualshield.smoothing.member_reference import MemberReference, majority
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.reference import Reference
from dualshield.smoothing.result import MatchResult
from dualshield.smoothing.statistics import Decision, radius_ceiling

SIGMA = 0.5


def at_distance(gradient: torch.Tensor, distance: float) -> CanonicalImage:
    """An image at this signed l2 distance from the hyperplane (which goes through the origin)."""
    return CanonicalImage(gradient / gradient.norm() * distance, f"at {distance:g}")


class Matcher:
    """A deployment of one hash, whose noise comes from one seeded stream."""

    def __init__(self, hash_: PerceptualHash, config: MatcherConfig, seed: int = 0) -> None:
        self.deployment = deploy(hash_, config=config)
        self.noise = GaussianSource.from_seed(seed)

    @property
    def voter(self) -> SmoothedMatcher:
        (matcher,) = self.deployment.matchers
        return matcher

    def enroll(self, image: CanonicalImage) -> Reference:
        return self.deployment.enroll(image)

    def enroll_code(self, code: torch.Tensor) -> Reference:
        return self.deployment.enroll_code(code)

    def for_known_queries(self, reference: Reference) -> Reference:
        return self.deployment.for_known_queries(reference, self.noise)

    def match(self, reference: Reference, query: CanonicalImage) -> MatchResult:
        return self.deployment.match(reference, query, noise=self.noise)

    def count(self, reference: Reference | MemberReference, pixels: torch.Tensor, draws: int, seed: int) -> int:
        member = reference.members[0] if isinstance(reference, Reference) else reference
        return self.voter.count(member, pixels, draws, GaussianSource.from_seed(seed))


def matcher_for(hash_: PerceptualHash, seed: int = 0, **changes: object) -> Matcher:
    return Matcher(hash_, replace(MatcherConfig(sigma=SIGMA, n=400), **changes), seed)  # type: ignore[arg-type]


ONE = torch.tensor([True])


@pytest.mark.parametrize("lowpass", [None, 12])
def test_certified_radius_never_exceeds_the_true_one(lowpass: int | None) -> None:
    hash_, gradient = half_space()
    if lowpass is not None:
        hash_ = hash_.with_lowpass(lowpass)
        pixels = torch.zeros(1, 3, 512, 512, requires_grad=True)
        gradient = torch.autograd.grad(hash_.margins(pixels).sum(), pixels)[0][0]
    # At this alpha a single failure among the pairs would be a defect, not bad luck.
    matcher = matcher_for(hash_, n=2000, alpha=1e-6)
    reference = matcher.enroll_code(ONE)
    slack = []
    for distance in np.linspace(-3 * SIGMA, 3 * SIGMA, 61):
        result = matcher.match(reference, at_distance(gradient, float(distance)))
        expected = Decision.MATCH if distance > 0 else Decision.NO_MATCH
        assert result.decision in (expected, Decision.ABSTAIN)
        assert result.radius <= abs(distance) + 1e-9
        if abs(distance) >= 0.3 * SIGMA:
            assert result.decision is expected
            slack.append(abs(distance) - result.radius)
    assert np.mean(slack) < 0.4 * SIGMA  # sound, and not by claiming nothing


def test_certificates_fail_at_most_alpha_of_the_time() -> None:
    hash_, gradient = half_space()
    alpha, runs, distance = 0.2, 300, 0.8 * SIGMA
    matcher = matcher_for(hash_, alpha=alpha, n=100, n0=10)
    reference, query = matcher.enroll_code(ONE), at_distance(gradient, distance)
    wrong = sum(matcher.match(reference, query).radius > distance for _ in range(runs))
    assert 0 < wrong <= binom.ppf(0.999, runs, alpha)


def test_sequential_certificates_fail_at_most_alpha_of_the_time() -> None:
    hash_, gradient = half_space()
    alpha, runs, distance = 0.2, 200, 0.8 * SIGMA
    # The target is exactly the true radius: proving it would be wrong (p > needed is false).
    matcher = matcher_for(hash_, alpha=alpha, n=300, target_radius=distance)
    reference, query = matcher.enroll_code(ONE), at_distance(gradient, distance)
    found = [matcher.match(reference, query) for _ in range(runs)]
    assert sum(result.radius >= distance or result.decision is Decision.NO_MATCH for result in found) <= binom.ppf(
        0.999, runs, alpha
    )
    assert sum(result.decision is Decision.MATCH for result in found) >= 0.95 * runs  # decided all the same
    # A radius that is true by a margin is proven nearly always.
    easy = matcher_for(hash_, alpha=alpha, n=300, target_radius=distance / 4)
    assert sum(easy.match(reference, query).radius >= distance / 4 for _ in range(20)) >= 18


def test_vote_probability_is_the_closed_form() -> None:
    hash_, gradient = half_space()
    matcher = matcher_for(hash_)
    reference = matcher.enroll_code(ONE)
    for distance in (-0.5 * SIGMA, 0.0, SIGMA):
        votes = matcher.count(reference, at_distance(gradient, distance).pixels, 20_000, 3)
        assert votes / 20_000 == pytest.approx(norm.cdf(distance / SIGMA), abs=0.015)


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
    selecting, certifying = reference.members[0].split(50)
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
    drawn = reference.members[0].drawn
    assert drawn is not None
    assert 0 < drawn._known < 10_000


def test_certificates_of_known_queries_fail_at_most_alpha_of_the_time() -> None:
    hash_, gradient = half_space()
    alpha, runs = 0.2, 300
    matcher = matcher_for(hash_, alpha=alpha, n=100, n0=10, reference_mode="paired")
    image = at_distance(gradient, SIGMA)
    enrolled = matcher.enroll(image)
    references = [matcher.for_known_queries(enrolled) for _ in range(runs)]
    for distance in (1.0, 0.5):  # two queries on the same codes: each keeps its promise
        once, other = norm.cdf(1), norm.cdf(distance)
        true = once * other + (1 - once) * (1 - other)  # that two noisy bits agree
        query = at_distance(gradient, SIGMA * distance)
        wrong = sum(matcher.match(reference, query).member.p_lower > true for reference in references)
        assert 0 < wrong <= binom.ppf(0.999, runs, alpha)


def test_bank_votes_are_independent() -> None:
    hash_, gradient = half_space()
    matcher = matcher_for(hash_, reference_mode="bank")
    bank = torch.tensor([[True], [False]])
    reference = MemberReference({}, SIGMA, ONE, ONE, bank=bank)
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
    before = reference.members[0].code.clone()
    matcher.match(reference, photos[1])
    assert torch.equal(reference.members[0].code, before)


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


# -- what the words of a certificate exclude -------------------------------------------------------


def test_a_change_inside_the_radius_may_abstain_but_never_turns_around() -> None:
    # Finding 1 of the audit: "no perturbation changes this decision" was false, only the opposite is excluded.
    hash_, gradient = half_space()
    matcher = matcher_for(hash_, n=5000, alpha=1e-3)
    reference, distance = matcher.enroll_code(ONE), 2 * SIGMA
    result = matcher.match(reference, at_distance(gradient, distance))
    near = at_distance(gradient, distance - 0.99 * result.radius)
    answers = [matcher.match(reference, near).decision for _ in range(40)]
    assert Decision.NO_MATCH not in answers
    assert result.radius_detected < 0.99 * result.radius  # which is why this is promised for less only


@pytest.mark.parametrize("target", [None, 0.6])
@pytest.mark.parametrize("side", [1, -1])
def test_inside_the_detected_radius_fresh_runs_give_the_same_answer(target: float | None, side: int) -> None:
    hash_, gradient = half_space()
    matcher = matcher_for(hash_, n=400, n0=60, alpha=1e-3, target_radius=target)
    reference, distance = matcher.enroll_code(ONE), 2.5 * SIGMA
    result = matcher.match(reference, at_distance(gradient, side * distance))
    assert result.decision is (Decision.MATCH if side > 0 else Decision.NO_MATCH)
    assert 0 < result.radius_detected < result.radius < distance
    moved = at_distance(gradient, side * (distance - result.radius_detected))  # the worst change there is
    (kept,), runs = reference.members, 1000
    certificates = (matcher.voter.certify(kept, moved.pixels, matcher.noise.fork("run")) for _ in range(runs))
    same = sum(certificate.decision is result.decision for certificate in certificates)
    assert same >= runs - binom.ppf(0.999, runs, 1e-3)


def test_beyond_the_detected_radius_the_promise_is_not_made_in_vain() -> None:
    """On a half-space whose probability is known, the promised share is not far below the real one."""
    hash_, gradient = half_space()
    matcher = matcher_for(hash_, n=600, alpha=1e-3, target_radius=0.0)
    (voter,) = matcher.deployment.matchers
    from dualshield.smoothing.detection import least_for_sequential

    least = least_for_sequential(600, 1e-3, 0.2, or_abstain=False)
    assert least is not None
    reference = matcher.enroll_code(ONE)
    boundary = at_distance(gradient, SIGMA * float(norm.ppf(least)))
    runs = 400
    same = sum(matcher.match(reference, boundary).decision is Decision.MATCH for _ in range(runs))
    assert same / runs == pytest.approx(0.8, abs=0.08)
    assert voter.missed == 1e-3


def test_abstentions_told_as_matches_are_detected_farther() -> None:
    hash_, gradient = half_space()
    config = MatcherConfig(sigma=SIGMA, n=400)
    query = at_distance(gradient, 2 * SIGMA)
    found = {}
    for policy in ("abstain", "match", "no-match"):
        deployment = deploy(hash_, config=config, on_abstain=policy)
        reference = deployment.enroll_code(ONE)
        found[policy] = deployment.match(reference, query, noise=GaussianSource.from_seed(4))
        thin = deployment.match(reference, at_distance(gradient, 0.0), noise=GaussianSource.from_seed(5))
        assert thin.abstained
        assert thin.decision.value == policy.replace("-", "_")
        assert thin.radius == thin.radius_detected == 0.0
    assert found["match"].radius_detected == pytest.approx(found["match"].radius)
    assert found["abstain"].radius_detected == found["no-match"].radius_detected < found["match"].radius_detected
    assert len({result.deployment for result in found.values()}) == 3


def test_noise_that_is_a_limit_law_certifies_nothing(photos: list[CanonicalImage]) -> None:
    deployment = deploy("pdq", parameters="paper-limit", n=200)
    result = deployment.match(deployment.enroll(photos[0]), photos[0])
    assert result.decision is Decision.MATCH
    assert (result.radius, result.radius_detected, result.member.p_lower) == (0.0, 0.0, 0.0)


def test_certificates_of_seeded_noise_say_so(photos: list[CanonicalImage]) -> None:
    deployment = deploy("pdq", n=50)
    reference = deployment.enroll(photos[0])
    assert deployment.match(reference, photos[0]).noise_source == "secret"
    seeded = deployment.match(reference, photos[0], noise=GaussianSource.from_seed(1))
    assert (seeded.noise_source, seeded.to_dict()["noise_source"]) == ("seeded", "seeded")


def test_images_that_are_no_numbers_get_no_certificate() -> None:
    deployment = deploy("pdq", n=50)
    for value in (float("nan"), float("inf")):
        pixels = torch.rand(3, 512, 512)
        pixels[0, 0, 0] = value
        with pytest.raises(InputError, match="<tensor>"):
            deployment.enroll(pixels)
