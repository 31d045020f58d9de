"""How often unrelated codes match, and which threshold keeps that within a rate."""

from __future__ import annotations

import torch

from dualshield.errors import InputError


def hamming(codes: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Numbers of differing bits; broadcasts over batches."""
    return (codes ^ reference).sum(-1)


def threshold_at(distance: int, bits: int) -> float:
    """A bit error rate for a whole distance, half a step above it: floor(threshold * bits) is safe from rounding."""
    return min((distance + 0.5) / bits, 0.499)


def distance_histogram(codes: torch.Tensor) -> torch.Tensor:
    """How many of all pairs of codes are at each Hamming distance."""
    count, bits = codes.shape
    histogram = torch.zeros(bits + 1, dtype=torch.long)
    for i in range(count - 1):
        histogram += torch.bincount(hamming(codes[i + 1 :], codes[i]), minlength=bits + 1)
    return histogram


def threshold_for(fpr: float, plain: torch.Tensor) -> float:
    """The largest bit error rate whose matches among the unrelated ``plain`` codes stay within ``fpr``."""
    if not 0 < fpr < 1:
        raise InputError(f"false-match rate {fpr} is not in (0, 1)")
    count, bits = plain.shape
    pairs = count * (count - 1) // 2
    if pairs * fpr < 1:
        raise InputError(f"a false-match rate of {fpr:g} cannot be measured on {pairs} pairs; give more images")
    histogram = distance_histogram(plain)
    within = histogram.cumsum(0) <= fpr * pairs
    distance = int(within.sum()) - 1
    if distance < 0:
        raise InputError(
            f"even identical codes occur more often than {fpr:g} among these images: duplicates in the data?"
        )
    return threshold_at(distance, bits)
