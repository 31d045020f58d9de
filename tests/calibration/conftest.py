"""A calibration that takes no time."""

from __future__ import annotations

import pytest

from dualshield.calibration.measure import Calibration
from dualshield.hashes import PerceptualHash
from dualshield.images import CanonicalImage
from tests.helpers.calibrations import PLAN, of


@pytest.fixture
def calibration(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> Calibration:
    return Calibration(of(toy_hash), photos, PLAN)
