"""Attackers without mathematics: the paper's transformations, and ours beyond them, against every variant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dualshield.attacks.defence import Defence
from dualshield.attacks.space import saved
from dualshield.attacks.victim import Against
from dualshield.errors import NothingToAttackError
from dualshield.images import load_image
from dualshield.images.quality import ssim
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.statistics import Decision
from dualshield.transforms import EXTRA_TRANSFORMS, PAPER_TRANSFORMS, Transform

ALL_TRANSFORMS = (*PAPER_TRANSFORMS, *EXTRA_TRANSFORMS)


@dataclass(frozen=True)
class TransformRate:
    """How often one transformation evades one variant."""

    variant: str
    transform: str
    paper: bool  # one of the paper's, or an extra
    images: int  # that matched before
    unmatched: int
    success: float
    abstained: float  # part of the successes
    ssim: float


def run(
    deployment: Deployment,
    files: Sequence[Path],
    variants: Sequence[Against],
    *,
    transforms: Sequence[Transform] = ALL_TRANSFORMS,
    strength: float = 1.0,
    seed: int = 2026,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> list[TransformRate]:
    """Transform every published image, save it in 8 bits, and ask the deployed matcher."""
    rates = []
    total, done = len(variants) * len(files), 0
    for variant in variants:
        defence = Defence(deployment, variant, strength=strength)
        decisions: dict[Transform, list[Decision]] = {transform: [] for transform in transforms}
        similarities: dict[Transform, list[float]] = {transform: [] for transform in transforms}
        unmatched = 0
        for file in files:
            progress(f"{variant}, {file.name}", done, total)
            done += 1
            noise = GaussianSource.for_work(seed, variant, file.parent.name, file.name)
            published = defence.publish(load_image(file), noise.fork("publish"))
            victim = defence.victim(published, noise)
            try:
                pixels = victim.start(published)
            except NothingToAttackError:
                unmatched += 1
                continue
            for transform in transforms:
                image = saved(transform(pixels, seed=seed))
                decisions[transform].append(victim.decide(image))
                similarities[transform].append(ssim(pixels.cpu(), image.cpu()))
        for transform in transforms:
            found = decisions[transform]
            rates.append(
                TransformRate(
                    variant,
                    transform.name,
                    transform in PAPER_TRANSFORMS,
                    len(found),
                    unmatched,
                    success=_share([decision != Decision.MATCH for decision in found]),
                    abstained=_share([decision == Decision.ABSTAIN for decision in found]),
                    ssim=float(np.mean(similarities[transform])) if found else 0.0,
                )
            )
    progress("finished", total, total)
    return rates


def _share(outcomes: list[bool]) -> float:
    return float(np.mean(outcomes)) if outcomes else 0.0
