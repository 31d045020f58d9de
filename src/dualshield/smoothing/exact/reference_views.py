"""The views of a reference, of which only the codes are kept.

Any fixed function of the reference's pixels will do as a view, so it need not be exact, but quick: behind a low-pass
the views are those of a reduced luma.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from dualshield.hashes.linear.linear_hash import LinearHash
from dualshield.images import axes
from dualshield.images.axes import Matrix
from dualshield.images.views import View

REDUCED = 128
FINEST = 64  # the largest low-pass that the reduced luma is fine enough for


class ReferenceViews:
    """A linear hash of each view of a reference."""

    def __init__(self, linear: LinearHash, views: Sequence[View]) -> None:
        self.linear, self.views = linear, tuple(views)

    @cached_property
    def is_reduced(self) -> bool:
        """Whether views are made of a reduced luma."""
        lowpass, sizes = self.linear.lowpass, (self.linear.vertical.shape[1], self.linear.horizontal.shape[1])
        return lowpass is not None and lowpass <= FINEST and min(sizes) > REDUCED

    @cached_property
    def _small(self) -> tuple[LinearHash, Matrix, Matrix]:
        """The hash of a reduced luma, enlarged again, and the factors that reduce it."""
        height, width = self.linear.vertical.shape[1], self.linear.horizontal.shape[1]
        vertical = self.linear.vertical @ axes.resize(REDUCED, height)
        horizontal = self.linear.horizontal @ axes.resize(REDUCED, width)
        small = replace(self.linear, vertical=vertical, horizontal=horizontal, published=None)
        return small, axes.resize(height, REDUCED), axes.resize(width, REDUCED)

    def coefficients(self, luma: Matrix) -> Matrix:
        """Return the coefficients of all views of an image ``(views, bits)``; the image as it is is not reduced."""
        first, *others = self.views
        assert first.is_identity
        found = [self.linear.of_luma(luma)]
        if others:
            linear, shown = self.linear, luma
            if self.is_reduced:
                linear, rows, cols = self._small
                shown = rows @ luma @ cols.T
            found += [linear.of_luma(view(shown[None])[0]) for view in (replace(view, grey=False) for view in others)]
        return np.array(found)
