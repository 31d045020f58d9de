"""Decide and certify a query by all pairs of its views and the codes of a reference.

A query matches if any view of it is near enough to any code. So the radius of one matching pair is one of the match:
while that pair matches, the query does. A non-match lasts as long as no pair matches: its radius is the smallest of all
pairs. Each pair has a cheap proven radius (steepness.py). Those that limit the result are replaced by better ones,
first for all codes at once (many_codes.py), then by full certificates; whenever this stops, the smallest that is left
is proven.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dualshield.errors import InputError
from dualshield.hashes.linear.linear_hash import Bits
from dualshield.images.axes import Matrix
from dualshield.smoothing.exact.certificate import ExactCertificate, is_flat
from dualshield.smoothing.exact.query_views import QueryViews
from dualshield.smoothing.exact.soft_distance import soft_distances
from dualshield.smoothing.exact.steepness import cheap_radii

TRIED = 6  # matching pairs whose full certificate is computed; the largest counts
MOST = 16  # full certificates of a non-match


class Pairs:
    """All pairs of the views of a query (rows) and the codes of a reference (columns)."""

    def __init__(self, queries: QueryViews, coefficients: Matrix, codes: Bits, sigma: float, limit: float) -> None:
        if codes.dtype != np.bool_ or codes.ndim != 2 or codes.shape[1] != coefficients.shape[1]:
            raise InputError(
                f"codes have {coefficients.shape[1]} bools, these {codes.shape[-1]} values of type {codes.dtype}"
            )
        self.queries, self.coefficients, self.codes = queries, coefficients, codes
        self.sigma, self.limit = sigma, limit
        self.probabilities = queries.probabilities(coefficients, sigma)
        self.distances = soft_distances(self.probabilities, codes)

    @property
    def nearest(self) -> tuple[int, int]:
        """The pair with the smallest soft distance."""
        return self._pair(int(self.distances.argmin()))

    @property
    def matched(self) -> bool:
        """Whether any pair matches."""
        return bool(self.distances.min() <= self.limit)

    def certify(self) -> ExactCertificate:
        """Decide, and prove a radius; views are those of the pair that the radius, or the non-match, is of."""
        found = self._match() if self.matched else self._non_match()
        return replace(found, is_flat=is_flat(self.probabilities[0]))

    def _pair(self, place: int) -> tuple[int, int]:
        view, code = np.unravel_index(place, self.distances.shape)
        return int(view), int(code)

    def _certified(self, place: int) -> ExactCertificate:
        view, code = self._pair(place)
        soft = self.queries.soft(self.sigma, view)
        found = soft.certify(self.coefficients[view], self.codes[code], self.limit)
        return replace(found, query_view=view, reference_view=code)

    def _cheap(self) -> Matrix:
        """Return the cheap radius of each pair."""
        return np.array(
            [
                cheap_radii(
                    self.queries.rows(view),
                    self.sigma,
                    np.abs(row - self.limit),
                    by_median=self.queries.hashes[view].rule == "median",
                )
                for view, row in enumerate(self.distances)
            ]
        )

    def _match(self) -> ExactCertificate:
        matching = np.flatnonzero(self.distances <= self.limit)
        if len(matching) > TRIED:
            matching = matching[np.argsort(-self._cheap().ravel()[matching], kind="stable")[:TRIED]]
        tried = [self._certified(int(place)) for place in matching]
        best = max(tried, key=lambda found: found.radius if found.matched else 0.0)
        # A distance on the limit may be decided the other way by its last digit: then nothing is proven.
        return best if best.matched else replace(best, matched=True, radius=0.0)

    def _non_match(self) -> ExactCertificate:
        nearest = int(self.distances.argmin())
        radius = self._of_non_match(nearest) if self.distances.size == 1 else self._smallest()
        view, code = self._pair(nearest)
        distance = float(self.distances[view, code])
        return ExactCertificate(False, distance, radius, query_view=view, reference_view=code)

    def _smallest(self) -> float:
        """Return a proven lower bound on the radii of all pairs, none of which matches."""
        radii = self._cheap()
        certified, refined = np.zeros(radii.shape, np.bool_), np.zeros(len(radii), np.bool_)
        for _ in range(MOST + len(radii)):
            place = int(radii.argmin())
            view, code = self._pair(place)
            if certified[view, code]:
                break
            if not refined[view]:
                soft = self.queries.soft(self.sigma, view)
                found = soft.many_non_matches(self.coefficients[view], self.codes, self.limit)
                radii[view], refined[view] = np.maximum(radii[view], found), True
            else:
                radii[view, code] = max(radii[view, code], self._of_non_match(place))
                certified[view, code] = True
        return float(radii.min())

    def _of_non_match(self, place: int) -> float:
        found = self._certified(place)
        return 0.0 if found.matched else found.radius
