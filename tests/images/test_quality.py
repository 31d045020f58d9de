"""How changes are measured: SSIM is the number that torchmetrics gives."""

from __future__ import annotations

import math

import pytest
import torch

from dualshield.images import CanonicalImage
from dualshield.images.quality import compare, ssim


def by_torchmetrics(original: torch.Tensor, changed: torch.Tensor) -> float:
    from torchmetrics.functional.image import structural_similarity_index_measure

    return float(structural_similarity_index_measure(changed[None], original[None], data_range=1.0))  # type: ignore[arg-type]


def test_ssim_is_that_of_torchmetrics(photos: list[CanonicalImage]) -> None:
    noise = torch.randn(photos[0].pixels.shape, generator=torch.Generator().manual_seed(1))
    for photo in photos:
        pixels = photo.pixels
        for changed in (pixels, (pixels + 0.05 * noise).clamp(0, 1), photos[0].pixels, 1 - pixels, pixels * 0.9):
            assert ssim(pixels, changed) == pytest.approx(by_torchmetrics(pixels, changed), abs=1e-6)


@pytest.mark.parametrize("shape", [(3, 20, 33), (1, 11, 11), (3, 6, 40)])
def test_ssim_of_other_shapes(shape: tuple[int, ...]) -> None:
    source = torch.Generator().manual_seed(2)
    first, second = (torch.rand(shape, generator=source) for _ in range(2))
    assert ssim(first, second) == pytest.approx(by_torchmetrics(first, second), abs=1e-6)


def test_an_unchanged_image(photos: list[CanonicalImage]) -> None:
    found = compare(photos[0].pixels, photos[0].pixels)
    assert found.ssim == pytest.approx(1, abs=1e-5)
    assert (found.psnr, found.linf, found.l2) == (math.inf, 0, 0)
