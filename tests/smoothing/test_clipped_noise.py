"""The paper's noise: its moments, and that its normal law is what drawing it pixel by pixel gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from dualshield.errors import InputError
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.images import CanonicalImage
from dualshield.images.eight_bit import to_8bit
from dualshield.smoothing.clipped_noise import KEPT, NODES, _moments, gaussian_limit
from dualshield.smoothing.config import PAPER, PAPER_LIMIT
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.noise_kinds import CLIPPED, CLIPPED_LIMIT
from dualshield.smoothing.statistics import Decision

SIGMA = 0.1


@pytest.fixture(scope="module")
def pdq() -> PerceptualHash:
    return get_hash("pdq")


@pytest.mark.parametrize("value", [0.0, 3 / 255, 0.5, 0.93, 1.0])
def test_moments_of_a_clipped_normal(value: float) -> None:
    """Variant numbers drawn, within five standard errors."""
    count = 400_000
    drawn = np.clip(value + SIGMA * np.random.default_rng(7).standard_normal(count), 0, 1)
    mean, variance, slope = (float(table[round(value * (NODES - 1))]) for table in _moments(SIGMA))
    assert mean == pytest.approx(drawn.mean(), abs=5 * drawn.std() / count**0.5)
    assert variance == pytest.approx(drawn.var(), rel=0.02)
    assert slope == pytest.approx(np.mean((drawn > 0) & (drawn < 1)), abs=5 * 0.5 / count**0.5)


def test_gradients_pass_where_nothing_was_clipped(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    """The same noise added and clipped by torch has the same margins and the same gradient."""
    pixels = (photos[0].pixels * 1.6 - 0.3).clamp(0, 1).requires_grad_()
    found = CLIPPED.margins(toy_hash, pixels, SIGMA, 3, GaussianSource.from_seed(3))
    noise = GaussianSource.from_seed(3).normal((3, *pixels.shape))
    expected = toy_hash.margins((pixels + SIGMA * noise).clamp(0, 1))
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(margins.square().sum(), pixels)[0] for margins in (found, expected)]
    torch.testing.assert_close(*gradients)
    assert gradients[0].abs().max() > 0


def test_the_limit_has_the_law_of_the_noise_itself(pdq: PerceptualHash, photos: list[CanonicalImage]) -> None:
    """Mean, covariance and normality of all 256 numbers, on an image with much to clip."""
    pixels = to_8bit((photos[0].pixels * 1.6 - 0.3).clamp(0, 1))
    source, draws = GaussianSource.from_seed(5), 300
    cores = torch.cat(
        [pdq.front_end.core(source.noisy_copies(pixels, SIGMA, 4).clamp_(0, 1)).flatten(1) for _ in range(draws // 4)]
    ).double()
    law = gaussian_limit(pdq).law(pixels, SIGMA)
    # In units of the law the draws are standard normal, and independent.
    white = torch.linalg.solve_triangular(law.factor.double(), (cores - law.mean.flatten()).T, upper=False).T
    scores = white.mean(0) * draws**0.5
    assert stats.kstest(scores.numpy(), "norm").pvalue > 1e-4
    assert stats.kstest(white.flatten().numpy(), "norm").pvalue > 1e-4
    assert float(white.square().mean()) == pytest.approx(1, abs=5 * (2 / white.numel()) ** 0.5)
    # Without the image's own variances it is another law: the test can fail.
    wrong = gaussian_limit(pdq).law(torch.full_like(pixels, 0.5), SIGMA)
    other = torch.linalg.solve_triangular(wrong.factor.double(), (cores - law.mean.flatten()).T, upper=False).T
    assert float(other.square().mean()) < 0.95


def test_gradients_are_those_of_the_noise_itself(pdq: PerceptualHash, photos: list[CanonicalImage]) -> None:
    """Of a linear loss, averaged over draws: one pixel's share is the chance that it is not clipped."""
    pixels = to_8bit(photos[0].pixels)
    weights = torch.randn(256, generator=torch.Generator().manual_seed(3))
    directions = []
    for limit, draws in ((True, 1), (False, 24)):
        moving = pixels.clone().requires_grad_()
        source = GaussianSource.from_seed(4)
        if limit:
            seen = gaussian_limit(pdq).features(moving, SIGMA, draws, source)
        else:
            noise = source.normal((draws, *pixels.shape))
            seen = pdq.front_end((moving + SIGMA * noise).clamp(0, 1))
        loss = (seen.flatten(1) @ weights).mean()
        directions.append(torch.autograd.grad(loss, moving)[0])
    limited, drawn = directions
    assert torch.cosine_similarity(limited.flatten(), drawn.flatten(), dim=0) > 0.97
    assert float(limited.norm() / drawn.norm()) == pytest.approx(1, abs=0.05)


def test_kept_laws_are_of_the_image_as_it_is(pdq: PerceptualHash, photos: list[CanonicalImage]) -> None:
    limit, pixels = gaussian_limit(pdq), to_8bit(photos[0].pixels)
    first = limit.law(pixels, SIGMA)
    assert limit.law(pixels, SIGMA) is first
    assert limit.law(pixels, 2 * SIGMA) is not first
    pixels[0, 100:200] = 0
    assert not torch.equal(limit.law(pixels, SIGMA).mean, first.mean)
    assert torch.equal(limit.law(pixels.clone(), SIGMA).mean, limit.law(pixels, SIGMA).mean)


def test_the_law_met_again_and_again_is_kept(pdq: PerceptualHash, photos: list[CanonicalImage]) -> None:
    """One reference meets many queries; it must not go when the oldest does."""
    limit, reference = gaussian_limit(pdq), to_8bit(photos[0].pixels)
    first = limit.law(reference, SIGMA)
    for shift in range(2 * KEPT):
        limit.law((reference + shift / 255).clamp(0, 1), SIGMA)
        assert limit.law(reference, SIGMA) is first
    assert len(limit._kept) == KEPT


def test_only_linear_hashes_have_it(photos: list[CanonicalImage]) -> None:
    efflite = get_hash("efflite")
    with pytest.raises(InputError, match="not linear"):
        _ = deploy(efflite, config=PAPER_LIMIT).matchers
    with pytest.raises(InputError, match="not linear"):
        CLIPPED_LIMIT.margins(efflite, photos[0].pixels, SIGMA, 1, GaussianSource.from_seed(1))


def test_the_papers_matcher_by_the_limit(pdq: PerceptualHash, photos: list[CanonicalImage]) -> None:
    """The full number of votes of the paper, on a match and on a pair of strangers; they decide, and prove nothing."""
    deployment = deploy(pdq, parameters="paper-limit")
    reference = deployment.enroll(photos[0])
    match, stranger = (
        deployment.match(reference, photo, noise=GaussianSource.for_work(2, photo.name)) for photo in photos[:2]
    )
    assert (match.decision, match.member.votes, match.member.draws) == (Decision.MATCH, 5000, 5000)
    assert (match.member.noise, match.member.threshold) == ("clipped-limit", 0.2)
    assert stranger.decision == Decision.NO_MATCH
    for found in (match, match.member, stranger, stranger.member):
        assert (found.radius, found.radius_detected) == (0, 0)
    assert match.member.p_lower == stranger.member.p_lower == 0
    assert match.psnr is None


def test_a_target_is_not_proven_by_the_limit_either(pdq: PerceptualHash, photos: list[CanonicalImage]) -> None:
    deployment = deploy(pdq, parameters="paper-limit", target_radius=0.1)
    found = deployment.match(deployment.enroll(photos[0]), photos[0], noise=GaussianSource.from_seed(2))
    assert found.decision == Decision.MATCH
    assert (found.radius, found.radius_detected, found.member.p_lower) == (0, 0, 0)


def test_the_papers_noise_itself_certifies(pdq: PerceptualHash, photos: list[CanonicalImage]) -> None:
    deployment = deploy(pdq, parameters="paper", n0=20, n=60)
    found = deployment.match(deployment.enroll(photos[0]), photos[0], noise=GaussianSource.from_seed(2))
    assert (found.decision, found.member.noise) == (Decision.MATCH, "clipped")
    assert found.radius == pytest.approx(deployment.members[0].config.radius_ceiling)


@pytest.mark.parametrize(("name", "noise"), [("pdq", "clipped-limit"), ("efflite", "clipped")])
def test_the_protocol_takes_it_where_it_can(name: str, noise: str) -> None:
    (member,) = deploy(name, parameters="paper-limit").members
    assert member.config == replace(PAPER, noise=noise)  # type: ignore[arg-type]
