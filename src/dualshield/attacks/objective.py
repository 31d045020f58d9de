"""The objectives of gradient attacks."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from dualshield.hashes.margins import relative

# Evasion: only as far past the boundary as 8-bit rounding requires, because every bit costs budget. On PDQ and
# NeuralHash six bits and a quarter of the typical margin needed up to a third more l2.
SLACK_BITS = 2
CONFIDENCE = 0.03
# Collision: nearly all bits must change sides and stay there, also under noise.
JOIN_SLACK_BITS = 6
JOIN_CONFIDENCE = 0.25
# Of a reference with many views, an evasion leaves this many at once; the others are farther away.
VIEWS_AT_ONCE = 4


def flip_margin(margins: torch.Tensor, signs: torch.Tensor, flips: int) -> torch.Tensor:
    """Return the focused flip-margin objective: push the cheapest bits slightly past the boundary.

    ``margins`` ``(b, bits)``, ``signs`` the reference's bits as -1 and 1. Only the ``flips`` bits nearest to flipping
    (or already flipped) count, each until it is past the boundary by a fraction of the typical margin. The others are
    ignored, because every bit costs budget. The objective is zero when all counted bits are past the boundary.
    """
    agreement = relative(margins) * signs
    cheapest = agreement.topk(min(flips, agreement.shape[-1]), largest=False).values
    return (cheapest + CONFIDENCE).clamp_min(0).mean(-1)


def flip_all_margin(margins: torch.Tensor, signs: torch.Tensor, flips: int) -> torch.Tensor:
    """Return the objective of an evasion of all views of a reference ``(views, bits)``, for each row of ``margins``.

    It is the mean `flip_margin` of the nearest views that are not evaded yet.
    """
    nearest = _distances(margins, signs).topk(min(VIEWS_AT_ONCE, len(signs)), largest=False).indices
    each = flip_margin(margins[:, None], signs[nearest], flips)
    return each.sum(-1) / (each.detach() > 0).sum(-1).clamp_min(1)


def needed_flips(max_distance: int, bits: int) -> int:
    """Return how many bits must flip so that a query no longer matches, plus a small reserve."""
    return min(bits, max_distance + 1 + SLACK_BITS)


def combined_direction(gradients: Sequence[torch.Tensor], losses: Sequence[torch.Tensor]) -> torch.Tensor:
    """Combine the members' gradients ``(..., 3, h, w)`` into one direction, weighted by their losses ``(...)``.

    The length of a gradient depends on the network of the hash, not on how much a member still needs. So each gradient
    is normalised and weighted by its share of the total loss; a member that is safely evaded has no weight.
    """
    total = torch.stack(list(losses)).sum(0)
    direction = torch.zeros_like(gradients[0])
    for gradient, loss in zip(gradients, losses, strict=True):
        length = gradient.flatten(-3).norm(dim=-1).clamp_min(1e-20)
        share = torch.where(total > 0, loss / total, 0)
        direction = direction + share[..., None, None, None] * (gradient / length[..., None, None, None])
    return direction


def join_margin(margins: torch.Tensor, signs: torch.Tensor, max_distance: int) -> torch.Tensor:
    """Return the collision objective: all bits except the most costly must move to the reference's side.

    ``max_distance`` bits may stay; the objective leaves slightly fewer, as a reserve.
    """
    agreement = (relative(margins) * signs).sort(-1).values
    kept = agreement[..., max(0, max_distance - JOIN_SLACK_BITS) :]
    return (JOIN_CONFIDENCE - kept).clamp_min(0).mean(-1)


def nearest_view(margins: torch.Tensor, signs: torch.Tensor) -> torch.Tensor:
    """Return the view of a reference ``(views, bits)`` that is the nearest on average, for a collision with it."""
    return signs[int(_distances(margins, signs).float().mean(0).argmin())]


def _distances(margins: torch.Tensor, signs: torch.Tensor) -> torch.Tensor:
    """Return how many bits of each row differ from each view ``(rows, views)``."""
    return ((margins.detach() > 0)[:, None] != (signs > 0)).sum(-1)
