"""Keep attacks inside the l2 ball around the query, the pixel range and the 8-bit grid of a saved file."""

from __future__ import annotations

import torch

from dualshield.images.eight_bit import to_8bit


def project(query: torch.Tensor, delta: torch.Tensor, l2: float) -> torch.Tensor:
    """Project a change onto the l2 ball, then the pixel range (which only shortens it); batches element by element."""
    norms = delta.flatten(-3).norm(dim=-1)[..., None, None, None].clamp_min(1e-20)
    delta = delta * (l2 / norms).clamp(max=1)
    return (query + delta).clamp(0, 1) - query


def to_8bit_within(query: torch.Tensor, delta: torch.Tensor, l2: float) -> torch.Tensor:
    """Return the perturbed query rounded to 8 bits, with the l2 budget kept after rounding.

    Rounding can lengthen a perturbation slightly; it is then shortened until the rounded image is inside the ball. The
    query itself must be on the 8-bit grid, or even an empty perturbation may be outside.
    """
    scale = 1.0
    for _ in range(60):
        image = to_8bit(query + scale * delta)
        # Double precision: a float32 norm over 786,432 values is off by about 0.1 %.
        length = float((image - query).double().norm())
        if length <= l2:
            return image
        scale *= min(0.999, l2 / length)
    return query.clone()
