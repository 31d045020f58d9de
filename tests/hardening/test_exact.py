"""Hardening for an exact matcher: the proven radius grows within the visibility budget."""

from __future__ import annotations

import pytest

from dualshield.errors import TooLittleStructureError
from dualshield.hardening.harden import Hardener
from dualshield.images import CanonicalImage
from dualshield.images.synthetic import blank_images
from dualshield.smoothing.deploy import deploy


@pytest.mark.parametrize("name", ["pdq"])
def test_the_proven_radius_of_the_published_file_grows(photos: list[CanonicalImage], name: str) -> None:
    hardener = Hardener(deploy(name))
    assert hardener.strategy == "exact"
    report = hardener.harden(photos[0]).report
    assert report.radius_after > 1.3 * report.radius_before
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
