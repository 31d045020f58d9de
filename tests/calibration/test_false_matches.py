"""The threshold that gives a rate of false matches."""

from __future__ import annotations

import math

import pytest
import torch

from dualshield.calibration.false_matches import threshold_for
from dualshield.errors import InputError


def prefixes(*ones: int, bits: int = 10) -> torch.Tensor:
    """Codes with their first so many bits set: distances are differences."""
    return torch.stack([torch.arange(bits) < count for count in ones])


@pytest.mark.parametrize(
    ("fpr", "distance"),
    [(1 / 6, 2), (0.3, 2), (1 / 3, 3), (0.49, 3), (0.5, 4), (0.7, 7), (0.9, 8)],
)
def test_the_largest_distance_within_the_rate(fpr: float, distance: int) -> None:
    codes = prefixes(0, 1, 4, 9)  # distances 1 3 4 5 8 9
    # Distances from 5 on are capped: a threshold stays below one half.
    assert threshold_for(fpr, codes) == pytest.approx(min((distance + 0.5) / 10, 0.499))
    assert int(threshold_for(fpr, codes) * 10) == min(distance, 4)


def test_a_rate_finer_than_one_pair_is_refused() -> None:
    with pytest.raises(InputError, match=r"0\.16 cannot be measured on 6 pairs"):
        threshold_for(0.16, prefixes(0, 1, 4, 9))


def test_duplicates_are_pointed_out() -> None:
    with pytest.raises(InputError, match=r"the rate of identical codes is already above fpr 0\.4"):
        threshold_for(0.4, prefixes(0, 0, 0, 9))
    assert threshold_for(0.5, prefixes(0, 0, 0, 9)) == pytest.approx(0.499)


@pytest.mark.parametrize("fpr", [0.0, 1.0, -0.1, math.nan])
def test_rates_that_are_none(fpr: float) -> None:
    with pytest.raises(InputError, match="false-match rate"):
        threshold_for(fpr, prefixes(0, 1, 4, 9))
