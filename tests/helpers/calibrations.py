"""A plan that takes no time, what it is measured on, and what is chosen from given rates."""

from __future__ import annotations

from typing import Any

from dualshield.calibration.measure import CalibrationPlan
from dualshield.hashes import PerceptualHash
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.profile import GridPoint, Profile, Rates, choose

PLAN = CalibrationPlan(
    grid=((None, (0.1, 0.4)), (4, (0.2,))), images=4, variant_images=2, radius_images=2, draws=40, vote_draws=5
)
UNPROTECTED = Rates(0.2, 0, 0, variants_matched=0.9, collisions=0.01, worst_unrelated=1)
GOOD = Rates(0.2, 1.0, 1.0, variants_matched=0.9, collisions=0.01, worst_unrelated=0.5)


def of(hash_: PerceptualHash, **options: Any) -> Deployment:
    """A deployment to calibrate; its own sigma does not matter."""
    return deploy(hash_, sigma=0.1, **options)


def chosen(hash_: PerceptualHash, *rates: tuple[Rates, Rates]) -> Profile:
    grid = [GridPoint(None, sigma, own, bare) for sigma, (own, bare) in enumerate(rates, 1)]
    return choose(hash_, UNPROTECTED, grid, {"photos": 3})
