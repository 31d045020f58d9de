"""Hardening for an exact matcher: the proven radius grows within the visibility budget."""

from __future__ import annotations

import pytest

from dualshield.errors import TooLittleStructureError
from dualshield.hardening.harden import Hardener
from dualshield.images import CanonicalImage
from dualshield.images.synthetic import blank_images
from dualshield.smoothing.deploy import deploy


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


def test_a_flat_image_cannot_be_protected() -> None:
    with pytest.raises(TooLittleStructureError, match="too little structure"):
        Hardener(deploy("pdq")).harden(blank_images()[0])
