"""Measure evasion by transformations: those of the paper at every level, and everyday edits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dualshield.attacks.budgets import DECISIONS, is_number
from dualshield.errors import NothingToAttackError
from dualshield.evaluation.parts.under_test import DeploymentUnderTest, ImageUnderTest
from dualshield.evaluation.plan.datasets import Picture
from dualshield.evaluation.plan.variants import TRANSFORMS, has_views
from dualshield.images.eight_bit import to_8bit
from dualshield.images.quality import ssim
from dualshield.smoothing.statistics import Decision
from dualshield.smoothing.variants import VIEWS, Variant
from dualshield.transforms import ALL_TRANSFORMS, PAPER_TRANSFORMS, parse

PART = TRANSFORMS


def names() -> tuple[str, ...]:
    """Return the names of all transformations."""
    return tuple(transform.name for transform in ALL_TRANSFORMS)


def details(lab: DeploymentUnderTest, variant: Variant, picture: Picture) -> tuple[str, ...]:
    """Return the names of all transformations; none for images above the limit of the plan, or if there are no views.

    Without views the variant ``views`` would be the plain hash once more.
    """
    most = lab.plan.transform_limit
    wanted = (most is None or picture.index < most) and (variant != VIEWS or has_views(lab.deployment))
    return names() if wanted else ()


def is_whole(result: dict[str, Any]) -> bool:
    """Return whether a record from a file is complete, with or without SSIM, which older runs lack."""
    return result.get("unmatched") is True or (
        result.get("decision") in DECISIONS
        and isinstance(result.get("evaded"), bool)
        and is_number(result.get("ssim", 0.0))
    )


def work(subject: ImageUnderTest, missing: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield one record per transformation of the published image, rounded to 8 bits."""
    try:
        victim = subject.victim.with_noise(subject.noise(PART, "start"))
        pixels = victim.start(subject.published)
    except NothingToAttackError:
        yield from ((detail, {"unmatched": True, **subject.refusal}) for detail in missing)
        return
    victim = victim.for_known_queries()
    for detail in missing:
        transform = parse(detail)
        image = to_8bit(transform(pixels, seed=subject.lab.plan.seed))
        decision = victim.with_noise(subject.noise(PART, detail)).decide(image)
        yield (
            detail,
            {
                "decision": decision.value,
                "evaded": decision != Decision.MATCH,
                "ssim": ssim(pixels.cpu(), image.cpu()),
                "paper": transform in PAPER_TRANSFORMS,
            },
        )
