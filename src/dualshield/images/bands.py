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
        found: torch.Tensor = _Rows.apply(image, self)  # type: ignore[no-untyped-call]
        return found

    def cols(self, image: torch.Tensor) -> torch.Tensor:
        """``image @ matrix.T``, differentiable in the image."""
        found: torch.Tensor = _Cols.apply(image, self)  # type: ignore[no-untyped-call]
        return found

    def _on_rows(self, image: torch.Tensor, *, transposed: bool) -> torch.Tensor:
        blocks, size = self._side(transposed)
        out = image.new_empty(*image.shape[:-2], size, image.shape[-1])
        for block in blocks:
            weights = block.weights.to(image.device, image.dtype)
            out[..., block.first : block.last, :] = weights @ image[..., block.left : block.right, :]
        return out

    def _on_cols(self, image: torch.Tensor, *, transposed: bool) -> torch.Tensor:
        blocks, size = self._side(transposed)
        out = image.new_empty(*image.shape[:-1], size)
        for block in blocks:
            weights = block.weights.to(image.device, image.dtype)
            out[..., block.first : block.last] = image[..., block.left : block.right] @ weights.T
        return out

    def _side(self, transposed: bool) -> tuple[list[_Block], int]:
        return (self._transposed, self.shape[1]) if transposed else (self._blocks, self.shape[0])


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, image: torch.Tensor, band: Band) -> torch.Tensor:
        ctx.band = band
        return band._on_rows(image, transposed=False)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.band._on_rows(gradient, transposed=True), None


class _Cols(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, image: torch.Tensor, band: Band) -> torch.Tensor:
        ctx.band = band
        return band._on_cols(image, transposed=False)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.band._on_cols(gradient, transposed=True), None


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
