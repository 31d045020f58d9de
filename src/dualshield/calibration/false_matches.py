"""Count matches among unrelated codes, and find the threshold for a false-match rate."""

from __future__ import annotations

import torch

from dualshield.errors import InputError


def hamming(codes: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Return the numbers of differing bits; broadcasts over batches."""
    return (codes ^ reference).sum(-1)


def threshold_at(distance: int, bits: int) -> float:
    """Return a bit error rate half a bit above a whole distance, so that rounding does not affect the threshold."""
    return min((distance + 0.5) / bits, 0.499)


def distance_histogram(codes: torch.Tensor) -> torch.Tensor:
    """Return the number of pairs of codes at each Hamming distance."""
    count, bits = codes.shape
    histogram = torch.zeros(bits + 1, dtype=torch.long)
    for i in range(count - 1):
        histogram += torch.bincount(hamming(codes[i + 1 :], codes[i]), minlength=bits + 1)
    return histogram


def threshold_for(fpr: float, plain: torch.Tensor) -> float:
    """Return the largest bit error rate at which at most ``fpr`` of the pairs of unrelated ``plain`` codes match."""
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
            f"the rate of identical codes is already above fpr {fpr:g}; remove duplicate images from the data"
        )
    return threshold_at(distance, bits)
