"""A literal implementation of Algorithm 2 of the paper: the baseline for all speed-ups.

Add noise to both 512 x 512 images, clip, resize, hash both with torch in batches, compare, count, bound.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.smoothing.statistics import Certificate, fixed_certificate

BATCH = 8


@torch.inference_mode()
def noisy_codes(hash_: PerceptualHash, pixels: torch.Tensor, sigma: float, count: int) -> torch.Tensor:
    """Return the codes of ``count`` noisy, clipped copies."""
    noisy = (pixels + sigma * torch.randn(count, *pixels.shape)).clamp(0, 1)
    if hash_.name == "neuralhash":
        small = F.interpolate(noisy, size=(360, 360), mode="bicubic", antialias=True)
        margins: torch.Tensor = hash_.network(small * 2 - 1)
        return margins > 0
    return hash_.margins(noisy) > 0


def votes(hash_: PerceptualHash, reference: torch.Tensor, query: torch.Tensor, sigma: float, draws: int) -> int:
    """Return how many of ``draws`` independent noisy pairs match."""
    matches = 0
    for start in range(0, draws, BATCH):
        count = min(BATCH, draws - start)
        left, right = (noisy_codes(hash_, image, sigma, count) for image in (reference, query))
        matches += int(hash_.matches(left, right).sum())
    return matches


def certify(
    hash_: PerceptualHash,
    reference: torch.Tensor,
    query: torch.Tensor,
    *,
    sigma: float = 0.1,
    n0: int = 100,
    n: int = 5000,
    alpha: float = 1e-3,
) -> Certificate:
    """Run Algorithm 2 and return its certificate."""
    matched = 2 * votes(hash_, reference, query, sigma, n0) > n0
    matches = votes(hash_, reference, query, sigma, n)
    return fixed_certificate(
        matched=matched, votes=matches if matched else n - matches, draws=n, alpha=alpha, sigma=sigma
    )
