"""Attackers without mathematics: the paper's transformations, and ours beyond them, against every variant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from dualshield._common.journal import Journal
from dualshield.attacks.budgets import DECISIONS, is_number
from dualshield.attacks.defence import Defence
from dualshield.attacks.redteam import readable
from dualshield.errors import ImageError, NothingToAttackError
from dualshield.images import CanonicalImage, load_image
from dualshield.images.eight_bit import to_8bit
from dualshield.images.quality import ssim
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.statistics import Decision
from dualshield.smoothing.variants import Variant
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


@dataclass(frozen=True)
class _Outcome:
    """One published image, under each transformation; nothing where it did not match before."""

    decisions: list[str]
    ssim: list[float]


def run(
    deployment: Deployment,
    files: Sequence[Path],
    variants: Sequence[Variant],
    *,
    transforms: Sequence[Transform] = ALL_TRANSFORMS,
    strength: float = 1.0,
    seed: int = 2026,
    journal: Path | None = None,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    unreadable: Callable[[ImageError], None] | None = None,
) -> list[TransformRate]:
    """Transform every published image, save it in 8 bits, and ask the deployed matcher.

    What the journal holds already is not repeated. ``unreadable`` is told of files that cannot be read, which are then
    passed over; without it they are an error.
    """
    progress("reading the images", 0, len(files))
    named = readable(files, unreadable)
    settings = {
        "hash": deployment.name,
        "deployment": deployment.digest,
        "variants": list(variants),
        "transforms": [transform.name for transform in transforms],
        "strength": strength,
        "seed": seed,
        "files": list(named),
    }
    record = Journal(journal, settings) if journal else None
    found = _finished(record, len(transforms)) if record else {}
    rates = []
    total, done = len(variants) * len(named), 0
    for variant in variants:
        defence: Defence | None = None
        for name, file in named.items():
            progress(f"{variant}, {file.name}", done, total)
            done += 1
            if (variant, name) in found:
                continue
            defence = defence or Defence(deployment, variant, strength=strength)
            # Noise of its own: a resumed run gives what an uninterrupted one would have given.
            noise = GaussianSource.for_work(seed, variant, file.parent.name, file.name)
            outcome = found[variant, name] = _try(defence, load_image(file), transforms, seed, noise)
            if record:
                record.append({"key": [variant, name], "result": asdict(outcome)})
        rates += _rates(variant, transforms, [found[variant, name] for name in named])
    progress("finished", total, total)
    return rates


def _try(
    defence: Defence, image: CanonicalImage, transforms: Sequence[Transform], seed: int, noise: GaussianSource
) -> _Outcome:
    published = defence.publish(image, noise.fork("publish"))
    victim = defence.victim(published, noise)
    outcome = _Outcome([], [])
    try:
        pixels = victim.start(published)
    except NothingToAttackError:
        return outcome
    for transform in transforms:
        changed = to_8bit(transform(pixels, seed=seed))
        outcome.decisions.append(victim.decide(changed).value)
        outcome.ssim.append(ssim(pixels.cpu(), changed.cpu()))
    return outcome


def _finished(record: Journal, transforms: int) -> dict[tuple[str, str], _Outcome]:
    """By variant and file; a record that is not whole counts as not done."""
    found = {}
    for entry in record.records():
        match entry:
            case {"key": [str(variant), str(name)], "result": {"decisions": [*decisions], "ssim": [*similarities]}}:
                whole = len(decisions) == len(similarities) and len(decisions) in (0, transforms)
                if whole and all(d in DECISIONS for d in decisions) and all(map(is_number, similarities)):
                    found[variant, name] = _Outcome(decisions, similarities)
    return found


def _rates(variant: str, transforms: Sequence[Transform], outcomes: list[_Outcome]) -> list[TransformRate]:
    matched = [outcome for outcome in outcomes if outcome.decisions]
    rates = []
    for index, transform in enumerate(transforms):
        decisions = [outcome.decisions[index] for outcome in matched]
        rates.append(
            TransformRate(
                variant,
                transform.name,
                transform in PAPER_TRANSFORMS,
                len(matched),
                len(outcomes) - len(matched),
                success=_share([decision != Decision.MATCH.value for decision in decisions]),
                abstained=_share([decision == Decision.ABSTAIN.value for decision in decisions]),
                ssim=float(np.mean([outcome.ssim[index] for outcome in matched])) if matched else 0.0,
            )
        )
    return rates


def _share(outcomes: list[bool]) -> float:
    return float(np.mean(outcomes)) if outcomes else 0.0
