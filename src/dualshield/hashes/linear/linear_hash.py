"""A hash that is linear up to a threshold: PDQ, pHash, dHash, aHash, block mean.

    luma Y = w . rgb;    c = mix (vertical Y horizontal^T);    bit_i = c_i > theta

``theta`` is zero, or the median of the coefficients. Such a hash needs no samples: its smoothed version has a closed
form, and so has a bound on the cost of evading it (`smoothing/exact`, METHOD.md 4). To give another hash an exact
matcher, describe it as a `LinearHash`. Everything here is numpy, so that matching can start without torch.

The classical hashes were published for 8-bit pixels and round between their steps. The rounding is no part of the
linear map; it flips a bit whose coefficient is next to ``theta``. So such a hash also has the published function,
and `code` uses it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from dualshield._common.digest import digest_of_matrices
from dualshield.errors import InputError
from dualshield.hashes.bits import Bits as Bits
from dualshield.images import axes
from dualshield.images.axes import Matrix
from dualshield.images.space import LUMA
from dualshield.images.views import View

Rule = Literal["median", "zero"]

Published = Callable[[npt.NDArray[np.uint8]], Bits]


@dataclass(frozen=True, eq=False)
class LinearHash:
    """A linear map of canonical pixels and a threshold rule.

    ``vertical`` (rows x 512) and ``horizontal`` (columns x 512) act on the luma. ``mix`` (bits x rows*columns), if any,
    combines the coefficients, flattened row by row, to one number per bit; it also fixes the order of the bits.
    ``published`` is the published function of 8-bit pixels ``(512, 512, 3)``, if it rounds between its steps.
    """

    name: str
    version: str
    vertical: Matrix
    horizontal: Matrix
    rule: Rule
    mix: Matrix | None = None
    lowpass: int | None = None
    published: Published | None = None

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
        return self.of_luma(luma_of(pixels))

    def of_luma(self, luma: Matrix) -> Matrix:
        """Return the numbers ``c`` of an image whose luma is known."""
        return self.mixed(self.vertical @ luma @ self.horizontal.T)

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
        """Return the bits of canonical pixels: those of the published function on 8-bit pixels, if there is one.

        Without one they are ``coefficients > boundary``.
        """
        if self.published is not None:
            return self.published(self._eight_bit(pixels))
        coefficients = self.coefficients(pixels)
        return coefficients > self.boundary(coefficients)

    def _eight_bit(self, pixels: npt.NDArray[np.floating]) -> npt.NDArray[np.uint8]:
        expected = (3, self.vertical.shape[1], self.horizontal.shape[1])
        if pixels.shape != expected:
            raise InputError(f"expected canonical pixels of shape {expected}, got {pixels.shape}")
        rounded = np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
        return np.ascontiguousarray(rounded.transpose(1, 2, 0))

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What identifies this function of images, as JSON values."""
        factors = (self.vertical, self.horizontal, *([] if self.mix is None else [self.mix]))
        return {
            "name": self.name,
            "version": self.version,
            "bits": self.bits,
            "input": f"linear, {self.rule}",
            "front_end": digest_of_matrices(*factors, np.asarray(LUMA)),
            "calls": "",
            "weights": {},
        }

    @cached_property
    def gram(self) -> Matrix:
        """The inner products of the rows of the whole map from pixels to coefficients (bits x bits)."""
        gram: Matrix = np.kron(self.vertical @ self.vertical.T, self.horizontal @ self.horizontal.T).astype(np.float64)
        gram = gram if self.mix is None else self.mix @ gram @ self.mix.T
        return gram * float(np.dot(LUMA, LUMA))

    def with_lowpass(self, lowpass: int | None) -> LinearHash:
        """Return this hash preceded by an m x m low-pass of the canonical image; None changes nothing.

        This is another hash than the published one, so it has no published function.
        """
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
            published=None,
        )

    def behind(self, view: View) -> LinearHash:
        """Return the hash of what a view shows, as a function of the image itself.

        The view is one matrix for the rows and one for the columns, so this is a linear hash again. It has no published
        function. Colours do not matter: every view keeps the luma.
        """
        if view.is_identity:
            return self
        (rows, _), (_, cols) = (view.factors(factor.shape[1]) for factor in (self.vertical, self.horizontal))
        return replace(self, vertical=self.vertical @ rows, horizontal=self.horizontal @ cols, published=None)


def luma_of(pixels: npt.NDArray[np.floating]) -> Matrix:
    """Return the luma of canonical pixels ``(3, height, width)``."""
    # In float64: certificates count on a rounding error that is far below what could matter.
    luma: Matrix = np.tensordot(np.asarray(LUMA), np.asarray(pixels, np.float64), 1)
    return luma


def minus_mean(count: int) -> Matrix:
    """Return the matrix that subtracts from ``count`` numbers their mean."""
    return np.eye(count) - 1 / count
