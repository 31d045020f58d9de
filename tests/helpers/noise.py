"""Noise that repeats."""

from __future__ import annotations

from dualshield.smoothing.noise import GaussianSource


def seeded(seed: int = 1) -> GaussianSource:
    return GaussianSource.from_seed(seed)
