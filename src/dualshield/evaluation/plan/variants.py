"""The variants of a plan: which are usual, and which parts they are measured on."""

from __future__ import annotations

from collections.abc import Sequence

from dualshield.errors import InputError
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.variants import VARIANTS, VIEWS, Variant

TRANSFORMS = "transforms"


def has_views(deployment: Deployment) -> bool:
    """Return whether any hash of a deployment looks at images in several ways."""
    return any(not member.config.views.is_none for member in deployment.members)


def usual_variants(deployments: Sequence[Deployment], parts: Sequence[str]) -> tuple[Variant, ...]:
    """Return the variants of a plan that names none: with ``views`` behind ``original`` if there is some to measure."""
    if TRANSFORMS not in parts or not any(map(has_views, deployments)):
        return VARIANTS
    return (VARIANTS[0], VIEWS, *VARIANTS[1:])


def is_measured(variant: Variant, part: str) -> bool:
    """Return whether a part is measured under a variant; views are there for transformations only."""
    return variant != VIEWS or part == TRANSFORMS


def check_views(variants: Sequence[Variant], deployments: Sequence[Deployment], parts: Sequence[str]) -> None:
    """Raise an error if the variant ``views`` is asked for but would have no results."""
    if VIEWS not in variants:
        return
    if TRANSFORMS not in parts:
        raise InputError("the variant views is measured on transformations only; add transforms, or leave views out")
    if not any(map(has_views, deployments)):
        names = ", ".join(deployment.name for deployment in deployments)
        raise InputError(f"no hash of this run has views ({names}), so the variant views has none; leave it out")
