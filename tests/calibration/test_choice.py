"""Which point of the grid is chosen from what was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dualshield.errors import InputError
from dualshield.hashes import PerceptualHash
from tests.helpers.calibrations import GOOD, UNPROTECTED, chosen


def test_the_highest_radius_wins_for_each_kind_of_reference(toy_hash: PerceptualHash) -> None:
    low, high = replace(GOOD, radius_identity=0.5), replace(GOOD, radius_identity=2.0)
    profile = chosen(toy_hash, (GOOD, high), (high, GOOD), (low, low))
    assert (profile.sigma, profile.external_sigma) == (2, 1)
    assert (profile.hash, profile.hash_version, profile.threshold) == ("toy", "1", 0.2)
    assert (profile.unprotected, profile.measured) == (UNPROTECTED, {"photos": 3})
    assert len(profile.grid) == 3


@pytest.mark.parametrize(
    "flaw",
    [{"collisions": 0.0101}, {"variants_matched": 0.889}],
    ids=["more collisions than unprotected", "variants more than a point below unprotected"],
)
def test_a_higher_radius_does_not_buy_errors(flaw: dict[str, float], toy_hash: PerceptualHash) -> None:
    flawed = replace(GOOD, radius_identity=9.0, **flaw)
    profile = chosen(toy_hash, (GOOD, GOOD), (flawed, flawed))
    assert (profile.sigma, profile.external_sigma) == (1, 1)


def test_a_point_of_variants_is_tolerated(toy_hash: PerceptualHash) -> None:
    nearly = replace(GOOD, radius_identity=9.0, variants_matched=0.8901)
    profile = chosen(toy_hash, (GOOD, GOOD), (nearly, nearly))
    assert (profile.sigma, profile.external_sigma) == (2, 2)


@pytest.mark.parametrize("flaw", [{"collisions": 0.0101}, {"variants_matched": 0.889}])
@pytest.mark.parametrize("bare", [False, True])
def test_nothing_allowed(flaw: dict[str, float], bare: bool, toy_hash: PerceptualHash) -> None:
    flawed = replace(GOOD, **flaw)
    with pytest.raises(InputError, match="toy: every sigma of the grid costs collisions or variants"):
        chosen(toy_hash, (GOOD, flawed) if bare else (flawed, GOOD))


def test_a_profile_deploys_the_threshold_that_was_measured(toy_hash: PerceptualHash) -> None:
    strict, bare = replace(GOOD, threshold=0.1), replace(GOOD, threshold=0.15)
    profile = chosen(toy_hash, (strict, bare))
    assert (profile.threshold, profile.external_threshold) == (0.1, 0.15)
    assert profile.config().threshold == profile.widest_config().threshold == 0.1
    assert profile.external_config().threshold == 0.15
