"""Enrollment: draw the noisy codes of a reference and choose its sigma.

Both depend only on the reference's pixels, the hash and its configuration: the noise comes from a stream whose key is
their digest. Enrolling the same file twice gives the same reference, on every machine whose engine computes the same
bits. These codes need not be secret (METHOD.md 2); only the noise on queries must be. Enrollment never sees a query, so
the deployed matcher stays one fixed function of the query and its certificates stay valid. Enrollment draws are never
used for a certificate.
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
from dualshield.images.views import IDENTITY, View
from dualshield.smoothing.config import DEFAULT_ALPHA, DEFAULT_N, MatcherConfig
from dualshield.smoothing.level import Level
from dualshield.smoothing.member_reference import majority
from dualshield.smoothing.names import ReferenceMode
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.probes import VERSION, limit_by_structure
from dualshield.smoothing.sampler import Sampler
from dualshield.smoothing.statistics import certified_radius, clopper_pearson_lower, radius_ceiling

# Draws of a hash with a small network cost almost nothing, and more draws give a better sigma and consensus.
LIGHT_DRAWS = 1001
# Fewer draws are too few to judge a sigma, even for a smaller bank.
LEAST_DRAWS = 15
# Noisy codes behind the code of one view of a reference.
VIEW_DRAWS = 25
# Noise is made for this many draws at a time, independent of the engine's batch: another block size changes the noise.
LIGHT_BLOCK, NETWORK_BLOCK = 256, NETWORK_BATCH
# Part of the noise key. A change, even of the spelling, makes every saved reference obsolete.
STREAM = "dualshield enrolment 1"


def enrollment_terms(hash_: PerceptualHash, config: MatcherConfig) -> dict[str, Any]:
    """Everything that a reference depends on except its pixels; ``hash_`` has its rule and vote threshold, no low-pass.

    The certifying parameters ``n0``, ``n``, ``alpha`` and ``target_radius`` are not part of it.
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
        "views": config.views.to_json(),
        "second": second_terms(hash_, config),
        "probes": VERSION if config.probes else None,
    }


def second_terms(hash_: PerceptualHash, config: MatcherConfig) -> dict[str, float] | None:
    """The sigma and threshold of the second level; None if there is none."""
    if config.second_sigma is None:
        return None
    threshold = hash_.threshold if config.second_threshold is None else config.second_threshold
    return {"sigma": float(config.second_sigma), "threshold": float(threshold)}


def enrollment_draws(hash_: PerceptualHash, config: MatcherConfig) -> int:
    """The number of noisy codes drawn for a reference."""
    return consensus_draws(hash_, config.bank_size) if config.reference_mode == "code" else config.bank_size


def enrollment_source(terms: dict[str, Any], pixels: torch.Tensor) -> GaussianSource:
    """The noise stream for enrolling one image, keyed by its pixels and ``terms``."""
    data = np.ascontiguousarray(pixels.detach().cpu().numpy(), dtype="<f4").tobytes()
    text = f"{STREAM}\n{canonical_json(terms)}\n{hashlib.sha256(data).hexdigest()}"
    return GaussianSource(hashlib.sha256(text.encode()).digest())


def consensus_draws(hash_: PerceptualHash, bank_size: int) -> int:
    """The number of noisy codes behind a consensus; odd, so that there are no ties."""
    return max(bank_size, LIGHT_DRAWS if hash_.has_small_network else 1) | 1


def draw_bank(sampler: Sampler, pixels: torch.Tensor, sigma: float, size: int, source: GaussianSource) -> torch.Tensor:
    """Draw ``size`` noisy codes of the reference."""
    block = LIGHT_BLOCK if sampler.hash.has_small_network else NETWORK_BLOCK
    return torch.cat(list(sampler.codes(pixels, sigma, size, source, block=block)))


def enrolled_levels(
    sampler: Sampler,
    hash_: PerceptualHash,
    config: MatcherConfig,
    pixels: torch.Tensor,
    sigma: float,
    consensus: torch.Tensor,
    size: int,
    source: GaussianSource,
) -> tuple[Level, ...]:
    """Return the levels of a reference: its codes in all views at ``sigma``, and at the second sigma if it is smaller.

    ``consensus`` is the code of the image as it is at ``sigma``. Codes of further views are consensuses of fewer draws:
    they are for edited copies, which are farther from any code than the noise of a few draws moves it.
    """
    few = min(size, VIEW_DRAWS if not hash_.has_small_network else size) | 1

    def level(sigma: float, own: torch.Tensor, threshold: float | None) -> Level:
        codes = {IDENTITY: own}

        def code(view: View) -> torch.Tensor:
            if view not in codes:
                seen = torch.from_numpy(view(pixels.numpy()))
                codes[view] = majority(draw_bank(sampler, seen, sigma, few, source.fork(f"view {view}")))
            return codes[view]

        table = torch.stack([code(view) for view in config.views.reference])
        if threshold is not None and config.probes:
            threshold = min(threshold, limit_by_structure(code))
        return Level(float(sigma), table, threshold)

    by_bits = hash_.rule == "hamming"
    levels = [level(sigma, consensus, hash_.threshold if by_bits else None)]
    second = second_terms(hash_, config)
    if second is not None and second["sigma"] < sigma:
        own = majority(draw_bank(sampler, pixels, second["sigma"], size | 1, source.fork("second")))
        levels.append(level(second["sigma"], own, second["threshold"] if by_bits else None))
    return tuple(levels)


def expected_radius(
    bank: torch.Tensor,
    hash_: PerceptualHash,
    mode: ReferenceMode,
    sigma: float,
    n: int = DEFAULT_N,
    alpha: float = DEFAULT_ALPHA,
) -> float:
    """Estimate, from its bank, the fixed-N radius of the reference with itself as query.

    Counting matches among a hundred codes cannot distinguish p = 0.99 from 0.9999. Distances are sums of many bits, so
    a normal tail fitted to them can. The estimate only serves to choose sigma, never a certificate.
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
    """Return the sigma with the largest expected radius, and the bank drawn at that sigma.

    Sigmas are tried from the largest down; images with little texture end up with a smaller one.
    """
    best: tuple[float, float, torch.Tensor] | None = None
    for sigma in sorted(sigmas, reverse=True):
        if best is not None and radius_ceiling(sigma, DEFAULT_N, DEFAULT_ALPHA) <= best[0]:
            break
        bank = draw_bank(sampler, pixels, sigma, max(size, LEAST_DRAWS), source)
        radius = expected_radius(bank, sampler.hash, mode, sigma) if len(sigmas) > 1 else 0.0
        # If no sigma gives a radius, the smallest sigma does the least harm.
        if best is None or radius > best[0] or radius == 0.0 == best[0]:
            best = (radius, sigma, bank)
    assert best is not None
    return best[1], best[2][:size]
