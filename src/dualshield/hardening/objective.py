"""The differentiable stand-in for the discrete matcher: soft bits, soft Hamming distances, margins in bits."""

from __future__ import annotations

import torch

from dualshield.hashes.margins import relative

SHARPNESS = 8.0
MARGIN_BITS = 4.0


def soft_bits(margins: torch.Tensor, sharpness: float = SHARPNESS) -> torch.Tensor:
    """Bits in (-1, 1): the margins in units of their root mean square, through a steep sigmoid."""
    return torch.tanh(0.5 * sharpness * relative(margins))


def soft_distance(bits: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The Hamming distance of (soft) bits; equals it on hard ones."""
    return 0.5 * (1 - bits * other).sum(-1)


def too_far(distance: torch.Tensor, max_distance: float, margin: float = MARGIN_BITS) -> torch.Tensor:
    """By how many bits positives miss the matching distance less the margin."""
    return (distance - (max_distance - margin)).clamp_min(0)


def too_near(distance: torch.Tensor, max_distance: float, margin: float = MARGIN_BITS) -> torch.Tensor:
    """By how many bits negatives come nearer than the matching distance plus the margin."""
    return (max_distance + margin - distance).clamp_min(0)
