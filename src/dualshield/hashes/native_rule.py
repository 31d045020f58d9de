"""The matching rule of a hash's own authors, where it is not a bit error rate.

A vote of the smoothed matcher is any yes or no about one draw, so these rules are smoothed and certified exactly as the
Hamming rule is (METHOD.md 2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class NativeRule:
    """Two images match where the distance of their values is below the limit."""

    about: str
    values: Callable[[torch.Tensor], torch.Tensor]  # margins (..., bits) -> what the authors compare (..., n)
    distance: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # broadcasts, and reduces the last dimension
    limit: float

    def matches(self, values: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """The authors' decision; broadcasts over batches."""
        return self.distance(values, other) < self.limit


def l1(values: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The sum of absolute differences."""
    return (values - other).abs().sum(-1)


def cosine_distance(values: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """One minus the cosine similarity; lengths do not matter."""
    return 1 - torch.nn.functional.cosine_similarity(values, other, dim=-1)
