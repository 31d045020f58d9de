"""Codes and margins as numbers that gradients can work with."""

from __future__ import annotations

import torch


def signs(code: torch.Tensor) -> torch.Tensor:
    """A bool code as -1 and 1."""
    return code.float() * 2 - 1


def relative(margins: torch.Tensor) -> torch.Tensor:
    """Margins in units of their root mean square, so that hashes of any scale are treated alike."""
    return margins / margins.detach().square().mean(-1, keepdim=True).sqrt().clamp_min(1e-12)
