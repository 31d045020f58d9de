"""Find the presets of views of a hash that decides by votes: search for views, then calibrate their thresholds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from dualshield.calibration.view_search import STANDARD, THOROUGH, near_views, search_views
from dualshield.calibration.views import ViewCalibration, ViewPlan
from dualshield.images.canonical import CanonicalImage
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.preset import Preset
from dualshield.smoothing.profile import Profile

LEAST_PHOTOS = 40
"""With fewer photos neither edits nor false matches can be judged, and there are no presets."""
WISHES = {"standard": STANDARD, "thorough": THOROUGH}


def find_presets(
    deployment: Deployment,
    profile: Profile,
    photos: Sequence[CanonicalImage],
    plan: ViewPlan,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> dict[str, Preset]:
    """Return the presets ``standard`` and ``thorough``; views are searched on the last photos."""
    run = ViewCalibration(deployment, profile, photos, plan, progress)
    near = near_views(run.plain, run.edited, seed=plan.seed, progress=progress)
    found = {}
    for name, wish in WISHES.items():
        preset = run.preset(search_views(near, run.hash.max_distance, wish))
        date = datetime.now(UTC).date().isoformat()
        found[name] = replace(preset, measured={**preset.measured, "date": date})
    return found
