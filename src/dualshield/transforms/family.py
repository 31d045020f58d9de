"""One kind of transformation and the levels it can be given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Family:
    """``apply(pixels, level, seed)`` on a float image ``(3, height, width)`` in [0, 1], same shape."""

    apply: Callable[[torch.Tensor, float, int], torch.Tensor]
    lowest: float
    highest: float
    step: int = 0  # levels are whole numbers, this far apart from `lowest`; 0 for any real number
