"""The linear front end of a hash: everything between the canonical pixels and its first non-linear step.

A front end is the affine map ``y_c = sum_k W_ck L_h x_k L_w^T + o_c`` (W: colour, L_h and L_w: rows and
columns, o: offset). Its factors are kept explicit, which gives three things:

* it applies itself, differentiably;
* its operator norm is the product of the factors' norms;
* it splits exactly into ``features = expand(core(pixels))``, where ``core`` has orthonormal rows (the right singular
  vectors of each factor). So i.i.d. Gaussian noise on the 786,432 canonical pixels *is* i.i.d. Gaussian noise of the
  same sigma on the few numbers of the core: nothing is approximated, and a draw costs only what the hash sees
  (METHOD.md 3; with ``L = U S V^T`` its C is our ``U S``).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from dualshield.errors import InputError
from dualshield.images import axes
from dualshield.images.axes import Filter, Matrix
from dualshield.images.bands import Band
from dualshield.images.canonical import CANONICAL_SIZE

LUMA = (0.299, 0.587, 0.114)
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
CELL_EDGE = 0.3819660113


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
        """The canonical image itself."""
        return FrontEnd(np.eye(size), np.eye(size), np.eye(3), np.zeros(3))

    # -- building ----------------------------------------------------------------------------------

    def project(self, rows: Matrix, cols: Matrix) -> FrontEnd:
        """Any further separable map of the rows and columns."""
        constant = np.allclose(rows.sum(1), 1) and np.allclose(cols.sum(1), 1)
        if self.offset.any() and not constant:
            raise InputError("normalise after this projection: it does not keep constants constant")
        return replace(self, rows=rows @ self.rows, cols=cols @ self.cols)

    def resize(self, height: int, width: int, kind: Filter = "bilinear", *, antialias: bool = True) -> FrontEnd:
        """Resample to ``height`` x ``width``."""
        rows = axes.resize(self.rows.shape[0], height, kind, antialias=antialias)
        return self.project(rows, axes.resize(self.cols.shape[0], width, kind, antialias=antialias))

    def centre_crop(self, height: int, width: int) -> FrontEnd:
        """Keep the middle."""
        return self.project(axes.centre_crop(self.rows.shape[0], height), axes.centre_crop(self.cols.shape[0], width))

    def mix(self, weights: npt.ArrayLike) -> FrontEnd:
        """Replace the channels by linear combinations of them, one row of ``weights`` each."""
        matrix = np.atleast_2d(np.asarray(weights, dtype=np.float64))
        return replace(self, colour=matrix @ self.colour, offset=matrix @ self.offset)

    def grey(self, weights: tuple[float, float, float] = LUMA) -> FrontEnd:
        """One luma channel."""
        return self.mix(weights)

    def normalise(self, mean: npt.ArrayLike, std: npt.ArrayLike) -> FrontEnd:
        """``(y - mean) / std`` per channel."""
        deviation = np.broadcast_to(np.asarray(std, dtype=np.float64), self.offset.shape)
        if not (np.isfinite(deviation) & (deviation != 0)).all():
            raise InputError(f"cannot normalise by a standard deviation of zero or infinity: {std!r}")
        scale = 1.0 / deviation
        shift = np.asarray(mean, dtype=np.float64)
        return replace(self, colour=self.colour * scale[:, None], offset=(self.offset - shift) * scale)

    def low_pass(self, m: int) -> FrontEnd:
        """The same front end behind an m x m low-pass of the canonical image (METHOD.md 3b)."""
        height, width = self.rows.shape[1], self.cols.shape[1]
        return replace(self, rows=self.rows @ axes.low_pass(height, m), cols=self.cols @ axes.low_pass(width, m))

    # -- using -------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<FrontEnd to {'x'.join(map(str, self.shape))}, {self.digest[:12]}>"

    @cached_property
    def digest(self) -> str:
        """What tells it from others, in hex; the last digits of its factors, which machines may round, do not count."""
        digest = hashlib.sha256()
        for factor in (self.rows, self.cols, self.colour, self.offset):
            # Not rounded at multiples of anything: plain fractions would lie on the edge and fall to either side.
            cells = np.floor(np.asarray(factor, np.float64) * 1e6 + CELL_EDGE).astype("<i8")
            digest.update(f"{cells.shape}".encode() + cells.tobytes())
        return digest.hexdigest()

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of what the hash sees."""
        return self.colour.shape[0], self.rows.shape[0], self.cols.shape[0]

    @property
    def norm(self) -> float:
        """``||A||_2``: the largest l2 stretch from canonical pixels to features."""
        return axes.operator_norm(self.rows) * axes.operator_norm(self.cols) * axes.operator_norm(self.colour)

    @cached_property
    def _tensors(self) -> tuple[torch.Tensor, ...]:
        return _float32(self.rows, self.cols, self.colour, self.offset)

    @cached_property
    def _bands(self) -> tuple[Band, Band] | None:
        """For maps that are mostly zeros, as resizing is."""
        if self.colour.shape[0] != 3:
            return None
        scale = self._scale
        bands = Band(self.rows if scale is None else scale * self.rows), Band(self.cols)
        return bands if all(band.is_worthwhile for band in bands) else None

    @cached_property
    def _scale(self) -> float | None:
        """What all colours are multiplied by, if that is all that happens to them."""
        scale = float(self.colour[0, 0])
        return scale if np.array_equal(self.colour, scale * np.eye(3)) else None

    @property
    def is_banded(self) -> bool:
        """Whether it is cheaper to apply it as a whole than to take the core."""
        return self._bands is not None

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        """Features ``(..., c, h, w)`` of canonical pixels ``(..., 3, 512, 512)``."""
        self._check(pixels)
        rows, cols, colour, offset = (t.to(pixels.device, pixels.dtype) for t in self._tensors)
        if self._bands is not None and pixels.device.type == "cpu":
            row_band, col_band = self._bands
            image = col_band.cols(row_band.rows(pixels))
            if self._scale is None:
                image = _mix(colour, image)
        else:
            image = _apply(pixels, rows, cols, colour)
        return image + offset[:, None, None]

    # -- the core ----------------------------------------------------------------------------------

    @cached_property
    def _split(self) -> tuple[tuple[Matrix, Matrix], ...]:
        rows = axes.split(self.rows)
        cols = rows if self.cols is self.rows or np.array_equal(self.cols, self.rows) else axes.split(self.cols)
        return rows, cols, axes.split(self.colour)

    @cached_property
    def _core_tensors(self) -> tuple[torch.Tensor, ...]:
        return _float32(*self.core_factors)

    @property
    def core_shape(self) -> tuple[int, int, int]:
        """How many independent numbers of the image the hash sees at all."""
        rows, cols, colour = self.core_factors
        return colour.shape[0], rows.shape[0], cols.shape[0]

    @property
    def core_factors(self) -> tuple[Matrix, Matrix, Matrix]:
        """Rows, columns and colours of the core, each with orthonormal rows."""
        (_, rows), (_, cols), (_, colour) = self._split
        return rows, cols, colour

    def core(self, pixels: torch.Tensor) -> torch.Tensor:
        """The orthonormal projection of canonical pixels onto what the hash sees."""
        self._check(pixels)
        rows, cols, colour = (t.to(pixels.device, pixels.dtype) for t in self._core_tensors)
        return _apply(pixels, rows, cols, colour)

    def lift(self, core: torch.Tensor) -> torch.Tensor:
        """The shortest change of the pixels that changes the core by this much, and of the same length."""
        rows, cols, colour = (t.to(core.device, core.dtype) for t in self._core_tensors)
        return _apply(core, rows.T, cols.T, colour.T)

    def expansion(self) -> Expansion:
        """The rest of the way: ``expansion()(core(x)) = self(x)``."""
        rows, cols, colour = _float32(*(expand for expand, _ in self._split))
        return Expansion(rows, cols, colour, *_float32(self.offset))

    def _check(self, pixels: torch.Tensor) -> None:
        expected = (3, self.rows.shape[1], self.cols.shape[1])
        if tuple(pixels.shape[-3:]) != expected:
            raise InputError(f"expected canonical pixels of shape {expected}, got {tuple(pixels.shape)}")


class Expansion(torch.nn.Module):
    """From the core to the features, as the first layer of the network."""

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
        # Colours are mixed where the image is small; the spatial maps act on each channel alike.
        return self.rows @ torch.einsum("ck,bkhw->bchw", self.colour, core) @ self.cols.T + self.offset


@torch.inference_mode(False)
def _float32(*arrays: Matrix) -> tuple[torch.Tensor, ...]:
    # Kept for later: made in inference mode, they could never take part in a gradient.
    return tuple(torch.tensor(array, dtype=torch.float32) for array in arrays)


def _apply(image: torch.Tensor, rows: torch.Tensor, cols: torch.Tensor, colour: torch.Tensor) -> torch.Tensor:
    """``sum_k W_ck L_h x_k L_w^T``; fewer channels (grey) are mixed first, which saves work."""
    if colour.shape[0] < colour.shape[1]:
        return rows @ _mix(colour, image) @ cols.T
    return _mix(colour, rows @ image @ cols.T)


def _mix(colour: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
    return torch.einsum("ck,...khw->...chw", colour, image)
