"""The space of all budgets and radii: RGB, 512 x 512, float in [0, 1]."""

from __future__ import annotations

import math

from dualshield.images import axes

CANONICAL_SIZE = 512
RADIUS_SPACE = "canonical-512"
LUMA = (0.299, 0.587, 0.114)
DIAMETER = math.sqrt(3 * CANONICAL_SIZE**2)  # the largest l2 distance between two images


def upload_norm(size: tuple[int, int] | None, gain: float | None) -> float | None:
    """Return a Lipschitz constant ``c`` of the map from an upload's own samples; a radius there is ``R / c``.

    ``||B||_2`` of the resize from ``size`` (width, height) times the ``gain`` of decoding; None if there is no such
    constant.
    """
    if size is None or gain is None:
        return None
    width, height = size
    return gain * axes.resize_norm(height, CANONICAL_SIZE) * axes.resize_norm(width, CANONICAL_SIZE)
