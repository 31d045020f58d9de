"""Native matching rules: those of a hash's authors that are not a bit error rate.

A vote of the smoothed matcher is any yes/no decision about one draw, so these rules are smoothed and certified exactly
like the Hamming rule (METHOD.md 2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class NativeRule:
    """Two images match if the distance of their values is below the limit."""

    about: str
    values: Callable[[torch.Tensor], torch.Tensor]  # margins (..., bits) -> values to compare (..., n)
    distance: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # broadcasts; reduces the last dimension
    limit: float

    def matches(self, values: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Return whether values match by the authors' rule; broadcasts over batches."""
        return self.distance(values, other) < self.limit


def l1(values: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the sum of absolute differences."""
    return (values - other).abs().sum(-1)


def cosine_distance(values: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return one minus the cosine similarity, which ignores lengths."""
    return 1 - torch.nn.functional.cosine_similarity(values, other, dim=-1)
