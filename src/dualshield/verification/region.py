"""The region of perturbed network inputs: the image of a ball around the canonical image.

The input of the network is an affine function ``F x`` of the canonical pixels (the front end), so a ball of canonical
images becomes a set of inputs. For l2 this set is treated exactly: the largest value of ``a F d`` over ``|d|_2 <= r``
is ``r |F^T a|_2``. For l_inf the box around the set is used: input i moves by at most ``r |F_i|_1``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import torch

from dualshield.errors import InputError
from dualshield.images.axes import Matrix
from dualshield.images.frontend import FrontEnd
from dualshield.verification.patch import Patch
from dualshield.verification.relaxation import EXACT

Norm = Literal["l2", "linf"]
Space = Literal["canonical", "input"]


@dataclass(frozen=True, eq=False)
class Region:
    """All inputs within ``radius`` of ``centre``.

    With ``factors`` (for rows, columns and colours: the L of each factor L Q^T of the front end) the region is the
    image of a canonical l2 ball. ``reach`` is how far each single input can move at radius 1. ``blur`` bounds the error
    of the computed centre, and ``slack`` the error of a row of the factors as a fraction of its length.
    """

    centre: torch.Tensor
    norm: Norm
    reach: torch.Tensor
    blur: torch.Tensor
    factors: tuple[torch.Tensor, ...] | None = None
    radius: float = 0.0
    slack: float = 0.0

    def at(self, radius: float) -> Region:
        """Return the same region with another radius."""
        return replace(self, radius=radius)

    @property
    def extent(self) -> torch.Tensor:
        """The largest distance of each single input from the computed centre."""
        return (self.radius * self.reach + self.blur) * (1 + 4 * EXACT)

    def deviation(self, rows: Patch) -> torch.Tensor:
        """Return the largest gain of each row of coefficients over the true centre: ``(rows,)``, in float64."""
        values = rows.values
        if self.norm == "linf":
            gain = rows.with_values(values.abs()).dot(self.reach)
            return self.radius * gain * _rounded_up(values[0].numel())
        if self.factors is not None:
            tall, wide, colour = (factor.to(values.dtype) for factor in self.factors)
            tall = tall[rows.top : rows.top + values.shape[2]]
            wide = wide[rows.left : rows.left + values.shape[3]]
            values = tall.T @ torch.einsum("ck,rchw->rkhw", colour, values) @ wide
        length: torch.Tensor = torch.linalg.vector_norm(values, dim=(1, 2, 3), dtype=torch.float64)
        return self.radius * length * _rounded_up(values[0].numel())

    @property
    def doubt(self) -> torch.Tensor:
        """A bound on what ``deviation`` misses relative to the computed centre, per unit of coefficient, in float64."""
        return self.blur + (self.terms * EXACT + self.slack) * self.extent

    @property
    def terms(self) -> int:
        """The largest number of terms that ``deviation`` sums before it uses float64, with a small reserve."""
        return 8 + (0 if self.factors is None else sum(factor.shape[0] for factor in self.factors))


def region_of(front_end: FrontEnd, pixels: torch.Tensor, norm: str, space: str) -> Region:
    """Return the region of radius 0 around one canonical image, in float64."""
    if norm not in get_args(Norm):
        raise InputError(f"unknown norm {norm!r}: use one of {', '.join(get_args(Norm))}")
    if space not in get_args(Space):
        raise InputError(f"unknown space {space!r}: use one of {', '.join(get_args(Space))}")
    factors = front_end.rows, front_end.cols, front_end.colour
    image, offset = np.asarray(pixels.cpu(), dtype=np.float64), front_end.offset[:, None, None]
    centre = torch.from_numpy(_apply(image, *factors) + offset)
    sizes = torch.from_numpy(_apply(np.abs(image), *(np.abs(factor) for factor in factors)) + np.abs(offset))
    blur = 2 * sum(factor.shape[1] for factor in factors) * EXACT * sizes
    kind: Norm = "l2" if norm == "l2" else "linf"
    if space == "input":
        return Region(centre, kind, torch.ones_like(centre), blur)
    tall, wide, mixed = (torch.from_numpy(np.linalg.norm(f, 2 if kind == "l2" else 1, axis=1)) for f in factors)
    reach = mixed[:, None, None] * tall[:, None] * wide * _rounded_up(sum(factor.shape[1] for factor in factors))
    if kind == "linf":
        return Region(centre, kind, reach, blur)
    kept = tuple(torch.from_numpy(_without_rotation(factor)) for factor in factors)
    return Region(centre, kind, reach, blur, kept, slack=2 * EXACT * sum(factor.size for factor in factors))


def _apply(image: Matrix, rows: Matrix, cols: Matrix, colour: Matrix) -> Matrix:
    mixed: Matrix = np.tensordot(colour, rows @ image @ cols.T, 1)
    return mixed


def _rounded_up(terms: int) -> float:
    """Return a factor that lifts a computed sum of ``terms`` non-negative numbers above the true sum."""
    return 1 + terms * EXACT


def _without_rotation(factor: Matrix) -> Matrix:
    """Return ``L`` of the factor ``L Q^T``; the orthogonal Q does not change the length of ``a L Q^T``.

    Householder QR has an error relative to the length of each row: about the number of entries times the rounding
    (Higham, 19.4). The error of a singular value decomposition is relative to the norm of the whole factor.
    """
    upper: Matrix = np.asarray(np.linalg.qr(factor.T, mode="r"))
    return np.ascontiguousarray(upper.T)
