"""Banded linear maps along one axis, such as resizing, applied block by block to skip the zeros.

Resizing 512 rows to 360 uses about six rows for each new one, so the matrix is almost everywhere zero. A product
with the whole matrix costs several times as much as one with the blocks on its diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dualshield.images.axes import Matrix

# Rows per block: smaller blocks skip more zeros, larger ones use the processor better. Along rows a product reads
# whole lines of the image, along columns only short pieces, so columns need larger blocks.
ROWS, COLS = -2, -1
BLOCKS = {ROWS: 8, COLS: 32}
# If the blocks hold more than this fraction of the entries, the whole matrix is faster.
DENSE = 0.5


@dataclass(frozen=True)
class _Block:
    """Rows ``first`` to ``last`` of a matrix, all zero outside the columns ``left`` to ``right``."""

    first: int
    last: int
    left: int
    right: int
    weights: npt.NDArray[np.float32]  # transposed for products from the right


class Band:
    """A banded matrix and its transpose (for gradients), applied to images on the CPU."""

    def __init__(self, matrix: Matrix) -> None:
        self.shape = matrix.shape
        self._blocks = {
            (axis, transposed): _blocks(matrix.T if transposed else matrix, axis)
            for axis in BLOCKS
            for transposed in (False, True)
        }

    @property
    def is_worthwhile(self) -> bool:
        """Whether the blocks skip enough zeros to be faster than the whole matrix."""
        inside = sum(block.weights.size for block in self._blocks[COLS, False])
        return bool(inside < DENSE * self.shape[0] * self.shape[1])

    def rows(self, image: torch.Tensor) -> torch.Tensor:
        """Return ``matrix @ image``, differentiable in the image."""
        return self._along(ROWS, image)

    def cols(self, image: torch.Tensor) -> torch.Tensor:
        """Return ``image @ matrix.T``, differentiable in the image."""
        return self._along(COLS, image)

    def _along(self, axis: int, image: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = _Product.apply(image, self, axis)  # type: ignore[no-untyped-call]
        return found

    def product(self, image: torch.Tensor, axis: int, *, transposed: bool) -> torch.Tensor:
        """Apply the matrix or its transpose along an axis."""
        # NumPy multiplies views in place; torch would copy each view, and the result.
        pixels = image.detach().numpy()
        shape = list(pixels.shape)
        shape[axis] = self.shape[1] if transposed else self.shape[0]
        out = np.empty(shape, pixels.dtype)
        for block in self._blocks[axis, transposed]:
            weights = block.weights.astype(pixels.dtype, copy=False)
            inside, outside = slice(block.left, block.right), slice(block.first, block.last)
            if axis == ROWS:
                np.matmul(weights, pixels[..., inside, :], out=out[..., outside, :])
            else:
                np.matmul(pixels[..., inside], weights, out=out[..., outside])
        return torch.from_numpy(out)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, image: torch.Tensor, band: Band, axis: int) -> torch.Tensor:
        ctx.band, ctx.axis = band, axis
        return band.product(image, axis, transposed=False)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return ctx.band.product(gradient, ctx.axis, transposed=True), None, None


def _blocks(matrix: Matrix, axis: int) -> list[_Block]:
    blocks = []
    for first in range(0, len(matrix), BLOCKS[axis]):
        rows = matrix[first : first + BLOCKS[axis]]
        used = np.flatnonzero(rows.any(axis=0))
        left, right = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, 1)
        inside = rows[:, left:right] if axis == ROWS else rows[:, left:right].T
        weights = np.ascontiguousarray(inside, dtype=np.float32)
        blocks.append(_Block(first, first + len(rows), left, right, weights))
    return blocks
