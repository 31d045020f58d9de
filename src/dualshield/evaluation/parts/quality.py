"""What hardening does to an image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from dualshield.evaluation.parts.under_test import DeploymentUnderTest, ImageUnderTest
from dualshield.evaluation.plan.datasets import Picture
from dualshield.images.quality import compare
from dualshield.smoothing.variants import HARDENED, Variant

PART = "quality"


def details(lab: DeploymentUnderTest, variant: Variant, picture: Picture) -> tuple[str, ...]:
    """One record, where there is hardening."""
    return ("",) if variant in HARDENED else ()


def work(subject: ImageUnderTest, missing: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The published image against the original."""
    published, original = subject.published.pixels, subject.picture.load().pixels
    found = asdict(compare(original, published))
    found["lpips"] = subject.lab.extras.distance(original, published)
    yield "", {**found, "seconds": subject.hardening_seconds, "unchanged": subject.is_unchanged}
