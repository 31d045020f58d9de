"""Calibration in one call: from photos to the profile to deploy."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from dualshield._common.checks import NUMBER, PATH, require
from dualshield._common.rounding import up
from dualshield.calibration.false_matches import threshold_for
from dualshield.calibration.looked import EXACT_LOWPASSES, Looked
from dualshield.calibration.measure import Calibration, CalibrationPlan
from dualshield.calibration.presets import LEAST_PHOTOS, find_presets
from dualshield.calibration.views import ViewPlan
from dualshield.errors import ImageError, InputError
from dualshield.hashes import DEFAULT_HASH
from dualshield.images import ImageLike, as_image
from dualshield.images.canonical import CanonicalImage
from dualshield.smoothing.choose import UNCALIBRATED_SIGMA
from dualshield.smoothing.config import MAX_SIGMA, MatcherConfig
from dualshield.smoothing.deploy import HashLike, as_hash
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.member import Member
from dualshield.smoothing.profile import Profile
from dualshield.smoothing.statistics import clopper_pearson_lower

logger = logging.getLogger(__name__)

CONFIDENCE = 0.95
# Too few pairs to show that collisions are below this rate cause a warning.
SHOWN = 0.001


def calibrate(
    photos: Iterable[ImageLike],
    *,
    hash: HashLike = DEFAULT_HASH,
    plan: CalibrationPlan | None = None,
    threshold: float | None = None,
    fpr: float | None = None,
    engine: str = "auto",
    device: str = "cpu",
    batch_size: int | None = None,
    views: bool = True,
    journal: str | os.PathLike[str] | None = None,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    unreadable: Callable[[ImageError], None] | None = None,
) -> Profile:
    """Measure a hash on unrelated photos, and choose the low-pass, sigma and vote threshold to deploy.

    Photos are read one by one: all are hashed, but only ``plan.images`` are kept. The matching threshold of the plain
    hash is its own, or ``threshold``, or the largest that keeps false matches within ``fpr``. Finished grid points are
    saved in the ``journal``, so that an interrupted run can go on. ``unreadable`` is called for each photo that cannot
    be read, which is then skipped; without it such a photo is an error. Warnings are logged if there were too few
    photos or the grid was too small. With ``views`` the presets of views are found too, from 40 photos on.
    """
    require("plan", plan, CalibrationPlan, or_none=True)
    require("threshold", threshold, *NUMBER, or_none=True)
    require("false-match rate", fpr, *NUMBER, or_none=True)
    require("journal", journal, *PATH, or_none=True)
    if not isinstance(photos, Iterable) or isinstance(photos, str | bytes):
        raise InputError(f"photos is of type {type(photos).__name__}; give a list of images")
    if threshold is not None and fpr is not None:
        raise InputError("give either a threshold or a false-match rate, not both")
    plan = plan or CalibrationPlan()
    hash_ = as_hash(hash)
    if threshold is not None:
        hash_ = hash_.with_threshold(threshold)
    kept: list[CanonicalImage] = []
    codes: list[torch.Tensor] = []
    looked = None if hash_.linear is None else Looked(hash_.linear, EXACT_LOWPASSES, plan.variant_images, plan.seed)
    for photo in photos:
        try:
            image = as_image(photo)
        except ImageError as error:
            if unreadable is None:
                raise
            unreadable(error)
            continue
        # Profiles are shared, so only file names are kept, no paths.
        image = replace(image, name=Path(image.name).name)
        if len(kept) < plan.images:
            kept.append(image)
        codes.append(hash_.code(image.pixels))
        if looked is not None:
            looked.add(image.pixels)
    if fpr is not None and codes:
        hash_ = hash_.with_threshold(threshold_for(fpr, torch.stack(codes)))
    member = Member(hash_, MatcherConfig(sigma=UNCALIBRATED_SIGMA))
    run = Calibration(
        Deployment((member,), engine, device, batch_size),
        kept,
        plan,
        plain_codes=torch.stack(codes) if codes else None,
    )
    profile = run.run(None if journal is None else Path(journal), progress)
    if looked is not None:
        try:
            profile = replace(profile, exact=looked.calibrate(hash_.threshold, plan.radius_images, progress))
        except InputError as error:
            logger.warning("%s; it stays without an exact matcher", error)
    elif views and hash_.rule == "hamming" and len(kept) >= LEAST_PHOTOS:
        seen = ViewPlan(references=plan.images, edit_images=min(24, plan.variant_images), seed=plan.seed)
        profile = replace(profile, presets=find_presets(run.deployment, profile, kept, seen, progress))
    facts: dict[str, Any] = {"date": datetime.now(UTC).date().isoformat(), "fpr": fpr, "pairs": run.pairs}
    facts["collisions_at_most"] = collisions_at_most(profile.false_matches, run.pairs)
    profile = replace(profile, measured={**profile.measured, **facts})
    for caution in cautions(profile):
        logger.warning(caution)
    return profile


def collisions_at_most(rate: float, pairs: int) -> float:
    """Return the upper 95 % limit (Clopper-Pearson) of a rate measured on ``pairs``, as if they were independent."""
    # Rates are 32-bit fractions, hence the tolerance; a pair that collided in one order only counts as a whole pair.
    collided = min(pairs, math.ceil(rate * pairs - 1e-3))
    return 1 - clopper_pearson_lower(pairs - collided, pairs, 1 - CONFIDENCE)


def cautions(profile: Profile) -> list[str]:
    """Return warnings about a new profile: too few pairs, or a grid that ended too early."""
    found = []
    pairs, limit = profile.measured["pairs"], profile.measured["collisions_at_most"]
    if collisions_at_most(0, pairs) > SHOWN:
        enough = math.ceil(math.log(1 - CONFIDENCE) / math.log1p(-SHOWN))
        found.append(
            f"collisions were measured on {pairs:,} pairs, which only shows that they are below "
            f"{up(100 * limit, 2)} %; give more photos ({enough:,} pairs can show {100 * SHOWN:g} %)"
        )
    row = sorted(point.sigma for point in profile.grid if point.lowpass == profile.lowpass)
    larger = [factor * profile.sigma for factor in (1.5, 2) if factor * profile.sigma <= MAX_SIGMA]
    if profile.sigma == row[-1] and larger:
        grid = ",".join(f"{sigma:g}" for sigma in (*row, *larger))
        found.append(
            f"the best sigma {profile.sigma:g} is the largest of the grid; "
            f"try a larger grid, {profile.lowpass or 'none'}:{grid}"
        )
    return found
