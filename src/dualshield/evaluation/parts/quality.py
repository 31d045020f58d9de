"""Measure the visible change that hardening makes to an image."""

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
    """Return one empty name if the variant hardens images, else none."""
    return ("",) if variant in HARDENED else ()


def work(subject: ImageUnderTest, missing: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield one record that compares the published image with the original."""
    published, original = subject.published.pixels, subject.picture.load().pixels
    found = asdict(compare(original, published))
    found["lpips"] = subject.lab.extras.distance(original, published)
    yield "", {**found, "seconds": subject.hardening_seconds, "unchanged": subject.is_unchanged}
