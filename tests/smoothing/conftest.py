"""A profile, and the hash that it was measured for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.smoothing.profile import Profile, Rates
from tests.helpers.profiles import point


@pytest.fixture
def profile() -> Profile:
    return Profile(
        hash="toy",
        hash_version="3",
        threshold=0.15,
        lowpass=32,
        sigma=0.8,
        external_threshold=0.12,
        external_lowpass=None,
        external_sigma=0.2,
        unprotected=Rates(0.2, 0, 0, 0.9, 0.01, 1.0),
        grid=(
            point(None, 0.1),
            point(None, 0.2),
            point(None, 0.3, collisions=0.02),
            point(32, 0.4, collisions=0.01),
            point(32, 0.8),
            point(32, 1.6),
            point(32, 3.2, collisions=0.011),
            point(64, 0.4, collisions=0.02),
        ),
        measured={"photos": 7, "date": "2026-01-01"},
    )


@pytest.fixture
def measured(toy_hash: PerceptualHash, profile: Profile) -> PerceptualHash:
    """The hash that the profile was measured for."""
    return replace(toy_hash, version=profile.hash_version)
