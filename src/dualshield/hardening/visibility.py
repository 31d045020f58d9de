"""The visibility of a change: a just-noticeable-difference map, and the budget in its units.

Hardening adds a smooth change, a few cycles across the image. Structure of the same scale (foliage, edges, folds) masks
such a change. Areas that are flat at this scale do not, even with fine texture (a wall, a screen, the sky). So masking
is measured on the band from about 5 to 25 pixels, not on fine gradients. A smooth base term follows the luminance: the
eye notices least in the dark.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from dualshield.errors import InputError
from dualshield.images.quality import ssim
from dualshield.images.space import LUMA

FLAT = 0.8 / 255
DARK = 0.8 / 255
DARK_BELOW = 0.4
MASKING = 0.2
LARGEST = 8 / 255

# Limits at strength 1, found by looking at results: ||delta / threshold||_2 over the pixels, the loss of SSIM, and the
# peak in units of the threshold.
NORM = 700.0
SSIM_LOSS = 0.028
PEAK = 2.5
MAX_STRENGTH = 4.0


def noticeable(pixels: torch.Tensor, opacity: torch.Tensor | None = None) -> torch.Tensor:
    """Return the amplitude ``(height, width)`` at which a smooth change is noticed; 0 in transparent areas."""
    luma = (pixels * pixels.new_tensor(LUMA)[:, None, None]).sum(0)
    coarse = _blur(luma, 5)
    energy = _blur((coarse - _blur(coarse, 25)).square(), 5).clamp_min(0)
    # Geometric mean: it is high on texture, but low around an edge beside a flat area, where a halo would show.
    activity = _blur(0.5 * (energy + FLAT**2).log(), 25).exp()
    dark = ((DARK_BELOW - _blur(luma, 17)) / DARK_BELOW).clamp_min(0).pow(1.5)
    threshold = (FLAT + DARK * dark + MASKING * activity).clamp(max=LARGEST)
    return threshold if opacity is None else threshold * _blur(opacity, 5).clamp(0, 1)


@dataclass(frozen=True)
class VisibilityBudget:
    """How much may be changed; strength 1 is imperceptible on ordinary photos at 100 % zoom."""

    strength: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.strength <= MAX_STRENGTH:
            raise InputError(f"strength {self.strength} is not in (0, {MAX_STRENGTH:g}]")

    @property
    def norm(self) -> float:
        """The largest ``||delta / threshold||_2``."""
        return NORM * self.strength

    @property
    def ssim_loss(self) -> float:
        """The largest 1 - SSIM."""
        return SSIM_LOSS * self.strength

    @property
    def peak(self) -> float:
        """The largest change of one pixel, in units of the threshold."""
        return PEAK * self.strength

    def excess(self, original: torch.Tensor, changed: torch.Tensor) -> float:
        """Return the factor that shrinks a change to the SSIM budget (1 - SSIM grows with its square); 1 if it fits."""
        loss = 1 - ssim(original, changed)
        return 1.0 if loss <= self.ssim_loss else float((self.ssim_loss / loss) ** 0.5)


def _blur(image: torch.Tensor, width: int) -> torch.Tensor:
    """Two passes of a box filter along each axis."""
    half = width // 2
    for kernel in ((width, 1), (1, width)) * 2:
        vertical = kernel[0] > 1
        padded = F.pad(image[None, None], (0, 0, half, half) if vertical else (half, half, 0, 0), mode="replicate")
        image = F.avg_pool2d(padded, kernel, 1)[0, 0]
    return image
