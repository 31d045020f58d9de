"""Where perturbed inputs may lie: a ball around the input of the network.

The input of the network is an affine image ``F x`` of the canonical pixels (the front end), so a ball of canonical
images becomes a set of inputs. For l2 that set is kept exactly: the largest value of ``a F d`` over ``|d|_2 <= r`` is
``r |F^T a|_2``. For l_inf the box around it is taken: input i moves by at most ``r |F_i|_1``, whatever the others do.
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

    With factors (of rows, columns and colours: L of each, where L Q^T is that factor of the front end) it is the
    image of a canonical l2 ball. ``reach`` is how far each single input can move at radius 1, ``blur`` how far off the
    computed centre may be, and ``slack`` how far off a row of the factors, as a part of its length.
    """

    centre: torch.Tensor
    norm: Norm
    reach: torch.Tensor
    blur: torch.Tensor
    factors: tuple[torch.Tensor, ...] | None = None
    radius: float = 0.0
    slack: float = 0.0

    def at(self, radius: float) -> Region:
        """The same region with another radius."""
        return replace(self, radius=radius)

    @property
    def extent(self) -> torch.Tensor:
        """How far each single input may lie from the computed centre."""
        return (self.radius * self.reach + self.blur) * (1 + 4 * EXACT)

    def deviation(self, rows: Patch) -> torch.Tensor:
        """The most that each row of coefficients can gain over the true centre: ``(rows,)``, in float64."""
        values = rows.values
        if self.norm == "linf":
            gain = rows.with_values(values.abs()).dot(self.reach)
            return self.radius * gain * _upwards(values[0].numel())
        if self.factors is not None:
            tall, wide, colour = (factor.to(values.dtype) for factor in self.factors)
            tall = tall[rows.top : rows.top + values.shape[2]]
            wide = wide[rows.left : rows.left + values.shape[3]]
            values = tall.T @ torch.einsum("ck,rchw->rkhw", colour, values) @ wide
        length: torch.Tensor = torch.linalg.vector_norm(values, dim=(1, 2, 3), dtype=torch.float64)
        return self.radius * length * _upwards(values[0].numel())

    @property
    def doubt(self) -> torch.Tensor:
        """What ``deviation`` may lack of the way from the computed centre, per unit of coefficient in float64."""
        return self.blur + (self.terms * EXACT + self.slack) * self.extent

    @property
    def terms(self) -> int:
        """The most numbers that one sum in ``deviation`` adds up before float64 takes over, with some to spare."""
        return 8 + (0 if self.factors is None else sum(factor.shape[0] for factor in self.factors))


def region_of(front_end: FrontEnd, pixels: torch.Tensor, norm: str, space: str) -> Region:
    """The region around one canonical image, of radius 0, in float64."""
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
    reach = mixed[:, None, None] * tall[:, None] * wide * _upwards(sum(factor.shape[1] for factor in factors))
    if kind == "linf":
        return Region(centre, kind, reach, blur)
    kept = tuple(torch.from_numpy(_without_rotation(factor)) for factor in factors)
    return Region(centre, kind, reach, blur, kept, slack=2 * EXACT * sum(factor.size for factor in factors))


def _apply(image: Matrix, rows: Matrix, cols: Matrix, colour: Matrix) -> Matrix:
    mixed: Matrix = np.tensordot(colour, rows @ image @ cols.T, 1)
    return mixed


def _upwards(terms: int) -> float:
    """What lifts a computed sum of so many numbers that are not negative above the true one."""
    return 1 + terms * EXACT


def _without_rotation(factor: Matrix) -> Matrix:
    """``L`` of the factor: what is left of it for the length of ``a L Q^T``.

    By Householder's QR, which keeps each row to a part of its own length: about the number of entries times the
    rounding (Higham, 19.4). A singular value decomposition is true only to the length of the largest.
    """
    upper: Matrix = np.asarray(np.linalg.qr(factor.T, mode="r"))
    return np.ascontiguousarray(upper.T)
