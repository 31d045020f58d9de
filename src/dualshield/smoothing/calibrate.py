"""Calibration in one call: from photos to the profile to deploy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import torch

from dualshield.checks import NUMBER, PATH, require
from dualshield.errors import ImageError, InputError
from dualshield.hashes import DEFAULT_HASH
from dualshield.images import ImageLike, as_image
from dualshield.images.canonical import CanonicalImage
from dualshield.smoothing.calibration import Calibration, CalibrationPlan
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deploy import UNCALIBRATED_SIGMA, HashLike, as_hash
from dualshield.smoothing.deployment import Deployment, Member
from dualshield.smoothing.false_matches import threshold_for
from dualshield.smoothing.profile import Profile


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
    journal: str | os.PathLike[str] | None = None,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    unreadable: Callable[[ImageError], None] | None = None,
) -> Profile:
    """Measure a hash on unrelated photos, and choose the low-pass, sigma and vote threshold to deploy.

    Photos are read one by one: all of them are hashed, but only those of the plan are kept. The matching threshold of
    the plain hash is its own, or ``threshold``, or the largest that keeps false matches within ``fpr``. Points that
    are finished are kept in the ``journal`` until the profile is written. ``unreadable`` is told of photos that cannot
    be read, which are then passed over; without it they are an error.
    """
    require("plan", plan, CalibrationPlan, or_none=True)
    require("threshold", threshold, *NUMBER, or_none=True)
    require("false-match rate", fpr, *NUMBER, or_none=True)
    require("journal", journal, *PATH, or_none=True)
    if not isinstance(photos, Iterable) or isinstance(photos, str | bytes):
        raise InputError(f"photos is of type {type(photos).__name__}; give several images")
    if threshold is not None and fpr is not None:
        raise InputError("give either a threshold or a false-match rate, not both")
    plan = plan or CalibrationPlan()
    hash_ = as_hash(hash)
    if threshold is not None:
        hash_ = hash_.with_threshold(threshold)
    kept: list[CanonicalImage] = []
    codes: list[torch.Tensor] = []
    for photo in photos:
        try:
            image = as_image(photo)
        except ImageError as error:
            if unreadable is None:
                raise
            unreadable(error)
            continue
        # Names, not paths: a profile is meant to be shared.
        image = replace(image, name=Path(image.name).name)
        if len(kept) < plan.images:
            kept.append(image)
        codes.append(hash_.code(image.pixels))
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
    when = {"date": datetime.now(UTC).date().isoformat(), "fpr": fpr}
    return replace(profile, measured={**profile.measured, **when})
