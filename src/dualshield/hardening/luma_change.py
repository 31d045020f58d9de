"""What hardening of linear hashes shares: the least visible grey change with a given effect, within the budget.

The coefficients of a linear hash are sums over the luma. Of all grey changes with the same effect on them, the least
visible one (smallest ``||delta / threshold||``) is ``threshold^2`` times a combination of the hash's rows. So half a
million pixels reduce to one unknown per coefficient, y, with ``c = c_0 + R y`` and visibility ``||y||``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from scipy.linalg import solve_triangular

from dualshield.hardening.carrier import Carrier
from dualshield.hardening.visibility import VisibilityBudget, noticeable

Floats = npt.NDArray[np.float64]
Solve = Callable[[Floats, float], Floats]
"""From the squared threshold of each pixel and the largest visibility to a grey change ``(512, 512)``."""

ROUNDS = 4
PEAK_TOLERANCE = 1.1  # smaller excesses over the peak are clipped


def effect_root(rows: Floats, cols: Floats, weight: Floats, mix: Floats | None = None) -> Floats:
    """Return R, the Cholesky factor of the effect of the squared threshold ``weight`` on pairs of coefficients."""
    n, m = len(rows), len(cols)
    row_pairs = (rows[:, None] * rows[None]).reshape(n * n, -1)
    col_pairs = (cols[:, None] * cols[None]).reshape(m * m, -1)
    pairs = (row_pairs @ weight @ col_pairs.T).reshape(n, n, m, m)
    gram = pairs.transpose(0, 2, 1, 3).reshape(n * m, n * m)
    gram = gram if mix is None else mix @ gram @ mix.T
    ridge = 1e-9 * np.trace(gram) / len(gram)
    root: Floats = np.linalg.cholesky(gram + ridge * np.eye(len(gram)))
    return root


def grey_change(
    y: Floats, root: Floats, rows: Floats, cols: Floats, weight: Floats, mix: Floats | None = None
) -> Floats:
    """Return the grey change ``(512, 512)`` that belongs to y."""
    weights = solve_triangular(root.T, y, lower=False)
    weights = weights if mix is None else weights @ mix
    change: Floats = weight * (rows.T @ weights.reshape(len(rows), len(cols)) @ cols)
    return change


def confined(pixels: torch.Tensor, budget: VisibilityBudget, threshold: torch.Tensor, solve: Solve) -> torch.Tensor:
    """Return a perturbation ``(3, 512, 512)`` within the budget: solve, and where it is exceeded, solve again."""
    weight = threshold.double().numpy().clip(1e-6) ** 2
    norm = budget.norm
    delta = torch.zeros_like(pixels)
    for _ in range(ROUNDS):
        luma = solve(weight, norm)
        # The same change in all three colours: luma changes, hue does not.
        delta = torch.from_numpy(luma).float().expand(3, -1, -1)
        peaks = np.abs(luma) / (budget.peak * np.sqrt(weight))
        shrink = budget.excess(pixels, (pixels + delta).clamp(0, 1))
        if shrink == 1.0 and peaks.max() <= PEAK_TOLERANCE:
            break
        # Where the change exceeds the peak, lower the weight, so that other pixels take over.
        weight = weight / np.sqrt(np.maximum(peaks, 1.0))
        norm *= 0.98 * shrink if shrink < 1 else 1.0
    limit = budget.peak * threshold
    delta = delta.clamp(-limit, limit)
    while (shrink := budget.excess(pixels, (pixels + delta).clamp(0, 1))) < 1:
        delta = 0.99 * shrink * delta
    return delta.contiguous()


def perturbed(
    pixels: torch.Tensor,
    budget: VisibilityBudget,
    solve: Callable[[torch.Tensor, Floats, float], Floats],
    worth: Callable[[torch.Tensor], float],
    *,
    opacity: torch.Tensor | None = None,
    carrier: Carrier | None = None,
) -> torch.Tensor:
    """Return a perturbation of canonical pixels within the budget, for the file as published.

    ``solve`` finds the grey change of an image. It runs twice, the second time with the errors of the published file
    (``carrier``); the one whose published image is ``worth`` more is returned.
    """
    threshold = noticeable(pixels, opacity)
    first = confined(pixels, budget, threshold, partial(solve, pixels))
    if carrier is None:
        return first
    published = carrier(first)
    image = (published - first).clamp(0, 1)
    second = confined(image, budget, threshold, partial(solve, image))
    return max((first, published), (second, carrier(second)), key=lambda pair: worth(pair[1]))[0]
