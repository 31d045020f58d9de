"""What a hash sees of an image behind a view, and the law of pixel noise there.

The core of a front end has orthonormal rows, so white noise on the pixels is white noise on the core. Behind a view it
is not white any more: the noise on the canonical pixels passes the view too. Each factor of ``core after view`` is
split again, ``M = S Q`` with orthonormal rows in ``Q``. So ``M eta`` has exactly the law of ``S z`` with white ``z``.
"""

from __future__ import annotations

from functools import lru_cache

import torch

from dualshield.images import axes
from dualshield.images.frontend import FrontEnd, apply_factors, float32
from dualshield.images.views import View


class ViewedCore:
    """The core of the image that a view shows, as a function of the canonical pixels."""

    def __init__(self, front_end: FrontEnd, view: View) -> None:
        rows, cols, colour = front_end.core_factors
        by_rows, by_cols = view.factors(rows.shape[1])
        split = [axes.split(factor) for factor in (rows @ by_rows, cols @ by_cols, colour @ view.colour)]
        spreads = [spread for spread, _ in split]
        # The image passes the same factors as the noise: what the split drops, both lose.
        self._factors = float32(*(spread @ core for spread, core in split))
        self._spreads = float32(*spreads)
        self.noise_shape = (spreads[2].shape[1], spreads[0].shape[1], spreads[1].shape[1])

    def core(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the core of the view of canonical pixels ``(..., 3, 512, 512)``."""
        return apply_factors(pixels, *self._like(self._factors, pixels))

    def spread(self, white: torch.Tensor) -> torch.Tensor:
        """Return pixel noise of standard deviation 1 as the core sees it, from white noise ``(..., *noise_shape)``."""
        return apply_factors(white, *self._like(self._spreads, white))

    @staticmethod
    def _like(factors: tuple[torch.Tensor, ...], other: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(factor.to(other.device, other.dtype) for factor in factors)


@lru_cache(maxsize=128)
def viewed_core(front_end: FrontEnd, view: View) -> ViewedCore:
    """Return the core behind a view; it is computed once."""
    return ViewedCore(front_end, view)
