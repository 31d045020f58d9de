"""Probes: images without a subject, which no reference may match.

A reference with little structure is near everything that has none. Enrollment compares its codes with flat images, with
gradients, and with its own thumbnails of 2 x 2 and 4 x 4 enlarged again, through all views of a query. Its threshold is
lowered until none of them matches. That looks at the reference only, so the threshold is one more property of the
reference, fixed before any query is seen. All probes are products of one column and one row, or have a few pixels, so
their coefficients cost almost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from dualshield.hashes.linear.linear_hash import Bits
from dualshield.images import axes
from dualshield.images.axes import Matrix
from dualshield.smoothing.exact.query_views import QueryViews
from dualshield.smoothing.exact.soft_distance import soft_distances

VERSION = 1
"""Part of the enrollment terms: other probes give other thresholds."""

MARGIN = 1.0  # bits between the nearest probe and the threshold
GREYS = (0.0, 0.25, 0.5, 0.75, 1.0)
CONTRASTS = (1.0, 0.4)
THUMBNAILS = (2, 4)

Side = Callable[[int], Matrix]


class Probes:
    """Compares the codes of references with the probes, as all views of a query show them."""

    def __init__(self, queries: QueryViews) -> None:
        self._queries = queries
        self._common: dict[float, Matrix] = {}

    @cached_property
    def _flat(self) -> Matrix:
        """The coefficients of a white image ``(views, bits)``."""
        return self._outer(np.ones, np.ones)

    @cached_property
    def _ramps(self) -> tuple[Matrix, Matrix]:
        """The coefficients of gradients from -0.5 to 0.5, downwards and to the right."""
        return self._outer(_ramp, np.ones), self._outer(np.ones, _ramp)

    def _outer(self, column: Side, row: Side) -> Matrix:
        found = []
        for linear in self._queries.hashes:
            height, width = linear.vertical.shape[1], linear.horizontal.shape[1]
            luma = np.outer(linear.vertical @ column(height), linear.horizontal @ row(width))
            found.append(linear.mixed(luma))
        return np.array(found)

    @cached_property
    def common(self) -> dict[str, Matrix]:
        """The coefficients of the probes that are the same for all references, each ``(views, bits)``."""
        down, right = self._ramps
        found = {f"a flat grey of {grey:g}": grey * self._flat for grey in GREYS}
        ways = {"down": down, "right": right, "down and right": (down + right) / 2, "down and left": (down - right) / 2}
        for contrast in CONTRASTS:
            for way, ramp in ways.items():
                for sign, towards in ((1, "brighter"), (-1, "darker")):
                    name = f"a gradient that gets {towards} {way}"
                    found[f"{name} (contrast {contrast:g})"] = 0.5 * self._flat + sign * contrast * ramp
        return found

    def own(self, luma: Matrix) -> dict[str, Matrix]:
        """Return the coefficients of the mean of an image and of its thumbnails, each ``(views, bits)``."""
        found = {"its mean brightness": float(luma.mean()) * self._flat}
        for side in THUMBNAILS:
            height, width = luma.shape
            small = axes.resize(height, side) @ luma @ axes.resize(width, side).T
            up, across = axes.resize(side, height), axes.resize(side, width)
            found[f"its thumbnail of {side} x {side}"] = self._queries.coefficients(up @ small @ across.T)
        return found

    def nearest(self, codes: Bits, sigma: float, own: dict[str, Matrix]) -> tuple[float, str]:
        """Return the smallest soft distance of a probe to any of the codes, in bits, and the name of that probe."""
        if sigma not in self._common:
            self._common[sigma] = self._probabilities(self.common, sigma)
        probabilities = np.concatenate([self._common[sigma], self._probabilities(own, sigma)])
        probes, views, bits = probabilities.shape
        distances = soft_distances(probabilities.reshape(probes * views, bits), codes).reshape(probes, -1).min(1)
        place = int(distances.argmin())
        return float(distances[place]), [*self.common, *own][place]

    def _probabilities(self, probes: dict[str, Matrix], sigma: float) -> Matrix:
        return np.array([self._queries.probabilities(coefficients, sigma) for coefficients in probes.values()])


def _ramp(size: int) -> Matrix:
    ramp: Matrix = (np.arange(size) + 0.5) / size - 0.5
    return ramp
