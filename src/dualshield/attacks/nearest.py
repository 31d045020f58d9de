"""Find which of many trials are near: an attack must evade all of them, but only the near ones need its attention.

A service with 8 views of the query and 2 sigmas has 16 trials. A few draws of each say which are near; only the nearest
ones are then measured with all draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from dualshield.smoothing.noise import GaussianSource

ACTIVE = 1.25  # in units of the boundary: trials farther away than this are left alone
SCREENING = 8  # one of so many draws is for all trials,
FEWEST = 2
CLOSEST = 3  # and the others for so many of the nearest


class Measurable(Protocol):
    """One trial of a service."""

    @property
    def boundary(self) -> float:
        """Decision threshold; smaller distances match."""
        ...

    def drawn_distances(self, pixels: torch.Tensor, count: int, source: GaussianSource) -> torch.Tensor:
        """Return the distances of ``count`` votes; one distance if there is no noise."""
        ...


@dataclass(frozen=True)
class Look:
    """What a look at all trials has found, in units of their boundaries."""

    distances: tuple[float, ...]  # means over votes
    voted: tuple[bool, ...]  # whether any vote was a match

    @property
    def least(self) -> float:
        """The distance of the nearest trial."""
        return min(self.distances)

    @property
    def active(self) -> tuple[int, ...]:
        """The trials to evade, the nearest first: those near the boundary, or with a matching vote; at least one."""
        order = sorted(range(len(self.distances)), key=self.distances.__getitem__)
        near = tuple(i for i in order if self.distances[i] < ACTIVE or self.voted[i])
        return near or tuple(order[:1])


def look(trials: Sequence[Measurable], pixels: torch.Tensor, count: int, source: GaussianSource) -> Look:
    """Measure all trials, the nearest ones with ``count`` draws and the others with a few."""
    few = min(count, max(FEWEST, count // SCREENING))
    found = [trial.drawn_distances(pixels, few, source).float() / trial.boundary for trial in trials]
    nearest = sorted(range(len(trials)), key=lambda i: float(found[i].mean()))[:CLOSEST]
    for i in nearest:
        if count > few and len(found[i]) == few:  # without noise, more draws say nothing more
            more = trials[i].drawn_distances(pixels, count - few, source).float() / trials[i].boundary
            found[i] = torch.cat([found[i], more])
    return Look(tuple(float(each.mean()) for each in found), tuple(bool((each <= 1).any()) for each in found))
