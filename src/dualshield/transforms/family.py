"""One kind of transformation and its allowed levels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Family:
    """``apply(pixels, level, seed)`` maps a float image ``(3, height, width)`` in [0, 1] to one of the same shape."""

    apply: Callable[[torch.Tensor, float, int], torch.Tensor]
    lowest: float
    highest: float
    step: int = 0  # levels are whole numbers from `lowest` in this step; 0 allows any real number
