"""Linear relaxations of ReLUs, and intervals."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dualshield.verification.patch import Patch

# Twice the unit roundoff of each precision.
ROUNDING = {torch.float32: 2.0**-23, torch.float64: 2.0**-52}
EXACT = ROUNDING[torch.float64]
# Factor that moves a number rounded to float32 farther from 0 than the exact number.
OUTWARDS = 1 + 4 * ROUNDING[torch.float32]


@dataclass(frozen=True, eq=False)
class Interval:
    """Elementwise lower and upper bounds."""

    low: torch.Tensor
    high: torch.Tensor

    @property
    def magnitude(self) -> torch.Tensor:
        """The largest absolute value."""
        return torch.maximum(self.low.abs(), self.high.abs())


@dataclass(frozen=True, eq=False)
class Relaxation:
    """A lower and an upper line around each ReLU of a layer, in deviations d from the centre.

    With z = c + d the input and ``l <= z <= u``, for ``l < 0 < u``

        alpha z  <=  relu(z)  <=  s z + t,      s = u / (u - l),  t = max(u - s u, -s l),  alpha = 1 if u > -l else 0

    and a stable ReLU is 0 or z. Subtracting relu(c) on all sides gives the lines in d: the same slopes, and at d = 0 a
    floor of at most 0 and a ceiling of at least 0.
    """

    below: torch.Tensor
    above: torch.Tensor
    floor: torch.Tensor
    ceiling: torch.Tensor
    unstable: torch.Tensor

    @staticmethod
    def of(centre: torch.Tensor, deviation: Interval) -> Relaxation:
        """Return the lines that hold for d within ``deviation``."""
        low, high = centre + deviation.low, centre + deviation.high
        # Rounding may hide a change of sign.
        blur = 2 * EXACT * (centre.abs() + deviation.magnitude)
        low, high = low - blur, high + blur
        active, unstable = (low >= 0).double(), (low < 0) & (high > 0)
        width = high - low
        # Slopes are rounded first; t is then computed for the rounded slope, so the line stays valid.
        above = torch.where(unstable, high / width, active).float()
        slope = above.double()
        height = torch.maximum(high - slope * high, -slope * low) + 8 * EXACT * width
        below = torch.where(unstable, (high > -low).double(), active)
        at_centre = centre.clamp_min(0)
        floor = torch.where(unstable, below * centre - at_centre, 0.0).clamp_max(0)
        ceiling = torch.where(unstable, slope * centre + height - at_centre, 0.0).clamp_min(0)
        return Relaxation(below.float(), above, floor.float() * OUTWARDS, ceiling.float() * OUTWARDS, unstable)

    def is_linear(self, patch: Patch) -> bool:
        """Whether every ReLU in the window of the patch is stable."""
        return not bool(patch.window(self.unstable).any())

    def back(self, patch: Patch) -> tuple[Patch, torch.Tensor]:
        """Return rows on the input and constants that together bound the rows on the output from below.

        Positive coefficients use the lower line, negative coefficients the upper line.
        """
        values = (patch.values * patch.window(self.below)).contiguous()
        mixed = patch.window(self.unstable).flatten().nonzero().flatten()
        below, above, floor, ceiling = (
            patch.window(line).flatten()[mixed] for line in (self.below, self.above, self.floor, self.ceiling)
        )
        given = patch.values.flatten(1)[:, mixed]
        negative = given.clamp_max(0)
        positive = given - negative
        values.view(len(values), -1)[:, mixed] = positive * below + negative * above
        constants = positive.double() @ floor.double() + negative.double() @ ceiling.double()
        return patch.with_values(values), constants
