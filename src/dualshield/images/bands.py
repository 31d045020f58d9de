"""Maps along one axis whose matrix is a band, as resizing is: applied block by block, around the zeros.

Resizing 512 rows to 360 takes six of them for each new one, so the matrix is zero almost everywhere, and a product
with all of it costs several times as much as one with the blocks on its diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dualshield.images.axes import Matrix

# Rows of a block: fewer leave out more zeros, more make better use of the processor.
BLOCK = 16
# A matrix whose blocks have more than this share of its entries is better applied as a whole.
DENSE = 0.5


@dataclass(frozen=True)
class _Block:
    """Rows ``first`` to ``last`` of a matrix, all zero outside the columns ``left`` to ``right``."""

    first: int
    last: int
    left: int
    right: int
    weights: torch.Tensor


class Band:
    """A matrix of one axis, and its transpose for gradients."""

    def __init__(self, matrix: Matrix) -> None:
        self.shape = matrix.shape
        self._blocks, self._transposed = _blocks(matrix), _blocks(matrix.T)

    @property
    def is_worthwhile(self) -> bool:
        """Whether the blocks leave out enough."""
        inside = sum(block.weights.numel() for block in self._blocks)
        return bool(inside < DENSE * self.shape[0] * self.shape[1])

    def rows(self, image: torch.Tensor) -> torch.Tensor:
        """``matrix @ image``, differentiable in the image."""
        return self._along(-2, image)

    def cols(self, image: torch.Tensor) -> torch.Tensor:
        """``image @ matrix.T``, differentiable in the image."""
        return self._along(-1, image)

    def _along(self, axis: int, image: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = _Product.apply(image, self, axis)  # type: ignore[no-untyped-call]
        return found

    def product(self, image: torch.Tensor, axis: int, *, transposed: bool) -> torch.Tensor:
        """The matrix or its transpose applied along an axis, the last (-1) or the one before (-2)."""
        blocks, size = (self._transposed, self.shape[1]) if transposed else (self._blocks, self.shape[0])
        shape = list(image.shape)
        shape[axis] = size
        out = image.new_empty(shape)
        for block in blocks:
            weights = block.weights.to(image.device, image.dtype)
            part = image.narrow(axis, block.left, block.right - block.left)
            rows = out.narrow(axis, block.first, block.last - block.first)
            rows.copy_(weights @ part if axis == -2 else part @ weights.T)
        return out


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, image: torch.Tensor, band: Band, axis: int) -> torch.Tensor:
        ctx.band, ctx.axis = band, axis
        return band.product(image, axis, transposed=False)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return ctx.band.product(gradient, ctx.axis, transposed=True), None, None


@torch.inference_mode(False)
def _blocks(matrix: Matrix) -> list[_Block]:
    blocks = []
    for first in range(0, len(matrix), BLOCK):
        rows = matrix[first : first + BLOCK]
        used = np.flatnonzero(rows.any(axis=0))
        left, right = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, 1)
        weights = torch.tensor(np.ascontiguousarray(rows[:, left:right]), dtype=torch.float32)
        blocks.append(_Block(first, first + len(rows), left, right, weights))
    return blocks
