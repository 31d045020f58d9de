"""The gradient method, on a hash small enough for a few steps to show."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from dualshield.hardening import gradient, paper
from dualshield.hardening.carrier import StraightThrough
from dualshield.hardening.gradient import Goal
from dualshield.hardening.negatives import negatives
from dualshield.hardening.positives import random_variant
from dualshield.hardening.visibility import VisibilityBudget, noticeable
from dualshield.hashes import PerceptualHash
from dualshield.images import CanonicalImage, FrontEnd
from dualshield.images.quality import ssim
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.matcher import SmoothedMatcher
from dualshield.smoothing.noise import GaussianSource
from tests.helpers.matchers import voting

SIGMA = 2.0


@pytest.fixture(scope="module")
def matcher(toy_hash: PerceptualHash) -> SmoothedMatcher:
    return deployed(toy_hash, MatcherConfig(sigma="auto", sigma_grid=(1.0, SIGMA), n=200))


def deployed(hash_: PerceptualHash, config: MatcherConfig) -> SmoothedMatcher:
    return voting(deploy(hash_, config=config))


def distance(matcher: SmoothedMatcher, pixels: torch.Tensor, code: torch.Tensor) -> float:
    source = GaussianSource.from_seed(9)
    codes = torch.cat(list(matcher.sampler.codes(pixels, SIGMA, 400, source)))
    return float((codes ^ (code > 0)).sum(1).float().mean())


def test_noisy_codes_come_nearer_to_the_reference_within_the_budget(
    matcher: SmoothedMatcher, photos: list[CanonicalImage]
) -> None:
    pixels = photos[0].pixels
    goal = Goal.of(matcher, pixels, negatives()[:3])
    budget = VisibilityBudget(1.0)
    delta, steps = gradient.perturb(pixels, [goal], budget, steps=12, source=GaussianSource.from_seed(2))
    changed = (pixels + delta).clamp(0, 1)
    assert 1 <= steps <= 12
    assert distance(matcher, changed, goal.code) < 0.8 * distance(matcher, pixels, goal.code)
    assert ssim(pixels, changed) >= 1 - budget.ssim_loss - 1e-3
    assert (delta.abs() <= budget.peak * noticeable(pixels) + 1e-6).all()


def test_the_same_seed_gives_the_same_perturbation(matcher: SmoothedMatcher, photos: list[CanonicalImage]) -> None:
    goal = Goal.of(matcher, photos[1].pixels, [])
    runs = [
        gradient.perturb(photos[1].pixels, [goal], VisibilityBudget(0.5), steps=2, source=GaussianSource.from_seed(3))[
            0
        ]
        for _ in range(2)
    ]
    assert torch.equal(*runs)


def test_it_stops_when_every_margin_is_met(matcher: SmoothedMatcher, photos: list[CanonicalImage]) -> None:
    easy = deployed(matcher.hash, MatcherConfig(sigma=1e-3))
    goal = Goal.of(easy, photos[0].pixels, [])
    _, steps = gradient.perturb(
        photos[0].pixels, [goal], VisibilityBudget(1.0), steps=60, source=GaussianSource.from_seed(4)
    )
    assert steps < 60


def test_two_goals_at_once(matcher: SmoothedMatcher, toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    other = deployed(toy_hash, replace(matcher.config, lowpass=24))
    pixels = photos[2].pixels
    goals = [Goal.of(m, pixels, []) for m in (matcher, other)]
    delta, _ = gradient.perturb(pixels, goals, VisibilityBudget(1.0), steps=10, source=GaussianSource.from_seed(6))
    changed = (pixels + delta).clamp(0, 1)
    for m, goal in zip((matcher, other), goals, strict=True):
        assert distance(m, changed, goal.code) < distance(m, pixels, goal.code)


def test_negatives_push_back(matcher: SmoothedMatcher, photos: list[CanonicalImage]) -> None:
    """With a negative on the reference itself, separation is what the penalty asks for."""
    pixels = photos[0].pixels
    free, near = (Goal.of(matcher, pixels, found) for found in ([], [pixels]))
    source = GaussianSource.from_seed(7)
    offsets = torch.zeros(2, *matcher.hash.front_end.core_shape)
    assert gradient._positives(free, pixels, pixels, offsets, source)[1] == 0
    assert gradient._positives(near, pixels, pixels, offsets, source)[1] > 0


def test_hardening_aims_one_sigma_higher_than_the_image_bears(matcher: SmoothedMatcher) -> None:
    assert gradient._next_sigma(matcher, 1.0) == SIGMA
    assert gradient._next_sigma(matcher, SIGMA) == SIGMA


@pytest.mark.parametrize("seed", range(12))
def test_positives_are_images_and_differentiable(seed: int, photos: list[CanonicalImage]) -> None:
    pixels = photos[0].pixels.clone().requires_grad_()
    variant = random_variant(pixels, random.Random(seed))
    assert variant.shape == pixels.shape
    assert float((variant - pixels).detach().abs().max()) > 0.0
    (gradient_,) = torch.autograd.grad(variant.square().sum(), pixels)
    assert gradient_.abs().sum() > 0


def test_straight_through_sees_the_file_and_keeps_the_gradient(photos: list[CanonicalImage]) -> None:
    pixels = photos[0].pixels
    calls = []

    def carrier(delta: torch.Tensor) -> torch.Tensor:
        calls.append(delta)
        return (pixels + delta) * 0.9

    publish = StraightThrough(pixels, carrier)
    delta = torch.zeros_like(pixels, requires_grad=True)
    for _ in range(6):
        published = publish(delta)
    assert len(calls) == 2
    assert torch.allclose(published, pixels * 0.9, atol=1e-6)
    (found,) = torch.autograd.grad(published.sum(), delta)
    assert torch.equal(found, torch.ones_like(found))
    rounded = StraightThrough(pixels, None)(delta).detach()
    assert torch.allclose(rounded * 255, (rounded * 255).round(), atol=1e-4)


def test_the_paper_preset_stays_in_its_ball_and_steadies_the_code(
    toy_hash: PerceptualHash, photos: list[CanonicalImage]
) -> None:
    """On single pixels, where noise of 0.1 flips bits; few may differ, so the hinge is active from the start."""
    fragile = replace(toy_hash, front_end=FrontEnd.identity().grey().centre_crop(8, 8), threshold=0.05)
    pixels = photos[3].pixels
    delta, steps = paper.perturb(pixels, [fragile], negatives()[:2], steps=12, source=GaussianSource.from_seed(8))
    changed = pixels + delta
    assert steps == 12
    assert delta.abs().max() <= 12 / 255 + 1e-6
    assert changed.min() >= 0
    assert changed.max() <= 1

    def paired_distance(image: torch.Tensor) -> float:
        noise = 0.1 * torch.randn(400, *image.shape[:1], 8, 8, generator=torch.Generator().manual_seed(1))
        window = image[:, 252:260, 252:260]
        features = FrontEnd.identity(8).grey()((window + noise).clamp(0, 1))
        codes = fragile.network(features) > 0
        return float((codes[:200] ^ codes[200:]).sum(1).float().mean())

    assert paired_distance(changed) < paired_distance(pixels)


def test_the_papers_settings() -> None:
    assert (paper.STEPS, paper.STEP_SIZE, paper.LINF, paper.SIGMA) == (200, 1 / 255, 16 / 255, 0.10)
    assert (paper.POSITIVE_DRAWS, paper.NEGATIVE_DRAWS, paper.INNER_STEPS) == (16, 8, 5)
    assert (paper.NEGATIVE_WEIGHT, paper.DISTORTION_WEIGHT) == (1.0, 0.01)
