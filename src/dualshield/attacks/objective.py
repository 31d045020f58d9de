"""What gradient attacks descend on."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from dualshield.hashes.margins import relative

# Evading: as little past the boundary as saving in 8 bits allows, every bit costs budget. Found on PDQ and NeuralHash:
# six bits and a quarter of the typical margin needed up to a third more l2.
SLACK_BITS = 2
CONFIDENCE = 0.03
# Colliding: nearly all bits have to come over and stay, also under noise.
JOIN_SLACK_BITS = 6
JOIN_CONFIDENCE = 0.25


def flip_margin(margins: torch.Tensor, signs: torch.Tensor, flips: int) -> torch.Tensor:
    """The focused flip-margin objective: the cheapest bits that have to flip, pushed a little past the boundary.

    ``margins`` ``(b, bits)``, ``signs`` the reference's bits as -1 and 1. Only the ``flips`` bits nearest to flipping
    (or flipped already) count, each until it is past the boundary by a fraction of the typical margin; the others are
    left alone, because every bit costs budget. Zero when that is achieved.
    """
    agreement = relative(margins) * signs
    cheapest = agreement.topk(min(flips, agreement.shape[-1]), largest=False).values
    return (cheapest + CONFIDENCE).clamp_min(0).mean(-1)


def needed_flips(max_distance: int, bits: int) -> int:
    """How many bits must flip so that a query no longer matches, with some to spare."""
    return min(bits, max_distance + 1 + SLACK_BITS)


def combined_direction(gradients: Sequence[torch.Tensor], losses: Sequence[torch.Tensor]) -> torch.Tensor:
    """One direction that serves every member of a service: ``(..., 3, h, w)`` from theirs, with their losses ``(...)``.

    Gradients of different hashes differ in length by their networks, not by what a member needs. So each counts at unit
    length, and for its share of the loss that is left: a member that is evaded with something to spare pulls no more.
    """
    total = torch.stack(list(losses)).sum(0)
    direction = torch.zeros_like(gradients[0])
    for gradient, loss in zip(gradients, losses, strict=True):
        length = gradient.flatten(-3).norm(dim=-1).clamp_min(1e-20)
        share = torch.where(total > 0, loss / total, 0)
        direction = direction + share[..., None, None, None] * (gradient / length[..., None, None, None])
    return direction


def join_margin(margins: torch.Tensor, signs: torch.Tensor, max_distance: int) -> torch.Tensor:
    """For a collision: all bits but the dearest must come to the reference's side.

    ``max_distance`` bits may stay where they are; a few fewer are given up, to have some to spare.
    """
    agreement = (relative(margins) * signs).sort(-1).values
    kept = agreement[..., max(0, max_distance - JOIN_SLACK_BITS) :]
    return (JOIN_CONFIDENCE - kept).clamp_min(0).mean(-1)
