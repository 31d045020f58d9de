"""What the eye lets pass, and the budget."""

from __future__ import annotations

import pytest
import torch

from dualshield.errors import InputError
from dualshield.hardening.visibility import LARGEST, VisibilityBudget, noticeable
from dualshield.images.quality import compare, ssim
from dualshield.images.synthetic import natural_image


def flat(value: float) -> torch.Tensor:
    return torch.full((3, 512, 512), value)


def test_structure_hides_more_than_a_flat_area() -> None:
    pixels = flat(0.5)
    stripes = (torch.arange(256) // 8 % 2).float() * 0.6 + 0.2
    pixels[:, :, 256:] = stripes
    threshold = noticeable(pixels)
    assert threshold[:, 320:].min() > 3 * threshold[:, :200].max()
    assert threshold.max() <= LARGEST


def test_fine_texture_does_not_hide_a_smooth_change() -> None:
    checked = flat(0.5)
    checked[:, ::2, ::2] += 0.2
    checked[:, 1::2, 1::2] += 0.2
    assert torch.allclose(noticeable(checked), noticeable(flat(0.6)), atol=0.4 / 255)


def test_the_dark_hides_more_and_the_transparent_nothing() -> None:
    assert noticeable(flat(0.02)).mean() > 1.5 * noticeable(flat(0.6)).mean()
    opacity = torch.ones(512, 512)
    opacity[:, :256] = 0
    threshold = noticeable(flat(0.5), opacity)
    assert threshold[:, :200].max() == 0
    assert threshold[:, 300:].min() > 0


@pytest.mark.parametrize("strength", [0.0, -1.0, 4.1, float("nan"), float("inf")])
def test_impossible_strengths(strength: float) -> None:
    with pytest.raises(InputError, match="strength"):
        VisibilityBudget(strength)


def test_shrinking_by_the_excess_keeps_the_ssim() -> None:
    pixels = natural_image(1).pixels
    noise = 0.2 * (torch.rand(pixels.shape, generator=torch.Generator().manual_seed(1)) - 0.5)
    budget = VisibilityBudget(1.0)
    factor = budget.excess(pixels, pixels + noise)
    assert factor < 1
    assert 1 - ssim(pixels, pixels + factor * noise) < 1.5 * budget.ssim_loss
    assert budget.excess(pixels, pixels) == 1


def test_quality_figures() -> None:
    pixels = flat(0.5)
    changed = pixels.clone()
    changed[0, 0, 0] += 0.1
    found = compare(pixels, changed)
    assert found.linf == pytest.approx(0.1)
    assert found.l2 == pytest.approx(0.1)
    assert found.psnr == pytest.approx(78.96, abs=0.01)
    assert found.ssim < 1
    assert compare(pixels, pixels).psnr == float("inf")
    assert compare(pixels, pixels).ssim == pytest.approx(1)
