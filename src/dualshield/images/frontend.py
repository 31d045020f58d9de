"""The linear front end of a hash: everything between the canonical pixels and its first non-linear step.

A front end is the affine map ``y_c = sum_k W_ck L_h x_k L_w^T + o_c`` (W: colour, L_h and L_w: rows and
columns, o: offset). Its factors are stored explicitly, for three reasons:

* the map can be applied differentiably;
* its operator norm is the product of the factors' norms;
* it splits exactly into ``features = expand(core(pixels))``, where ``core`` has orthonormal rows (the right singular
  vectors of each factor). So i.i.d. Gaussian noise on the 786,432 canonical pixels *is* i.i.d. Gaussian noise of the
  same sigma on the few numbers of the core: nothing is approximated, and a draw costs only the size of the core
  (METHOD.md 3; with ``L = U S V^T``, C there is ``U S`` here).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from dualshield._common.digest import digest_of_matrices
from dualshield.errors import InputError
from dualshield.images import axes
from dualshield.images.axes import Filter, Matrix
from dualshield.images.bands import Band
from dualshield.images.space import CANONICAL_SIZE, LUMA

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True, eq=False)
class FrontEnd:
    """A separable affine map of canonical images, built by chaining its steps.

    >>> FrontEnd.identity().resize(360, 360, "bicubic").normalise((0.5,) * 3, (0.5,) * 3).shape
    (3, 360, 360)
    """

    rows: Matrix
    cols: Matrix
    colour: Matrix
    offset: Matrix

    @staticmethod
    def identity(size: int = CANONICAL_SIZE) -> FrontEnd:
        """Return the identity map of canonical images."""
        return FrontEnd(np.eye(size), np.eye(size), np.eye(3), np.zeros(3))

    # -- building ----------------------------------------------------------------------------------

    def project(self, rows: Matrix, cols: Matrix) -> FrontEnd:
        """Append a separable map: ``rows`` acts on the rows, ``cols`` on the columns."""
        constant = np.allclose(rows.sum(1), 1) and np.allclose(cols.sum(1), 1)
        if self.offset.any() and not constant:
            raise InputError("this projection does not keep constants constant; normalise after it")
        return replace(self, rows=rows @ self.rows, cols=cols @ self.cols)

    def resize(self, height: int, width: int, kind: Filter = "bilinear", *, antialias: bool = True) -> FrontEnd:
        """Resample to ``height`` x ``width``."""
        rows = axes.resize(self.rows.shape[0], height, kind, antialias=antialias)
        return self.project(rows, axes.resize(self.cols.shape[0], width, kind, antialias=antialias))

    def centre_crop(self, height: int, width: int) -> FrontEnd:
        """Crop to the central ``height`` x ``width`` pixels."""
        return self.project(axes.centre_crop(self.rows.shape[0], height), axes.centre_crop(self.cols.shape[0], width))

    def mix(self, weights: npt.ArrayLike) -> FrontEnd:
        """Replace the channels by linear combinations, one per row of ``weights``."""
        matrix = np.atleast_2d(np.asarray(weights, dtype=np.float64))
        return replace(self, colour=matrix @ self.colour, offset=matrix @ self.offset)

    def grey(self, weights: tuple[float, float, float] = LUMA) -> FrontEnd:
        """Reduce the channels to one luma channel."""
        return self.mix(weights)

    def normalise(self, mean: npt.ArrayLike, std: npt.ArrayLike) -> FrontEnd:
        """Apply ``(y - mean) / std`` per channel."""
        deviation = np.broadcast_to(np.asarray(std, dtype=np.float64), self.offset.shape)
        if not (np.isfinite(deviation) & (deviation != 0)).all():
            raise InputError(f"cannot normalise by a standard deviation of {std!r}; give finite numbers, not 0")
        scale = 1.0 / deviation
        shift = np.asarray(mean, dtype=np.float64)
        return replace(self, colour=self.colour * scale[:, None], offset=(self.offset - shift) * scale)

    def low_pass(self, m: int) -> FrontEnd:
        """Return this front end preceded by an m x m low-pass of the canonical image (METHOD.md 3b)."""
        height, width = self.rows.shape[1], self.cols.shape[1]
        return replace(self, rows=self.rows @ axes.low_pass(height, m), cols=self.cols @ axes.low_pass(width, m))

    # -- using -------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<FrontEnd to {'x'.join(map(str, self.shape))}, {self.digest[:12]}>"

    @cached_property
    def digest(self) -> str:
        """A sha256 that identifies this front end; differences in the last digits, from rounding, do not change it."""
        return digest_of_matrices(self.rows, self.cols, self.colour, self.offset)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of the features."""
        return self.colour.shape[0], self.rows.shape[0], self.cols.shape[0]

    @property
    def norm(self) -> float:
        """``||A||_2``, the l2 Lipschitz constant from canonical pixels to features."""
        return axes.operator_norm(self.rows) * axes.operator_norm(self.cols) * axes.operator_norm(self.colour)

    @cached_property
    def _tensors(self) -> tuple[torch.Tensor, ...]:
        return float32(self.rows, self.cols, self.colour, self.offset)

    @cached_property
    def _bands(self) -> tuple[Band, Band] | None:
        """Banded row and column maps, or None if the matrices are not sparse enough (or the output is not RGB)."""
        if self.colour.shape[0] != 3:
            return None
        scale = self._scale
        bands = Band(self.rows if scale is None else scale * self.rows), Band(self.cols)
        return bands if all(band.is_worthwhile for band in bands) else None

    @cached_property
    def _scale(self) -> float | None:
        """The common factor of all channels, or None if channels are mixed or scaled differently."""
        scale = float(self.colour[0, 0])
        return scale if np.array_equal(self.colour, scale * np.eye(3)) else None

    @property
    def is_banded(self) -> bool:
        """Whether applying the whole map is cheaper than computing the core."""
        return self._bands is not None

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return features ``(..., c, h, w)`` of canonical pixels ``(..., 3, 512, 512)``."""
        self._check(pixels)
        rows, cols, colour, offset = (t.to(pixels.device, pixels.dtype) for t in self._tensors)
        if self._bands is not None and pixels.device.type == "cpu":
            row_band, col_band = self._bands
            image = col_band.cols(row_band.rows(pixels))
            if self._scale is None:
                image = _mix(colour, image)
        else:
            image = apply_factors(pixels, rows, cols, colour)
        return image + offset[:, None, None]

    # -- the core ----------------------------------------------------------------------------------

    @cached_property
    def _split(self) -> tuple[tuple[Matrix, Matrix], ...]:
        rows = axes.split(self.rows)
        cols = rows if self.cols is self.rows or np.array_equal(self.cols, self.rows) else axes.split(self.cols)
        return rows, cols, axes.split(self.colour)

    @cached_property
    def _core_tensors(self) -> tuple[torch.Tensor, ...]:
        return float32(*self.core_factors)

    @property
    def core_shape(self) -> tuple[int, int, int]:
        """Shape of the core: the independent numbers of the image that the hash depends on."""
        rows, cols, colour = self.core_factors
        return colour.shape[0], rows.shape[0], cols.shape[0]

    @property
    def core_factors(self) -> tuple[Matrix, Matrix, Matrix]:
        """Row, column and colour factor of the core, each with orthonormal rows."""
        (_, rows), (_, cols), (_, colour) = self._split
        return rows, cols, colour

    def core(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the core: the orthonormal projection of canonical pixels onto what the hash depends on."""
        self._check(pixels)
        rows, cols, colour = (t.to(pixels.device, pixels.dtype) for t in self._core_tensors)
        return apply_factors(pixels, rows, cols, colour)

    def lift(self, core: torch.Tensor) -> torch.Tensor:
        """Return the smallest pixel change (in l2) that changes the core by ``core``; both have the same norm."""
        rows, cols, colour = (t.to(core.device, core.dtype) for t in self._core_tensors)
        return apply_factors(core, rows.T, cols.T, colour.T)

    def expansion(self) -> Expansion:
        """Return the map from the core to the features: ``expansion()(core(x)) = self(x)``."""
        rows, cols, colour = float32(*(expand for expand, _ in self._split))
        return Expansion(rows, cols, colour, *float32(self.offset))

    def _check(self, pixels: torch.Tensor) -> None:
        expected = (3, self.rows.shape[1], self.cols.shape[1])
        if tuple(pixels.shape[-3:]) != expected:
            raise InputError(f"expected canonical pixels of shape {expected}, got {tuple(pixels.shape)}")


class Expansion(torch.nn.Module):
    """The map from the core to the features, as a first layer in front of the network."""

    def __init__(self, rows: torch.Tensor, cols: torch.Tensor, colour: torch.Tensor, offset: torch.Tensor) -> None:
        super().__init__()
        self.rows: torch.Tensor
        self.cols: torch.Tensor
        self.colour: torch.Tensor
        self.offset: torch.Tensor
        self.register_buffer("rows", rows)
        self.register_buffer("cols", cols)
        self.register_buffer("colour", colour)
        self.register_buffer("offset", offset[:, None, None])

    def forward(self, core: torch.Tensor) -> torch.Tensor:
        # Mix colours before enlarging; the order does not matter, because spatial maps treat all channels alike.
        return self.rows @ torch.einsum("ck,bkhw->bchw", self.colour, core) @ self.cols.T + self.offset


@torch.inference_mode(False)
def float32(*arrays: Matrix) -> tuple[torch.Tensor, ...]:
    """Return matrices as tensors."""
    # These tensors are cached; created in inference mode, they could not be used with autograd.
    return tuple(torch.tensor(array, dtype=torch.float32) for array in arrays)


def apply_factors(image: torch.Tensor, rows: torch.Tensor, cols: torch.Tensor, colour: torch.Tensor) -> torch.Tensor:
    """Return ``sum_k W_ck L_h x_k L_w^T``; a reduction of channels (grey) comes first, to save work."""
    if colour.shape[0] < colour.shape[1]:
        return rows @ _mix(colour, image) @ cols.T
    return _mix(colour, rows @ image @ cols.T)


def _mix(colour: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
    return torch.einsum("ck,...khw->...chw", colour, image)
