"""The closed form for PDQ."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import ndtr

from dualshield.hardening.linear import _Problem, cheapest_attack, perturb
from dualshield.hardening.visibility import VisibilityBudget, noticeable
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.images import CanonicalImage
from dualshield.images.quality import ssim
from dualshield.transforms import Transform


@pytest.fixture(scope="module")
def pdq() -> PerceptualHash:
    return get_hash("pdq").with_lowpass(64)


def flips(hash_: PerceptualHash, pixels: torch.Tensor, sigma: float) -> float:
    """Mean flipped bits under real noise."""
    core = hash_.front_end.core(pixels)
    noise = torch.randn(400, *core.shape, generator=torch.Generator().manual_seed(3))
    codes = hash_.network(hash_.front_end.expansion()(core + sigma * noise)) > 0
    return float((codes ^ hash_.code(pixels)).sum(1).float().mean())


def test_margins_grow_within_the_budget(pdq: PerceptualHash, photos: list[CanonicalImage]) -> None:
    for photo in photos[:2]:
        budget = VisibilityBudget(1.0)
        threshold = noticeable(photo.pixels)
        delta = perturb(photo.pixels, pdq, budget)
        changed = (photo.pixels + delta).clamp(0, 1)
        assert (delta.abs() <= budget.peak * threshold + 1e-6).all()
        assert ssim(photo.pixels, changed) >= 1 - budget.ssim_loss
        assert flips(pdq, changed, 2.0) < 0.75 * flips(pdq, photo.pixels, 2.0)
        assert int((pdq.code(changed) ^ pdq.code(photo.pixels)).sum()) <= 20


def test_the_model_of_the_margins_is_the_hash(pdq: PerceptualHash, photos: list[CanonicalImage]) -> None:
    """Expected flips by formula against flips under drawn noise, before and after the change found with it."""
    pixels = photos[0].pixels * 0.5 + 0.25
    weight = noticeable(pixels).double().numpy() ** 2
    luma, _ = _Problem(pdq, pixels, weight).solve(300.0)
    change = torch.from_numpy(luma).float().expand(3, -1, -1)
    for image in (pixels, pixels + change):
        margins = _Problem(pdq, image, weight).margins[1]
        assert float(ndtr(-margins / 1.5).sum()) == pytest.approx(flips(pdq, image, 1.5), rel=0.1)


def test_the_cheapest_attack_is_enough_and_no_random_one_is_cheaper() -> None:
    rng = np.random.default_rng(5)
    margins = np.abs(rng.normal(size=64)) * 3
    for sigma, wanted in ((0.3, 10.0), (1.5, 20.0)):
        shifts = cheapest_attack(margins, sigma, wanted)
        assert ndtr((shifts - margins) / sigma).sum() == pytest.approx(wanted, abs=1.0)
        length = float(np.linalg.norm(shifts))
        for _ in range(500):
            other = np.where(rng.random(64) < 0.5, np.abs(rng.normal(size=64)), 0.0)
            other = other * (0.97 * length / np.linalg.norm(other))
            assert ndtr((other - margins) / sigma).sum() < wanted
    assert not cheapest_attack(margins, 50.0, 20.0).any()


def test_attacks_become_dearer(pdq: PerceptualHash, photos: list[CanonicalImage]) -> None:
    pixels = photos[1].pixels
    changed = (pixels + perturb(pixels, pdq, VisibilityBudget())).clamp(0, 1)
    ones = np.ones((512, 512))
    assert _Problem(pdq, changed, ones).cost(1.0) > 1.8 * _Problem(pdq, pixels, ones).cost(1.0)


def test_more_strength_more_margin(pdq: PerceptualHash, photos: list[CanonicalImage]) -> None:
    found = []
    for strength in (0.25, 1.0):
        delta = perturb(photos[1].pixels, pdq, VisibilityBudget(strength))
        found.append(flips(pdq, (photos[1].pixels + delta).clamp(0, 1), 2.0))
    assert found[1] < found[0] < flips(pdq, photos[1].pixels, 2.0)


def test_a_blank_image_is_survived(pdq: PerceptualHash) -> None:
    delta = perturb(torch.full((3, 512, 512), 0.5), pdq, VisibilityBudget())
    assert torch.isfinite(delta).all()


def test_a_lossy_file_never_makes_the_second_pass_worse(pdq: PerceptualHash, photos: list[CanonicalImage]) -> None:
    pixels = photos[0].pixels
    calls = []

    def carrier(delta: torch.Tensor) -> torch.Tensor:
        calls.append(delta)
        return Transform("jpeg", 20)((pixels + delta).clamp(0, 1))

    blind = perturb(pixels, pdq, VisibilityBudget())
    aware = perturb(pixels, pdq, VisibilityBudget(), carrier=carrier)
    assert len(calls) == 2
    assert flips(pdq, carrier(aware), 3.0) <= 1.02 * flips(pdq, carrier(blind), 3.0)
