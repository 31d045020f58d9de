"""Hardening for an exact matcher: the proven radius grows within the visibility budget."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dualshield.errors import TooLittleStructureError
from dualshield.hardening.harden import Hardener
from dualshield.images import CanonicalImage
from dualshield.images.eight_bit import to_8bit
from dualshield.images.synthetic import blank_images
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.statistics import Decision


@pytest.mark.parametrize(("index", "gain"), [(0, 1.2), (1, 1.8)])
def test_the_proven_radius_of_the_published_file_grows(photos: list[CanonicalImage], index: int, gain: float) -> None:
    """By about as much for each photo; the first has four times the radius of the second to begin with."""
    hardener = Hardener(deploy("pdq"))
    assert hardener.strategy == "exact"
    report = hardener.harden(photos[index]).report
    assert report.radius_after > gain * report.radius_before > 0
    assert report.ssim > 0.97
    assert report.radius_detected == report.radius_after
    (radii,) = report.radii.values()
    assert radii.ceiling is None
    assert radii.distance_before is not None
    assert radii.distance_after is not None
    assert radii.distance_after < radii.distance_before


@pytest.mark.parametrize("name", ["phash", "dhash", "ahash"])
def test_the_rest_of_the_family_gains_too(photos: list[CanonicalImage], name: str) -> None:
    """One with a median, one with zero, one whose rows are tied together by their mean."""
    deployment = deploy(name)
    before = deployment.match(deployment.enroll(photos[1]), photos[1])
    delta, _ = Hardener(deployment).perturb(photos[1])
    hardened = replace(photos[1], pixels=to_8bit(photos[1].pixels + delta))
    after = deployment.match(deployment.enroll(hardened), hardened)
    assert (before.decision, after.decision) == (Decision.MATCH, Decision.MATCH)
    assert after.radius > 1.1 * before.radius > 0


def test_a_flat_image_cannot_be_protected() -> None:
    with pytest.raises(TooLittleStructureError, match="too little structure"):
        Hardener(deploy("pdq")).harden(blank_images()[0])
