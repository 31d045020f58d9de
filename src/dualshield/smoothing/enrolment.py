"""Enrolment: the noisy codes of a reference, and the sigma it gets.

Both depend on the reference only, never on a query, so the deployed matcher stays one fixed function of the query and
its certificates stay valid. None of the draws made here certifies anything.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from scipy.special import ndtr

from dualshield.hashes.contract import PerceptualHash
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.reference import ReferenceMode, majority
from dualshield.smoothing.sampler import Sampler
from dualshield.smoothing.statistics import certified_radius, clopper_pearson_lower, radius_ceiling

# Draws of a light hash cost nothing, and more of them tell its best sigma and consensus more surely.
LIGHT_DRAWS = 1001


def consensus_draws(hash_: PerceptualHash, bank_size: int) -> int:
    """How many noisy codes a consensus is made of; odd, so that there are no ties."""
    return max(bank_size, LIGHT_DRAWS if hash_.is_light else 1) | 1


def draw_bank(sampler: Sampler, pixels: torch.Tensor, sigma: float, size: int, source: GaussianSource) -> torch.Tensor:
    """``size`` noisy codes of the reference."""
    return torch.cat(list(sampler.codes(pixels, sigma, size, source)))


def expected_radius(
    bank: torch.Tensor, hash_: PerceptualHash, mode: ReferenceMode, sigma: float, n: int, alpha: float
) -> float:
    """The fixed-N radius to expect for the reference itself as query, estimated from its bank.

    Counting matches among a hundred codes cannot tell p = 0.99 from 0.9999; distances are sums of many bits, so a
    normal tail fitted to them can. Only the choice of sigma depends on this, never a certificate.
    """
    half = len(bank) // 2
    against = majority(bank) if mode == "code" else bank[:half]
    queries = bank if mode == "code" else bank[half : 2 * half]
    distances = hash_.distances(queries, against).float()
    spread = float(distances.std()) + 1e-3
    probability = float(ndtr((hash_.boundary - float(distances.mean())) / spread))
    return certified_radius(clopper_pearson_lower(int(probability * n), n, alpha), sigma)


def choose_sigma(
    sampler: Sampler,
    pixels: torch.Tensor,
    sigmas: Sequence[float],
    size: int,
    mode: ReferenceMode,
    n: int,
    alpha: float,
    source: GaussianSource,
) -> tuple[float, torch.Tensor]:
    """The sigma with the largest expected radius, and the bank drawn at it.

    Images with texture take the largest sigma at once; faint ones, which drown in that noise, get a smaller one.
    """
    best: tuple[float, float, torch.Tensor] | None = None
    for sigma in sorted(sigmas, reverse=True):
        if best is not None and radius_ceiling(sigma, n, alpha) <= best[0]:
            break
        bank = draw_bank(sampler, pixels, sigma, size, source)
        radius = expected_radius(bank, sampler.hash, mode, sigma, n, alpha)
        # With nothing certifiable anywhere, the smallest noise is the least harm.
        if best is None or radius > best[0] or radius == 0.0 == best[0]:
            best = (radius, sigma, bank)
    assert best is not None
    return best[1], best[2]
