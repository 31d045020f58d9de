"""The smoothed hash in closed form: the probability that each bit is one under Gaussian noise on the pixels.

    p_i = Phi((c_i - theta) / (sigma ||A_i||)),    D_b = sum over i of  |b_i - p_i|

``theta`` is 0, or the soft median: the one value at which the probabilities sum to half the bits. ``D_b`` is the soft
distance to a code b, a deterministic function of the image. It is the number of bits that differ on average, if theta
is held fixed while the coefficients are drawn.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from dualshield.hashes.linear.linear_hash import Bits
from dualshield.images.axes import Matrix

STEPS = 200
EXACT = 1e-14  # per bit
DENSITY_AT_ZERO = 1 / np.sqrt(2 * np.pi)


def soft_median(coefficients: Matrix, spread: Matrix, ones: int) -> float:
    """Return theta with ``sum Phi((c_i - theta) / spread_i) = ones``, by Newton's method kept between two bounds."""
    low, high = float((coefficients - 9 * spread).min()), float((coefficients + 9 * spread).max())
    theta = float(np.partition(coefficients, len(coefficients) - ones)[len(coefficients) - ones])
    last = before = high - low
    for _ in range(STEPS):
        x = (coefficients - theta) / spread
        excess = float(ndtr(x).sum()) - ones
        if abs(excess) <= EXACT * len(coefficients):
            break
        if excess > 0:
            low = theta
        else:
            high = theta
        slope = DENSITY_AT_ZERO * float((np.exp(-(x * x) / 2) / spread).sum())
        # Where Newton's method leaves the bounds, or creeps along the tail of a far coefficient (its steps do not
        # halve), halve the interval instead.
        step = excess / slope if abs(excess) < slope * before / 2 else high - low
        after = theta + step if low < theta + step < high else (low + high) / 2
        if after in (theta, low, high):
            break  # neighbouring numbers
        last, before = abs(after - theta), last
        theta = after
    return theta


def probabilities(coefficients: Matrix, spread: Matrix, ones: int | None) -> Matrix:
    """Return the probability that each bit is one; ``ones`` is None where bits are compared with zero."""
    theta = 0.0 if ones is None else soft_median(coefficients, spread, ones)
    found: Matrix = ndtr((coefficients - theta) / spread)
    return found


def soft_distance(probability: Matrix, code: Bits) -> float:
    """Return ``D_b`` in bits."""
    return float(np.where(code, 1 - probability, probability).sum())


def soft_distances(probabilities: Matrix, codes: Bits) -> Matrix:
    """Return ``D_b`` in bits for each row of probabilities and each code ``(rows, codes)``."""
    return np.array([np.where(codes, 1 - row, row).sum(1) for row in probabilities])


def gradient(coefficients: Matrix, spread: Matrix, ones: int | None, code: Bits) -> tuple[float, Matrix]:
    """Return ``D_b`` and its derivative by each coefficient, through the soft median as well."""
    theta = 0.0 if ones is None else soft_median(coefficients, spread, ones)
    x = (coefficients - theta) / spread
    density = DENSITY_AT_ZERO * np.exp(-(x * x) / 2) / spread
    slopes = np.where(code, -density, density)
    if ones is not None and density.sum() > 0:
        slopes = slopes - slopes.sum() * density / density.sum()
    return soft_distance(ndtr(x), code), slopes
