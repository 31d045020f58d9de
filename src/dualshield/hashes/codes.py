"""Hash codes as bool tensors and as hex, first bit first (most significant)."""

from __future__ import annotations

import torch

from dualshield.hashes import bits as arrays


def to_hex(code: torch.Tensor) -> str:
    """Return a bool vector as hex; the last digit is padded with zero bits if 4 does not divide the length."""
    return arrays.to_hex(code.cpu().numpy().astype(bool))


def from_hex(text: str, bits: int) -> torch.Tensor:
    """Return the bool vector of a hex string, which must have exactly as many digits as ``bits`` need."""
    return torch.from_numpy(arrays.from_hex(text, bits))


def bit_error_rate(code: torch.Tensor, other: torch.Tensor) -> float:
    """Return the fraction of differing bits."""
    return float((code ^ other).float().mean())


def distance_table(codes: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Return the Hamming distances of each of ``codes`` ``(n, bits)`` to each of ``others`` ``(m, bits)``: (n, m)."""
    ours, theirs = codes.float(), others.float()
    # Bits that only one of the two has; whole numbers, exact in float32.
    return (ours.sum(1, keepdim=True) + theirs.sum(1) - 2 * ours @ theirs.T).round().long()
