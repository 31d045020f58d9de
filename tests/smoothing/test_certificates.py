"""Certificates are sound, in closed form: what their words exclude does not happen more often than alpha."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binom, norm

from benchmarks.detection import half_space
from dualshield.errors import InputError
from dualshield.images import CanonicalImage
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.detection import least_for_sequential
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.statistics import Decision
from tests.helpers.matchers import ONE, SIGMA, at_distance, kept, matcher_for


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
    member, runs = kept(reference), 1000
    certificates = (matcher.voter.certify(member, moved.pixels, matcher.noise.fork("run")) for _ in range(runs))
    same = sum(certificate.decision is result.decision for certificate in certificates)
    assert same >= runs - binom.ppf(0.999, runs, 1e-3)


def test_beyond_the_detected_radius_the_promise_is_not_made_in_vain() -> None:
    """On a half-space whose probability is known, the promised share is not far below the real one."""
    hash_, gradient = half_space()
    matcher = matcher_for(hash_, n=600, alpha=1e-3, target_radius=0.0)
    least = least_for_sequential(600, 1e-3, 0.2, or_abstain=False)
    assert least is not None
    reference = matcher.enroll_code(ONE)
    boundary = at_distance(gradient, SIGMA * float(norm.ppf(least)))
    runs = 400
    same = sum(matcher.match(reference, boundary).decision is Decision.MATCH for _ in range(runs))
    assert same / runs == pytest.approx(0.8, abs=0.08)
    assert matcher.voter.missed == 1e-3


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
