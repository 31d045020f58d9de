"""A hash network that can be computed by hand."""

from __future__ import annotations

import torch


class Linear(torch.nn.Module):
    """Margins that are linear in the features: the smoothed probability of each bit is known."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | float = 0.0) -> None:
        super().__init__()
        self.weight: torch.Tensor
        self.bias: torch.Tensor
        self.register_buffer("weight", weight)
        self.register_buffer("bias", torch.as_tensor(bias))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features.flatten(1) @ self.weight.T + self.bias
