"""A hash that is linear up to a threshold: PDQ, pHash, dHash, aHash, block mean.

    luma Y = w . rgb;    c = mix (vertical Y horizontal^T);    bit_i = c_i > theta

``theta`` is zero, or the median of the coefficients. Such a hash needs no samples: its smoothed version has a closed
form, and so has a bound on the cost of evading it (`smoothing/exact`, METHOD.md 4). To give another hash an exact
matcher, describe it as a `LinearHash`. Everything here is numpy, so that matching can start without torch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from dualshield.errors import InputError
from dualshield.images import axes
from dualshield.images.axes import Matrix
from dualshield.images.space import LUMA

Rule = Literal["median", "zero"]
Bits = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LinearHash:
    """A linear map of canonical pixels and a threshold rule.

    ``vertical`` (rows x 512) and ``horizontal`` (columns x 512) act on the luma. ``mix`` (bits x rows*columns), if any,
    combines the coefficients, flattened row by row, to one number per bit; it also fixes the order of the bits.
    """

    name: str
    version: str
    vertical: Matrix
    horizontal: Matrix
    rule: Rule
    mix: Matrix | None = None
    lowpass: int | None = None

    def __post_init__(self) -> None:
        if self.rule not in get_args(Rule):
            raise InputError(f"hash {self.name}: unknown rule {self.rule!r}; use one of {', '.join(get_args(Rule))}")
        for what, factor in (("vertical", self.vertical), ("horizontal", self.horizontal), ("mix", self.mix)):
            if factor is not None and not (factor.ndim == 2 and factor.size and np.isfinite(factor).all()):
                raise InputError(f"hash {self.name}: {what} is not a matrix of finite numbers")
        numbers = len(self.vertical) * len(self.horizontal)
        if self.mix is not None and self.mix.shape[1] != numbers:
            raise InputError(f"hash {self.name}: mix takes {self.mix.shape[1]} numbers, but there are {numbers}")

    def __repr__(self) -> str:
        lowpass = "" if self.lowpass is None else f", low-pass {self.lowpass}"
        return f"<LinearHash {self.name} {self.version}, {self.bits} bits above {self.rule}{lowpass}>"

    @property
    def bits(self) -> int:
        """The number of bits."""
        return len(self.vertical) * len(self.horizontal) if self.mix is None else len(self.mix)

    @property
    def expected_ones(self) -> int | None:
        """How many bits of a code are one: half of them under the median rule, else None."""
        return self.bits // 2 if self.rule == "median" else None

    def coefficients(self, pixels: npt.NDArray[np.floating]) -> Matrix:
        """Return the numbers ``c`` (one per bit) of canonical pixels ``(3, height, width)``."""
        # Along the columns first: the image is read once, and what remains is small.
        channels = np.stack([channel @ self.horizontal.T.astype(pixels.dtype) for channel in pixels])
        narrow = np.tensordot(np.asarray(LUMA), channels.astype(np.float64), 1)
        return self.mixed(self.vertical @ narrow)

    def mixed(self, coefficients: Matrix) -> Matrix:
        """Return one number per bit from the coefficients ``(rows, columns)``."""
        flat = coefficients.reshape(-1)
        return flat if self.mix is None else self.mix @ flat

    def boundary(self, coefficients: Matrix) -> float:
        """Return ``theta``: zero, or the lower of the two middle coefficients."""
        if self.rule == "zero":
            return 0.0
        place = (len(coefficients) - 1) // 2
        return float(np.partition(coefficients, place)[place])

    def code(self, pixels: npt.NDArray[np.floating]) -> Bits:
        """Return the bits of canonical pixels."""
        coefficients = self.coefficients(pixels)
        return coefficients > self.boundary(coefficients)

    @cached_property
    def gram(self) -> Matrix:
        """The inner products of the rows of the whole map from pixels to coefficients (bits x bits)."""
        gram: Matrix = np.kron(self.vertical @ self.vertical.T, self.horizontal @ self.horizontal.T).astype(np.float64)
        gram = gram if self.mix is None else self.mix @ gram @ self.mix.T
        return gram * float(np.dot(LUMA, LUMA))

    def with_lowpass(self, lowpass: int | None) -> LinearHash:
        """Return this hash preceded by an m x m low-pass of the canonical image; None changes nothing."""
        if lowpass is None or lowpass == self.lowpass:
            return self
        if self.lowpass is not None:
            raise InputError(f"hash {self.name} already has a low-pass of {self.lowpass}; load the hash again")
        height, width = self.vertical.shape[1], self.horizontal.shape[1]
        return replace(
            self,
            vertical=self.vertical @ axes.low_pass(height, lowpass),
            horizontal=self.horizontal @ axes.low_pass(width, lowpass),
            lowpass=lowpass,
        )
