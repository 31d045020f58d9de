"""Confidence intervals and significance tests for rates, means and their differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from scipy.stats import binomtest, fisher_exact

RESAMPLES = 10_000
# Fewest images for which resampling gives a useful interval.
FEWEST = 6


def wilson(successes: float, total: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval of a rate, within [0, 1]; without any trial it is the whole of [0, 1]."""
    if not 0 <= successes <= total:
        raise ValueError(f"{successes} successes of {total}")
    if total == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate = successes / total
    scale = 1 + z * z / total
    centre = (rate + z * z / (2 * total)) / scale
    reach = z / scale * math.sqrt(rate * (1 - rate) / total + z * z / (4 * total * total))
    # A rate of 0 or 1 is an end of its interval; rounding must not leave it outside.
    low = 0.0 if successes == 0 else max(0.0, centre - reach)
    high = 1.0 if successes == total else min(1.0, centre + reach)
    return low, high


def bootstrap_mean(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """Return the bootstrap percentile interval of a mean; None for too few values. It is deterministic."""
    if len(values) < FEWEST:
        return None
    low, high = np.quantile(_resampled(values, seed=0), [0.5 - confidence / 2, 0.5 + confidence / 2])
    return float(low), float(high)


def bootstrap_difference(
    before: Sequence[float], after: Sequence[float], confidence: float = 0.95
) -> tuple[float, float] | None:
    """Return the interval of ``mean(after) - mean(before)`` of two independent samples; None for too few values."""
    if min(len(before), len(after)) < FEWEST:
        return None
    differences = _resampled(after, seed=0) - _resampled(before, seed=1)
    low, high = np.quantile(differences, [0.5 - confidence / 2, 0.5 + confidence / 2])
    return float(low), float(high)


def mcnemar(only_before: int, only_after: int) -> float:
    """Return the exact p-value of the hypothesis that two paired rates are equal, from the pairs that disagree."""
    disagreeing = only_before + only_after
    return 1.0 if disagreeing == 0 else float(binomtest(only_before, disagreeing).pvalue)


def fisher(before: tuple[int, int], after: tuple[int, int]) -> float:
    """Return the exact p-value of the hypothesis that two independent rates, each (successes, total), are equal."""
    table = [[successes, total - successes] for successes, total in (before, after)]
    return float(fisher_exact(table).pvalue)


def _resampled(values: Sequence[float], seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    known = np.asarray(values, dtype=np.float64)
    rows = np.random.default_rng(seed).integers(0, len(known), (RESAMPLES, len(known)))
    means: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = known[rows].mean(1)
    return means
