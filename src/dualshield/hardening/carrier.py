"""The effect of the published image file on a perturbation: resizing, rounding and compression."""

from __future__ import annotations

from collections.abc import Callable

import torch

Carrier = Callable[[torch.Tensor], torch.Tensor]
"""Maps a canonical perturbation to the canonical pixels of the published file."""

REFRESH = 5


class StraightThrough:
    """Perturbed pixels with the file's errors added; the gradient passes through as if there were no file.

    Writing a 12-megapixel JPEG takes a second, and its errors change little from step to step, so they are updated
    only every few steps.
    """

    def __init__(self, pixels: torch.Tensor, carrier: Carrier | None) -> None:
        self._pixels = pixels
        self._carrier = carrier
        self._uses = 0
        self._residual: torch.Tensor | None = None

    def __call__(self, delta: torch.Tensor) -> torch.Tensor:
        """Return the published pixels, differentiable in ``delta``."""
        changed = (self._pixels + delta).clamp(0, 1)
        if self._carrier is None:
            # Every file rounds to at least 8 bits.
            return changed + (changed.detach().mul(255).round() / 255 - changed.detach())
        if self._uses % REFRESH == 0:
            self._residual = self._carrier(delta.detach()) - changed.detach()
        self._uses += 1
        assert self._residual is not None
        return changed + self._residual
