"""How fast a soft distance can change with the image: a cheap bound for pairs that are far from the limit.

Let ``u_i`` be coefficient i in units of its row's length ``l_i`` (rows.py), and ``x_i = (c_i - theta) / (sigma l_i)``.
With ``s_i = 1`` where the code has a zero and -1 where it has a one, and ``f_i = phi(x_i)``,

    dD = sum_i v_i du_i,      v_i = f_i s_i / sigma                        if theta is zero,
                              v_i = f_i (s_i - m) / sigma                  if theta is the soft median,

where ``m = sum_j d_j s_j / sum_j d_j`` with ``d_j = f_j / l_j``: theta moves so that the probabilities keep their sum,
by the mean of the ``dc_j`` with these weights. A change delta of the image has ``du = A delta`` with ``A A^T = C``. So
the gradient of D by the pixels has the squared length ``v C v <= lambda ||v||^2``, with ``lambda`` at least the largest
eigenvalue of C.

* Zero: ``||v||^2 <= n phi(0)^2 / sigma^2``.
* Median: ``sigma^2 ||v||^2 = sum f_i l_i d_i (s_i - m)^2 <= phi(0) l_max sum d_i (s_i - m)^2``. The last sum is
  ``(1 - m^2) sum d_i``, because m is the mean of signs with these weights. So it is at most ``sum d_i``, which is at
  most ``phi(0) sum 1 / l_i``. Hence ``||v||^2 <= phi(0)^2 / sigma^2 * sum l_max / l_i``. Also ``|s_i - m| <= 2``, hence
  ``||v||^2 <= 4 n phi(0)^2 / sigma^2``.

D is differentiable everywhere, so between two images it changes by at most ``sqrt(lambda) ||v||`` times their distance.
"""

from __future__ import annotations

import math

import numpy as np

from dualshield.images.axes import Matrix
from dualshield.smoothing.exact.rows import Rows

DENSITY_AT_ZERO = 0.3989422804014328  # rounded up
# Relative; far above the rounding of the few sums here, far below anything that matters.
ROUNDING = 1e-9
# In bits; far above the error of a computed soft distance that does not come from its coefficients.
DISTANCE_ERROR = 1e-6


def steepness(rows: Rows, sigma: float, *, by_median: bool) -> float:
    """Return a bound on how many bits a soft distance changes per pixel l2, for every code and everywhere."""
    bits = len(rows.lengths)
    square = min(float((rows.lengths.max() / rows.lengths).sum()), 4.0 * bits) if by_median else float(bits)
    return DENSITY_AT_ZERO / sigma * math.sqrt(square / rows.floor) * (1 + ROUNDING)


def cheap_radii(rows: Rows, sigma: float, away: Matrix, *, by_median: bool) -> Matrix:
    """Return a proven radius for soft distances that are so many bits away from the limit."""
    # One coefficient alone moves D by at most 2 phi(0) / sigma per unit of its row.
    error = DISTANCE_ERROR + 2 * DENSITY_AT_ZERO / sigma * len(rows.lengths) * rows.coefficient_error
    radii: Matrix = np.maximum(away - error, 0) / steepness(rows, sigma, by_median=by_median) * (1 - ROUNDING)
    return radii
