"""Enrollment: the noisy codes of a reference, and the sigma it gets.

Both are a function of the reference's pixels, the hash and its configuration, and of nothing else: the noise comes from
a stream whose key is their digest. Enrolling the same file twice gives the same reference, on every machine whose
engine computes the same bits. These codes need not be secret (METHOD.md 2); only the noise on queries must be. Nothing
here sees a query, so the deployed matcher stays one fixed function of the query and its certificates stay valid. None
of the draws made here certifies anything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.special import ndtr

from dualshield._common.digest import canonical_json
from dualshield.hashes.perceptual_hash import NETWORK_BATCH, PerceptualHash
from dualshield.smoothing.config import DEFAULT_ALPHA, DEFAULT_N, MatcherConfig
from dualshield.smoothing.member_reference import ReferenceMode, majority
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.sampler import Sampler
from dualshield.smoothing.statistics import certified_radius, clopper_pearson_lower, radius_ceiling

# Draws of a light hash cost nothing, and more of them tell its best sigma and consensus more surely.
LIGHT_DRAWS = 1001
# Fewer say nothing about a sigma, however small a bank is wanted.
LEAST_DRAWS = 15
# Noise is made for so many draws at a time, whatever the engine's batch is: other pieces would be other noise.
LIGHT_BLOCK, NETWORK_BLOCK = 256, NETWORK_BATCH
# A new number, and enrollment draws other noise: every kept reference would have to be made again.
STREAM = "dualshield enrolment 1"  # as it has always been spelt: it decides every draw


def enrollment_terms(hash_: PerceptualHash, config: MatcherConfig) -> dict[str, Any]:
    """All that a reference depends on beside its pixels; ``hash_`` has its rule and vote threshold, but no low-pass.

    How many draws certify a query, at which alpha, and for which target radius, is not among them.
    """
    return {
        "hash": hash_.identity,
        "rule": hash_.rule if hash_.native is None or hash_.rule == "hamming" else f"native: {hash_.native.about}",
        "boundary": float(hash_.boundary),
        "lowpass": config.lowpass,
        "noise": config.noise,
        "sigmas": sorted(map(float, config.sigmas)),
        "mode": config.reference_mode,
        "draws": enrollment_draws(hash_, config),
    }


def enrollment_draws(hash_: PerceptualHash, config: MatcherConfig) -> int:
    """How many noisy codes a reference is made of."""
    return consensus_draws(hash_, config.bank_size) if config.reference_mode == "code" else config.bank_size


def enrollment_source(terms: dict[str, Any], pixels: torch.Tensor) -> GaussianSource:
    """The noise of one reference."""
    data = np.ascontiguousarray(pixels.detach().cpu().numpy(), dtype="<f4").tobytes()
    text = f"{STREAM}\n{canonical_json(terms)}\n{hashlib.sha256(data).hexdigest()}"
    return GaussianSource(hashlib.sha256(text.encode()).digest())


def consensus_draws(hash_: PerceptualHash, bank_size: int) -> int:
    """How many noisy codes a consensus is made of; odd, so that there are no ties."""
    return max(bank_size, LIGHT_DRAWS if hash_.has_small_network else 1) | 1


def draw_bank(sampler: Sampler, pixels: torch.Tensor, sigma: float, size: int, source: GaussianSource) -> torch.Tensor:
    """``size`` noisy codes of the reference."""
    block = LIGHT_BLOCK if sampler.hash.has_small_network else NETWORK_BLOCK
    return torch.cat(list(sampler.codes(pixels, sigma, size, source, block=block)))


def expected_radius(
    bank: torch.Tensor,
    hash_: PerceptualHash,
    mode: ReferenceMode,
    sigma: float,
    n: int = DEFAULT_N,
    alpha: float = DEFAULT_ALPHA,
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
    source: GaussianSource,
) -> tuple[float, torch.Tensor]:
    """The sigma with the largest expected radius, and the bank drawn at it.

    Images with texture take the largest sigma at once; faint ones, which drown in that noise, get a smaller one.
    """
    best: tuple[float, float, torch.Tensor] | None = None
    for sigma in sorted(sigmas, reverse=True):
        if best is not None and radius_ceiling(sigma, DEFAULT_N, DEFAULT_ALPHA) <= best[0]:
            break
        bank = draw_bank(sampler, pixels, sigma, max(size, LEAST_DRAWS), source)
        radius = expected_radius(bank, sampler.hash, mode, sigma) if len(sigmas) > 1 else 0.0
        # With nothing certifiable anywhere, the smallest noise is the least harm.
        if best is None or radius > best[0] or radius == 0.0 == best[0]:
            best = (radius, sigma, bank)
    assert best is not None
    return best[1], best[2][:size]
