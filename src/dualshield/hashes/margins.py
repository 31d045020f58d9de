"""Conversion of codes and margins for use in losses."""

from __future__ import annotations

import torch


def signs(code: torch.Tensor) -> torch.Tensor:
    """Return a bool code as -1 and 1."""
    return code.float() * 2 - 1


def relative(margins: torch.Tensor) -> torch.Tensor:
    """Return margins divided by their root mean square, so that the scale of a hash does not matter."""
    return margins / margins.detach().square().mean(-1, keepdim=True).sqrt().clamp_min(1e-12)
