"""Where attacks live: the l2 ball around the query, inside the pixel range, on the 8-bit grid of a saved file."""

from __future__ import annotations

import torch

from dualshield.images.eight_bit import to_8bit


def project(query: torch.Tensor, delta: torch.Tensor, l2: float) -> torch.Tensor:
    """Onto the l2 ball, then the pixel range (which only shortens it); batches are projected one by one."""
    norms = delta.flatten(-3).norm(dim=-1)[..., None, None, None].clamp_min(1e-20)
    delta = delta * (l2 / norms).clamp(max=1)
    return (query + delta).clamp(0, 1) - query


def to_8bit_within(query: torch.Tensor, delta: torch.Tensor, l2: float) -> torch.Tensor:
    """The perturbed query as saved, with the l2 budget kept on the saved pixels.

    Rounding can lengthen a perturbation by a little; it is then shortened until the file is inside the ball. The query
    itself must lie on the 8-bit grid, or an empty perturbation may be outside already.
    """
    scale = 1.0
    for _ in range(60):
        image = to_8bit(query + scale * delta)
        # In double precision: over 786,432 pixels a float32 norm is off by a per mille.
        length = float((image - query).double().norm())
        if length <= l2:
            return image
        scale *= min(0.999, l2 / length)
    return query.clone()
