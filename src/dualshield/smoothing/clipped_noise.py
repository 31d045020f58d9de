"""The paper's noise: Gaussian on all 786,432 canonical pixels, then clipped to [0, 1].

Clipping comes before the linear front end, so this noise cannot be drawn on the core. Drawn pixel by pixel, it costs
ten milliseconds per vote for any hash. Where a hash is linear up to its last step (PDQ), each of its numbers is a sum
of 786,432 independent bounded terms with known mean and covariance. `GaussianLimit` draws from the normal law with the
same moments. This is an approximation by the central limit theorem, not an identity. It is used to repeat the paper's
experiments on many images (docs/evaluation.md reports the measured error), never for a certificate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from scipy.special import ndtr

from dualshield.errors import InputError
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.axes import split
from dualshield.images.frontend import Expansion, FrontEnd
from dualshield.smoothing.noise import GaussianSource

# Every 8-bit value is a node of the tables, so the moments of 8-bit images are exact.
NODES = 255 * 64 + 1
# Number of images whose normal laws are cached.
KEPT = 4


def clipped_copies(pixels: torch.Tensor, sigma: float, count: int, source: GaussianSource) -> torch.Tensor:
    """Return ``count`` copies of canonical pixels under clipped noise, differentiable in the pixels."""
    noisy: torch.Tensor = _Clipped.apply(pixels, sigma, count, source)  # type: ignore[no-untyped-call]
    return noisy


def gaussian_limit(hash_: PerceptualHash) -> GaussianLimit:
    """Return the limit law of the hash's front end (cached)."""
    if not hash_.is_linear:
        raise InputError(f"hash {hash_.name} is not linear; use the noise 'clipped'")
    return _limit(hash_.front_end)


@dataclass(frozen=True)
class NormalLaw:
    """A normal distribution of cores: mean, and Cholesky factor of the covariance."""

    mean: torch.Tensor
    factor: torch.Tensor

    def draw(self, count: int, source: GaussianSource) -> torch.Tensor:
        """Draw ``count`` independent cores. Gradients flow through the mean only; the covariance changes little."""
        noise = source.normal((count, len(self.factor))) @ self.factor.T
        return self.mean + noise.view(count, *self.mean.shape).to(self.mean.device)


class GaussianLimit:
    """The core of a grey front end under clipped noise, approximated by a normal law with the true mean and covariance.

    A number of the core is ``sum_cyx w_c R_iy C_jx clip(x_cyx + sigma z)``. With ``m`` and ``v`` the mean and variance
    of a clipped normal, its mean is ``R M C^T`` for ``M = sum_c w_c m(x_c)``, and the covariance of (i, j) and (k, l)
    is ``sum_yx (R_iy R_ky) V_yx (C_jx C_lx)`` for ``V = sum_c w_c^2 v(x_c)``.
    """

    def __init__(self, front_end: FrontEnd) -> None:
        self._front_end = front_end
        self._expansion: Expansion = front_end.expansion()
        rows, cols, colour = front_end.core_factors
        self._weights = torch.tensor(colour[0], dtype=torch.float32)
        self._rows, self._cols = _Pairs.of(rows), _Pairs.of(cols)
        self._kept: list[tuple[torch.Tensor, int, float, NormalLaw]] = []  # most recently used last

    def features(self, pixels: torch.Tensor, sigma: float, count: int, source: GaussianSource) -> torch.Tensor:
        """Draw ``count`` feature tensors, the input of the hash's network, differentiable in the pixels."""
        features: torch.Tensor = self._expansion.to(pixels.device)(self.law(pixels, sigma).draw(count, source))
        return features

    def law(self, pixels: torch.Tensor, sigma: float) -> NormalLaw:
        """Return the normal law around one image. Recent laws are cached: one reference meets many queries."""
        version = 0 if pixels.is_inference() else pixels._version
        for place, (image, unchanged, noise, law) in enumerate(self._kept):
            if image is pixels and (unchanged, noise) == (version, sigma):
                self._kept.append(self._kept.pop(place))
                return law
        law = self._law(pixels, sigma)
        if not pixels.requires_grad:
            self._kept = [*self._kept[1 - KEPT :], (pixels, version, sigma, law)]
        return law

    def _law(self, pixels: torch.Tensor, sigma: float) -> NormalLaw:
        nodes = _nodes(pixels)
        means: torch.Tensor = _ClippedMean.apply(pixels, nodes, sigma)  # type: ignore[no-untyped-call]
        return NormalLaw(self._front_end.core(means), self._factor(nodes.cpu(), sigma))

    @torch.no_grad()
    def _factor(self, nodes: torch.Tensor, sigma: float) -> torch.Tensor:
        variances = _look_up(_moments(sigma)[1], nodes)
        spread = (self._weights.square() @ variances.flatten(1)).view(nodes.shape[1:])
        pairs = self._rows.expand @ (self._rows.basis @ spread @ self._cols.basis.T) @ self._cols.expand.T
        # Reorder from (row pair, column pair) to (coefficient, coefficient).
        covariance = pairs[self._rows.where[:, None, :, None], self._cols.where[None, :, None, :]]
        size = math.prod(covariance.shape[:2])
        factor: torch.Tensor = torch.linalg.cholesky(covariance.reshape(size, size))
        return factor


class _Clipped(torch.autograd.Function):
    """Clipped noisy copies; the gradient is zero where a pixel was clipped."""

    @staticmethod
    def forward(ctx: Any, pixels: torch.Tensor, sigma: float, count: int, source: GaussianSource) -> torch.Tensor:
        noisy = source.noisy_copies(pixels.detach(), sigma, count).clamp_(0, 1)
        ctx.save_for_backward(noisy)
        return noisy

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        (noisy,) = ctx.saved_tensors
        # torch calls clipping hardtanh; its fused gradient takes one pass.
        return torch.ops.aten.hardtanh_backward(gradient, noisy, 0.0, 1.0).sum(0), None, None, None


class _ClippedMean(torch.autograd.Function):
    """The mean of each pixel under clipped noise."""

    @staticmethod
    def forward(ctx: Any, pixels: torch.Tensor, nodes: torch.Tensor, sigma: float) -> torch.Tensor:
        ctx.save_for_backward(nodes)
        ctx.sigma = sigma
        return _look_up(_moments(sigma)[0], nodes)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (nodes,) = ctx.saved_tensors
        return gradient * _look_up(_moments(ctx.sigma)[2], nodes), None, None


def _nodes(pixels: torch.Tensor) -> torch.Tensor:
    half = torch.tensor(0.5, device=pixels.device)
    return torch.add(half, pixels.detach(), alpha=NODES - 1).clamp_(0, NODES - 1).int()  # rounds


def _look_up(table: torch.Tensor, nodes: torch.Tensor) -> torch.Tensor:
    """Return ``table[nodes]``; this form is four times as fast as indexing."""
    return table.to(nodes.device).index_select(0, nodes.flatten()).view(nodes.shape)


@lru_cache(maxsize=8)
@torch.inference_mode(False)
def _moments(sigma: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tables over the nodes x: mean, variance and slope of the mean of ``clip(x + sigma z)``."""
    x = np.linspace(0, 1, NODES)
    low, high = -x / sigma, (1 - x) / sigma
    inside, above = ndtr(high) - ndtr(low), ndtr(-high)
    density_low, density_high = (np.exp(-(t**2) / 2) / math.sqrt(2 * math.pi) for t in (low, high))
    mean = x * inside + sigma * (density_low - density_high) + above
    square = (x**2 + sigma**2) * inside + 2 * x * sigma * (density_low - density_high) + above
    square += sigma**2 * (low * density_low - high * density_high)
    return tuple(torch.tensor(table, dtype=torch.float32) for table in (mean, square - mean**2, inside))  # type: ignore[return-value]


@dataclass(frozen=True)
class _Pairs:
    """Products of all pairs of rows, factored as ``expand @ basis``; ``where[i, k]`` is the index of a pair.

    A product of cosines is a sum of cosines, so 33 basis rows suffice for the 136 pairs of PDQ's 16 rows.
    """

    expand: torch.Tensor
    basis: torch.Tensor
    where: torch.Tensor

    @staticmethod
    def of(factor: np.ndarray[Any, Any]) -> _Pairs:
        first, second = np.triu_indices(len(factor))
        where = np.zeros((len(factor), len(factor)), dtype=np.int64)
        where[first, second] = where[second, first] = np.arange(len(first))
        expand, basis = (torch.tensor(part, dtype=torch.float32) for part in split(factor[first] * factor[second]))
        return _Pairs(expand, basis, torch.from_numpy(where))


@lru_cache(maxsize=8)
def _limit(front_end: FrontEnd) -> GaussianLimit:
    return GaussianLimit(front_end)
