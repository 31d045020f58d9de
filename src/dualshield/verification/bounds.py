"""Sound bounds of every neuron over a region, by backward substitution of linear relaxations (CROWN).

All values are deviations from the network's values at the centre of the region, so layers are linear without a bias.
To bound a neuron, a row of coefficients starts as a one at that neuron. It is carried back layer by layer, through a
ReLU by the lines around it (relaxation.py), to the input, where the region gives the worst case. Neurons that interval
arithmetic proves stable need no such pass.

Rounding. A sum of n products, in any order, is off by at most n u times the sum of their absolute values (Higham,
Accuracy and Stability, 3.1; u is half a unit in the last place). So one step of a pass, ``row -> row W``, changes the
bound by at most ``n u |row| (|W| D)``, with D the largest deviations of the layer before. The error of the computed
centre adds the same, with u of float64 and the centre's own magnitudes. These errors are added up along a pass, with
twice the u, and the bound is moved outwards by the total. Passes are made in float32 first, and in float64 for the
neurons where that total matters. The result holds for the network in real arithmetic, with its weights as stored.

The centre of the region is computed too, and may be off by the region's blur. The true input is within radius plus blur
of the computed centre, and the intervals start with that extent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from dualshield.verification.patch import Patch
from dualshield.verification.program import Node, Program
from dualshield.verification.region import Region
from dualshield.verification.relaxation import EXACT, ROUNDING, Interval, Relaxation

# Size of the largest array of a backward pass, and the side of the tile of neurons that share a pass.
PASS_NUMBERS = 2_000_000
TILE = 4
# A pass is repeated in float64 where rounding loses more than this fraction of the width.
TOLERATED_LOSS = 0.02
# Covers the rounding of the losses themselves.
LOSS_FACTOR = 1.01


class Bounds:
    """Bounds of the nodes of a program over a region, as far as computed."""

    def __init__(self, program: Program, region: Region) -> None:
        self.program, self.region = program, region
        self.centres = program.values(region.centre)
        self.deviations = [Interval(-region.extent, region.extent)]
        # Rounding loss of a pass through each node, by precision, per unit of coefficient.
        self.losses = [self._loss(region.doubt, region.terms * region.extent)]
        self.relaxations: dict[int, Relaxation] = {}

    def interval(self, index: int) -> Interval:
        """Return the bounds of a node."""
        centre, deviation = self.centres[index], self.deviations[index]
        blur = EXACT * (centre.abs() + deviation.magnitude)
        return Interval(centre + deviation.low - blur, centre + deviation.high + blur)

    @property
    def output(self) -> Interval:
        """Bounds of the outputs, flattened."""
        last = self.interval(self.program.last)
        return Interval(last.low.flatten(), last.high.flatten())

    def extend(self, *, refine: bool) -> None:
        """Bound the next node by interval arithmetic, and with ``refine`` by backward passes where they may help."""
        index = len(self.deviations)
        deviation = self._forward(index, self.program.nodes[index])
        lossy = torch.ones_like(deviation.low, dtype=torch.bool)
        for dtype in _precisions() if refine else ():
            open_ = self._undecided(index, deviation) & lossy
            deviation, lossy = self._refined(index, deviation, open_, dtype)
        self.deviations.append(deviation)

    def sensitivity(self) -> torch.Tensor:
        """Estimate to first order how fast each output can fall as the radius grows from 0; this is not a bound."""
        everything = torch.ones(self.program.nodes[-1].shape, dtype=torch.bool)
        slopes = torch.zeros(everything.shape, dtype=torch.float64)
        for rows, where in self._chunks(self.program.last, everything, torch.float32):
            patch, _, _ = self._carried_back(self.program.last, rows)
            slopes[where] = self.region.at(1.0).deviation(patch)[: len(rows.values)]
        return slopes.flatten()

    def _undecided(self, index: int, deviation: Interval) -> torch.Tensor:
        centre = self.centres[index]
        if index == self.program.last:
            return torch.ones_like(centre, dtype=torch.bool)
        return (centre + deviation.low < 0) & (centre + deviation.high > 0)

    def _forward(self, index: int, node: Node) -> Interval:
        """Bound a node by interval arithmetic, and record its rounding losses."""
        given = [self.deviations[source] for source in node.sources]
        sizes = [self.centres[source].abs() + self.deviations[source].magnitude for source in node.sources]
        if node.conv is not None:
            conv = node.conv
            exact = conv.terms * EXACT * (conv.spread(sizes[0]) + conv.bias_size[:, None, None])
            self.losses.append(self._loss(exact, conv.terms * conv.spread(given[0].magnitude)))
            middle = conv.linear((given[0].high + given[0].low) / 2)
            half = conv.spread((given[0].high - given[0].low) / 2) + exact
            return Interval(middle - half, middle + half)
        if node.is_relu:
            lines = self.relaxations[index] = Relaxation.of(self.centres[node.sources[0]], given[0])
            exact = EXACT * (4 * sizes[0] + sizes[0].numel() * (lines.ceiling - lines.floor))
            self.losses.append(self._loss(exact, 4 * given[0].magnitude))
            centre = self.centres[node.sources[0]]
            ends = [(centre + end).clamp_min(0) - centre.clamp_min(0) for end in (given[0].low, given[0].high)]
        else:
            exact = 4 * EXACT * (sizes[0] + sizes[1])
            self.losses.append(self._loss(exact, 4 * (given[0].magnitude + given[1].magnitude)))
            ends = [given[0].low + given[1].low, given[0].high + given[1].high]
        return Interval(ends[0] - exact, ends[1] + exact)

    def _loss(self, exact: torch.Tensor, scale: torch.Tensor) -> dict[torch.dtype, torch.Tensor]:
        coarse = exact + ROUNDING[torch.float32] * scale
        return {torch.float64: exact, torch.float32: coarse.float()}

    # -- backward ----------------------------------------------------------------------------------

    def _refined(
        self, index: int, deviation: Interval, chosen: torch.Tensor, dtype: torch.dtype
    ) -> tuple[Interval, torch.Tensor]:
        """Tighten the bounds of the chosen neurons; return all bounds, and where rounding matters."""
        low, high, lossy = deviation.low.clone(), deviation.high.clone(), torch.zeros_like(chosen)
        for rows, where in self._chunks(index, chosen, dtype):
            least, most, lost = self._extremes(index, rows)
            lossy[where] = lost > TOLERATED_LOSS * (most - least)
            low[where] = torch.maximum(low[where], least)
            high[where] = torch.minimum(high[where], most)
        return Interval(low, high), lossy

    def _chunks(
        self, index: int, chosen: torch.Tensor, dtype: torch.dtype
    ) -> Iterator[tuple[Patch, tuple[torch.Tensor, ...]]]:
        """Yield the chosen neurons tile by tile, with one row of coefficients per neuron."""
        _, height, width = chosen.shape
        most = self._rows_per_pass(index)
        for top in range(0, height, TILE):
            for left in range(0, width, TILE):
                tile = chosen[:, top : top + TILE, left : left + TILE]
                if not bool(tile.any()):
                    continue
                for chunk in torch.split(tile.nonzero(), most):
                    channel, y, x = chunk.T
                    values = torch.zeros(len(chunk), *tile.shape, dtype=dtype)
                    values[torch.arange(len(chunk)), channel, y, x] = 1
                    yield Patch(values, top, left), (channel, y + top, x + left)

    def _rows_per_pass(self, index: int) -> int:
        """Return how many neurons fit into one pass, for a tile in the middle, where windows are largest."""
        channels, height, width = self.program.nodes[index].shape
        tall, wide = min(TILE, height), min(TILE, width)
        waiting = {index: Patch(torch.zeros(1, channels, tall, wide), (height - tall) // 2, (width - wide) // 2)}
        largest = 1
        for current in range(index, 0, -1):
            if current in waiting:
                patch = waiting.pop(current)
                largest = max(largest, patch.values.numel())
                self._pass_on(waiting, current, patch)
        return max(1, PASS_NUMBERS // (2 * largest))

    def _extremes(self, index: int, rows: Patch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the minimum and maximum of ``rows`` times the deviation of a node, and the rounding loss in each."""
        count = len(rows.values)
        patch, constants, lost = self._carried_back(index, rows)
        least = constants - self.region.deviation(patch) - lost
        if len(least) == count:  # linear all the way: the maximum is minus the minimum
            return least, -least, lost
        return least[:count], -least[count:], lost[:count]

    def _carried_back(self, index: int, rows: Patch) -> tuple[Patch, torch.Tensor, torch.Tensor]:
        """Carry rows on a node back to rows on the input; return these, their constants and the rounding losses.

        If a ReLU on the way is unstable, the negated rows are appended to the rows.
        """
        count, dtype = len(rows.values), rows.values.dtype
        waiting = {index: rows}
        constants, lost = torch.zeros(2, count, dtype=torch.float64)
        mirrored = False
        for current in range(index, 0, -1):
            if current not in waiting:
                continue
            patch, lines = waiting.pop(current), self.relaxations.get(current)
            if lines is not None and not mirrored and not lines.is_linear(patch):
                # Linear up to here; from here on a row and its negative need different lines.
                waiting = {source: other.mirrored() for source, other in waiting.items()}
                patch, constants, lost, mirrored = patch.mirrored(), constants.repeat(2), lost.repeat(2), True
            lost += patch.size(self.losses[current][dtype])
            if lines is not None:
                patch, added = lines.back(patch)
                constants += added
            self._pass_on(waiting, current, patch)
        return waiting[0], constants, LOSS_FACTOR * (lost + waiting[0].size(self.losses[0][dtype]))

    def _pass_on(self, waiting: dict[int, Patch], index: int, patch: Patch) -> None:
        """Pass the coefficients on a node to its sources."""
        node = self.program.nodes[index]
        if node.conv is not None:
            patch = node.conv.backward(patch)
        for source in node.sources:
            waiting[source] = waiting[source] + patch if source in waiting else patch


def _precisions() -> tuple[torch.dtype, ...]:
    """Return the precisions of the passes, in order; no float32 if torch may compute it with fewer bits."""
    library: Any = torch.backends.mkldnn
    whole = {library.matmul.fp32_precision, library.conv.fp32_precision} <= {"none", "ieee"}
    return (torch.float32, torch.float64) if whole else (torch.float64,)


def bound(program: Program, region: Region, *, refine: bool = True) -> Bounds:
    """Bound every node over the region; without ``refine`` by interval arithmetic alone."""
    # Under autocast, float32 passes would run in bfloat16.
    with torch.autocast("cpu", enabled=False):
        bounds = Bounds(program, region)
        for index in range(1, len(program.nodes)):
            needed = index == program.last or program.nodes[index + 1].is_relu
            bounds.extend(refine=refine and needed)
    return bounds
