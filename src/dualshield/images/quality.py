"""Quality measures of a changed image relative to its original; both canonical."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

# SSIM: radius and sigma of the window, and the stabilising constants for pixels in [0, 1].
REACH, WINDOW_SIGMA = 5, 1.5
C1, C2 = 0.01**2, 0.03**2


@dataclass(frozen=True)
class Quality:
    """Quality measures of one pair; ``linf`` and ``l2`` in units of the pixel range [0, 1]."""

    ssim: float
    psnr: float
    linf: float
    l2: float


def ssim(original: torch.Tensor, changed: torch.Tensor) -> float:
    """Return the structural similarity (Wang et al., 2004): 11-pixel Gaussian window, all channels, mirrored borders.

    Same operations and order as torchmetrics, so the same number, without half a second of import time.
    """
    with torch.no_grad():
        x, y = (F.pad(image[None], (REACH,) * 4, mode="reflect") for image in (changed, original.to(changed)))
        places = torch.arange(-REACH, REACH + 1, dtype=x.dtype, device=x.device)
        bell = torch.exp(-torch.pow(places / WINDOW_SIGMA, 2) / 2)
        bell = (bell / bell.sum())[None]
        window = (bell.T @ bell).expand(x.shape[1], 1, -1, -1)
        means = F.conv2d(torch.cat([x, y, x * x, y * y, x * y]), window, groups=x.shape[1])
        mean_x, mean_y, square_x, square_y, product = means.chunk(5)
        of_means = mean_x * mean_y
        spread = (square_x - mean_x.pow(2)).clamp(min=0) + (square_y - mean_y.pow(2)).clamp(min=0)
        upper = (2 * of_means + C1) * (2 * (product - of_means) + C2)
        lower = (mean_x.pow(2) + mean_y.pow(2) + C1) * (spread + C2)
        return float((upper / lower).mean())


def compare(original: torch.Tensor, changed: torch.Tensor) -> Quality:
    """Return all quality measures of one pair ``(3, height, width)``."""
    difference = (changed - original).double()
    mse = float(difference.square().mean())
    return Quality(
        ssim=ssim(original, changed),
        psnr=math.inf if mse == 0 else -10 * math.log10(mse),
        linf=float(difference.abs().max()),
        l2=float(difference.norm()),
    )
