"""How an exact matcher looks at a query: one linear hash for each view, smoothed for each sigma.

A view of a query is linear, so the hash behind it is a linear hash again, with rows of its own. Its noise is on the
pixels of the query as it is, and its radius is in those pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dualshield.hashes.linear.linear_hash import LinearHash
from dualshield.images.axes import Matrix
from dualshield.images.views import View
from dualshield.smoothing.exact.certificate import SoftHash
from dualshield.smoothing.exact.rows import Rows


class QueryViews:
    """A linear hash behind each view of the query; rows and smoothed hashes are computed when they are needed."""

    def __init__(self, linear: LinearHash, views: Sequence[View]) -> None:
        self.views = tuple(views)
        self.hashes = tuple(linear.behind(view) for view in views)
        self._rows: dict[int, Rows] = {}
        self._soft: dict[tuple[int, float], SoftHash] = {}

    def __len__(self) -> int:
        return len(self.hashes)

    def rows(self, view: int) -> Rows:
        """Return the rows of the hash behind one view."""
        if view not in self._rows:
            self._rows[view] = Rows.of(self.hashes[view])
        return self._rows[view]

    def soft(self, sigma: float, view: int) -> SoftHash:
        """Return the hash behind one view, smoothed with ``sigma``."""
        if (view, sigma) not in self._soft:
            self._soft[view, sigma] = SoftHash(self.hashes[view], self.rows(view), sigma)
        return self._soft[view, sigma]

    def coefficients(self, luma: Matrix) -> Matrix:
        """Return the coefficients of an image in all views ``(views, bits)``."""
        return np.array([linear.of_luma(luma) for linear in self.hashes])

    def probabilities(self, coefficients: Matrix, sigma: float) -> Matrix:
        """Return the probability that each bit is one ``(views, bits)``."""
        return np.array([self.soft(sigma, view).probabilities(row) for view, row in enumerate(coefficients)])
