"""A differentiable approximation of the discrete matcher: soft bits, soft Hamming distances, margins in bits."""

from __future__ import annotations

import torch

from dualshield.hashes.margins import relative

SHARPNESS = 8.0
MARGIN_BITS = 4.0


def soft_bits(margins: torch.Tensor, sharpness: float = SHARPNESS) -> torch.Tensor:
    """Return bits in (-1, 1): the margins in units of their root mean square, through a steep tanh."""
    return torch.tanh(0.5 * sharpness * relative(margins))


def soft_distance(bits: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the soft Hamming distance of bits in [-1, 1]; exact for -1 and 1."""
    return 0.5 * (1 - bits * other).sum(-1)


def too_far(distance: torch.Tensor, max_distance: float, margin: float = MARGIN_BITS) -> torch.Tensor:
    """Return by how many bits positives exceed the matching distance minus the margin."""
    return (distance - (max_distance - margin)).clamp_min(0)


def too_near(distance: torch.Tensor, max_distance: float, margin: float = MARGIN_BITS) -> torch.Tensor:
    """Return by how many bits negatives fall below the matching distance plus the margin."""
    return (max_distance + margin - distance).clamp_min(0)
