"""The exact matcher in a deployment: what it enrolls, decides, proves and refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dualshield.errors import CodeError, InputError, TooLittleStructureError, UnusableReferenceError
from dualshield.hashes.codes import to_hex
from dualshield.images import CanonicalImage
from dualshield.images.canonical_array import canonical_array
from dualshield.images.decode import decode
from dualshield.images.synthetic import blank_images
from dualshield.smoothing.deploy import deploy, match
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.exact.config import ExactConfig
from dualshield.smoothing.exact.deployment import ExactDeployment
from dualshield.smoothing.exact.reference import ExactReference
from dualshield.smoothing.exact_matcher import DeployedExactMatcher
from dualshield.smoothing.profile import find_profile
from dualshield.smoothing.reference import Reference
from dualshield.smoothing.statistics import Decision


@pytest.fixture(scope="module")
def deployment() -> Deployment:
    return deploy("pdq")


@pytest.fixture(scope="module")
def matcher(deployment: Deployment) -> DeployedExactMatcher:
    (found,) = deployment.matchers
    assert isinstance(found, DeployedExactMatcher)
    return found


def test_a_photo_matches_itself_without_noise_alpha_or_abstention(
    deployment: Deployment, photos: list[CanonicalImage]
) -> None:
    result = deployment.match(deployment.enroll(photos[0]), photos[0])
    assert result.decision is Decision.MATCH
    assert (result.alpha, result.noise_source, result.abstained) == (0.0, None, False)
    assert (result.member.method, result.member.draws, result.member.p_lower) == ("exact", 0, None)
    assert result.member.soft_distance is not None
    assert result.member.soft_distance <= result.member.threshold
    assert result.radius == result.radius_detected > 3


def test_an_unrelated_photo_is_a_certified_non_match(deployment: Deployment, photos: list[CanonicalImage]) -> None:
    result = deployment.match(deployment.enroll(photos[0]), photos[1])
    assert result.decision is Decision.NO_MATCH
    assert result.radius > 5
    assert result.member.soft_distance is not None
    assert result.member.soft_distance > result.member.threshold


def test_the_answer_does_not_depend_on_chance(deployment: Deployment, photos: list[CanonicalImage]) -> None:
    reference = deployment.enroll(photos[2])
    first, second = (deployment.match(reference, photos[2]) for _ in range(2))
    assert (first.radius, first.member.soft_distance) == (second.radius, second.member.soft_distance)
    assert reference.fingerprint == deployment.enroll(photos[2]).fingerprint


def test_enrollment_takes_the_sigma_with_the_largest_radius(
    matcher: DeployedExactMatcher, photos: list[CanonicalImage]
) -> None:
    pixels = photos[0].pixels.numpy()
    chosen = matcher.enroll_pixels(pixels)
    found = {}
    for sigma, threshold in zip(matcher.config.sigmas, matcher.config.thresholds, strict=True):
        alone = DeployedExactMatcher(matcher.plain_hash, ExactConfig((sigma,), (threshold,), matcher.config.lowpass))
        try:
            found[sigma] = alone.certify_exactly(alone.enroll_pixels(pixels), pixels).radius
        except TooLittleStructureError:
            found[sigma] = 0.0
    assert chosen.sigma == max(found, key=lambda sigma: found[sigma])


@pytest.mark.parametrize("blank", blank_images()[:3], ids=lambda image: image.name)
def test_a_flat_image_is_no_reference_and_never_matches(
    deployment: Deployment, photos: list[CanonicalImage], blank: CanonicalImage
) -> None:
    with pytest.raises(TooLittleStructureError, match="too little structure to be protected"):
        deployment.enroll(blank)
    result = deployment.match(deployment.enroll(photos[0]), blank)
    assert result.decision is Decision.NO_MATCH
    assert result.member.soft_distance == pytest.approx(0.5, abs=1e-6)


def test_structure_is_told_from_none(deployment: Deployment, photos: list[CanonicalImage]) -> None:
    phash = deploy("phash")
    grey = CanonicalImage(torch.full((3, 512, 512), 0.7), "grey")
    for matcher in (deployment, phash):
        reference = matcher.enroll(photos[0])
        assert matcher.match(reference, grey).member.is_flat
        assert not matcher.match(reference, photos[1]).member.is_flat


def test_pixels_that_are_not_numbers_are_refused(matcher: DeployedExactMatcher) -> None:
    pixels = np.full((3, 512, 512), 0.5, np.float32)
    pixels[0, 0, 0] = np.nan
    with pytest.raises(InputError, match="finite"):
        matcher.coefficients(pixels)


# -- bare codes ------------------------------------------------------------------------------------


def test_a_bare_code_of_the_plain_hash_is_matched_exactly(photos: list[CanonicalImage]) -> None:
    code = "code:" + to_hex(deploy("pdq").hashes[0].code(photos[0].pixels))
    result = match(code, photos[0], hash="pdq")
    assert (result.decision, result.member.method) == (Decision.MATCH, "exact")
    assert result.radius > 1


def test_a_code_without_exactly_half_ones_is_used_too(photos: list[CanonicalImage]) -> None:
    bits = deploy("pdq").hashes[0].code(photos[0].pixels)
    bits[torch.nonzero(~bits).flatten()[:9]] = True
    result = match("code:" + to_hex(bits), photos[0], hash="pdq")
    assert result.decision is Decision.MATCH
    assert 0 < result.radius < match("code:" + to_hex(bits ^ (bits & False)), photos[0], hash="pdq").radius + 1


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("ab", "2 hex digits"),
        ("0" * 64, "all zeros"),
        ("f" * 64, "all ones"),
        ("f" * 60 + "0" * 4, "240 ones of 256 bits"),
        ("z" * 64, "not hexadecimal"),
    ],
)
def test_useless_codes_are_refused_with_the_reason(code: str, says: str) -> None:
    with pytest.raises(CodeError, match=says):
        deploy("pdq", for_codes=True).enroll_code(code)


# -- parameters ------------------------------------------------------------------------------------


@pytest.mark.parametrize("of_votes", [{"n": 200}, {"alpha": 1e-6}, {"noise": "clipped"}, {"target_radius": 1.0}])
def test_parameters_of_votes_select_votes(of_votes: dict[str, object]) -> None:
    assert deploy("pdq", **of_votes).members[0].config.method == "votes"  # type: ignore[arg-type]
    with pytest.raises(InputError, match="belongs to votes"):
        deploy("pdq", method="exact", **of_votes)  # type: ignore[arg-type]


def test_votes_can_be_asked_for_and_the_paper_has_them() -> None:
    assert deploy("pdq").members[0].config.method == "exact"
    assert deploy("pdq", method="votes").members[0].config.method == "votes"
    assert deploy("pdq", parameters="paper").members[0].config.method == "votes"


def test_a_hash_that_is_not_linear_has_no_exact_matcher(toy_hash: object) -> None:
    with pytest.raises(InputError, match="not linear"):
        deploy(toy_hash, method="exact", sigma=0.5)  # type: ignore[arg-type]


def test_one_sigma_gets_the_threshold_of_the_next_smaller_calibrated_one() -> None:
    profile = find_profile("pdq")
    assert profile is not None
    assert profile.exact is not None
    at = dict(zip(profile.exact.sigmas, profile.exact.thresholds, strict=True))
    config = deploy("pdq", sigma=1.2, views="none").members[0].config
    assert isinstance(config, ExactConfig)
    assert (config.sigmas, config.thresholds) == ((1.2,), (at[1.0],))
    assert deploy("pdq", sigma=1.0).members[0].config.sigmas == (1.0,)
    with pytest.raises(InputError, match="smallest calibrated"):
        deploy("pdq", sigma=0.01)


@pytest.mark.parametrize("parameters", [{"sigma": 0.0}, {"sigma": -1.0}, {"sigma": float("nan")}, {"threshold": 0.5}])
def test_parameters_out_of_range_are_refused(parameters: dict[str, float]) -> None:
    with pytest.raises(InputError):
        deploy("pdq", **{"threshold": 0.2, "sigma": 1.0, **parameters})  # type: ignore[arg-type]


@pytest.mark.parametrize("change", [{"n": 7}, {"alpha": 1e-6}, {"noise": "pink"}, {"target_radius": 1.0}])
def test_parameters_of_votes_cannot_be_changed_where_there_are_none(
    deployment: Deployment, change: dict[str, object]
) -> None:
    with pytest.raises(InputError, match="belongs to votes, and pdq is decided exactly"):
        deployment.with_config(**change)


def test_thresholds_belong_to_their_low_pass(deployment: Deployment) -> None:
    with pytest.raises(InputError, match="belong to its low-pass"):
        deployment.with_config(lowpass=16)
    config = deploy("pdq", lowpass=16, sigma=0.5).members[0].config
    assert isinstance(config, ExactConfig)
    assert config.thresholds == (deployment.hashes[0].threshold,)
    with pytest.raises(InputError, match="low-pass 16 is not calibrated"):
        deploy("pdq", lowpass=16)
    profile = find_profile("pdq")
    assert profile is not None
    assert profile.at_lowpass(None).exact is None


def test_the_threshold_of_bare_codes_is_the_one_measured_for_them() -> None:
    profile = find_profile("pdq")
    assert profile is not None
    assert profile.exact is not None
    for sigma in (None, profile.exact.external_sigma):
        assert deploy("pdq", for_codes=True, sigma=sigma).members[0].config == profile.exact.external_config()


# -- references ------------------------------------------------------------------------------------


def test_a_saved_reference_gives_the_same_answer(
    deployment: Deployment, photos: list[CanonicalImage], tmp_path: Path
) -> None:
    reference = deployment.enroll(photos[0])
    reference.save(tmp_path / "photo.dsref")
    loaded = Reference.load(tmp_path / "photo.dsref")
    assert isinstance(loaded.members[0], ExactReference)
    assert loaded.fingerprint == reference.fingerprint
    assert deployment.match(loaded, photos[0]).radius == deployment.match(reference, photos[0]).radius


def test_a_reference_of_votes_is_refused_by_an_exact_matcher_and_the_other_way_round(
    deployment: Deployment, photos: list[CanonicalImage]
) -> None:
    votes = deploy("pdq", method="votes", n=100)
    with pytest.raises(UnusableReferenceError, match="another configuration"):
        deployment.match(votes.enroll(photos[0]), photos[0])
    with pytest.raises(UnusableReferenceError, match="another configuration"):
        votes.match(deployment.enroll(photos[0]), photos[0])


def test_another_threshold_is_another_configuration(deployment: Deployment, photos: list[CanonicalImage]) -> None:
    with pytest.raises(UnusableReferenceError, match="thresholds"):
        deployment.match(deploy("pdq", threshold=0.25).enroll(photos[0]), photos[0])


# -- several hashes --------------------------------------------------------------------------------


def test_an_exact_member_needs_no_share_of_alpha(toy_hash: object, photos: list[CanonicalImage]) -> None:
    joint = deploy(["pdq", toy_hash], sigma=0.5, n=200)  # type: ignore[list-item]
    exact, voting = joint.matchers  # votes are for the hash that can only vote
    assert isinstance(exact, DeployedExactMatcher)
    assert voting.config.alpha == joint.alpha == pytest.approx(1e-3)
    result = joint.match(joint.enroll(photos[0]), photos[0])
    assert result.decision is Decision.MATCH
    assert result.radius >= result.members[0].radius
    assert result.noise_source == "secret"


# -- without torch ---------------------------------------------------------------------------------


def test_the_deployment_without_torch_gives_the_same_answers(
    deployment: Deployment, photo_files: list[Path], photos: list[CanonicalImage], matcher: DeployedExactMatcher
) -> None:
    profile = find_profile("pdq")
    assert profile is not None
    light = ExactDeployment(matcher.linear, matcher.config, deployment.hashes[0].boundary, profile)
    assert light.digest == deployment.digest
    first, second = (canonical_array(decode(file)) for file in photo_files[:2])
    assert float(np.abs(first.pixels - photos[0].pixels.numpy()).max()) < 1e-6
    mine, theirs = light.enroll(first), deployment.enroll(photo_files[0])
    assert mine.fingerprint == theirs.fingerprint
    for query, image in ((first, photo_files[0]), (second, photo_files[1])):
        found, expected = light.match(mine, query), deployment.match(theirs, image)
        assert found.decision is expected.decision
        assert found.radius == pytest.approx(expected.radius, rel=1e-4)
        assert found.radius_upload == pytest.approx(expected.radius_upload, rel=1e-4)
    assert light.false_matches == deployment.false_matches == 0.0


def test_gradients_of_the_soft_distance(matcher: DeployedExactMatcher, photos: list[CanonicalImage]) -> None:
    reference = matcher.enroll(photos[0].pixels)
    pixels = photos[1].pixels.double().requires_grad_()
    distance = matcher.soft_distance(reference, pixels)
    (gradient,) = torch.autograd.grad(distance, pixels)
    direction = torch.randn(3, 512, 512, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    step = 1e-3
    ahead, behind = (
        matcher.distance(reference, (photos[1].pixels.double() + sign * step * direction).numpy()) for sign in (1, -1)
    )
    assert float(distance.detach()) == pytest.approx(matcher.distance(reference, photos[1].pixels.numpy()))
    assert float((gradient * direction).sum()) == pytest.approx((ahead - behind) / (2 * step), rel=1e-3)


def test_the_code_of_a_reference_may_be_changed_only_with_its_terms(
    deployment: Deployment, photos: list[CanonicalImage]
) -> None:
    reference = deployment.enroll(photos[0])
    (kept,) = reference.members
    assert isinstance(kept, ExactReference)
    short = replace(reference, members=(replace(kept, levels=(replace(kept.levels[0], codes=kept.codes[:, :-1]),)),))
    with pytest.raises(UnusableReferenceError, match="255 values"):
        deployment.match(short, photos[0])
