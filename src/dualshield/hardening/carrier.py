"""What carries a perturbation to the public: an image file, with its own size, rounding and compression."""

from __future__ import annotations

from collections.abc import Callable

import torch

Carrier = Callable[[torch.Tensor], torch.Tensor]
"""From a canonical perturbation to the canonical pixels of the file that publishes it."""

REFRESH = 5


class StraightThrough:
    """Adds to a perturbed image what the file does to it, and leaves the gradient as if nothing happened.

    Writing a 12-megapixel JPEG takes a second, and its errors change little from step to step: they are looked up
    every few steps only.
    """

    def __init__(self, pixels: torch.Tensor, carrier: Carrier | None) -> None:
        self._pixels = pixels
        self._carrier = carrier
        self._uses = 0
        self._residual: torch.Tensor | None = None

    def __call__(self, delta: torch.Tensor) -> torch.Tensor:
        """Pixels as published, differentiable in ``delta``."""
        changed = (self._pixels + delta).clamp(0, 1)
        if self._carrier is None:
            # Eight bits are the least that any file costs.
            return changed + (changed.detach().mul(255).round() / 255 - changed.detach())
        if self._uses % REFRESH == 0:
            self._residual = self._carrier(delta.detach()) - changed.detach()
        self._uses += 1
        assert self._residual is not None
        return changed + self._residual
