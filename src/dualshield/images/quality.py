"""How much a changed image differs from its original; both canonical."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Quality:
    """``linf`` and ``l2`` in units of the pixel range [0, 1]."""

    ssim: float
    psnr: float
    linf: float
    l2: float


def ssim(original: torch.Tensor, changed: torch.Tensor) -> float:
    """Structural similarity (Gaussian window of 11, all three channels), by torchmetrics."""
    # Takes half a second to import, which most commands never need.
    from torchmetrics.functional.image import structural_similarity_index_measure

    with torch.no_grad():
        found = structural_similarity_index_measure(changed[None], original[None], data_range=1.0)
    assert isinstance(found, torch.Tensor)
    return float(found)


def compare(original: torch.Tensor, changed: torch.Tensor) -> Quality:
    """All figures of one pair ``(3, height, width)``."""
    difference = (changed - original).double()
    mse = float(difference.square().mean())
    return Quality(
        ssim=ssim(original, changed),
        psnr=math.inf if mse == 0 else -10 * math.log10(mse),
        linf=float(difference.abs().max()),
        l2=float(difference.norm()),
    )
