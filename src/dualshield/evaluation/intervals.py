"""How far chance alone may have moved a figure."""

from __future__ import annotations

import math
from statistics import NormalDist


def wilson(successes: float, total: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a rate; it stays within [0, 1] and is honest at 0 and at 1. All of it for no trial."""
    if not 0 <= successes <= total:
        raise ValueError(f"{successes} successes of {total}")
    if total == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate = successes / total
    scale = 1 + z * z / total
    centre = (rate + z * z / (2 * total)) / scale
    reach = z / scale * math.sqrt(rate * (1 - rate) / total + z * z / (4 * total * total))
    # At the ends the interval reaches them exactly; rounding must not leave it a hair short.
    low = 0.0 if successes == 0 else max(0.0, centre - reach)
    high = 1.0 if successes == total else min(1.0, centre + reach)
    return low, high
