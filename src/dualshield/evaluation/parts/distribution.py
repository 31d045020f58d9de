"""FID of the set of hardened images against the originals, and of white-box attacked against published images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from dualshield.evaluation.metrics import fid
from dualshield.evaluation.parts.attacked import FEATURES_OF, features_place
from dualshield.evaluation.parts.under_test import DeploymentUnderTest
from dualshield.evaluation.plan.datasets import ALL, Picture, Pool
from dualshield.evaluation.plan.interface import budget_name
from dualshield.evaluation.run.records import Key
from dualshield.images.eight_bit import to_8bit
from dualshield.smoothing.variants import HARDENED, Variant

PART = "fid"
HARDENED_SET = "hardened"
# Fewest images for which a covariance exists.
FEWEST = 2


def keys(lab: DeploymentUnderTest, variant: Variant, pool: Pool) -> list[Key]:
    """Return the keys of all records: each dataset and all together, hardened and at every budget."""
    attacked = FEATURES_OF in lab.plan.parts and lab.is_differentiable
    budgets = lab.plan.scale(FEATURES_OF).budgets if attacked else ()
    sets = [HARDENED_SET] * (variant in HARDENED) + [budget_name(budget) for budget in budgets]
    return [Key(PART, lab.label, variant, dataset, "", name) for name in sets for dataset in (*pool.datasets, ALL)]


def work(
    lab: DeploymentUnderTest, variant: Variant, pool: Pool, missing: Sequence[Key]
) -> Iterator[tuple[Key, dict[str, Any]]]:
    """Yield one record per set; the two compared sets are made from the same images."""
    for key in missing:
        pictures = pool.of(key.dataset)
        if lab.extras.inception is None:
            yield key, {"fid": None, "images": len(pictures)}
            continue
        before, after = [], []
        for picture in pictures:
            left, right = _pair(lab, variant, picture, key.detail)
            if left is not None and right is not None:
                before.append(left)
                after.append(right)
        enough = len(before) >= FEWEST
        found = fid.distance(torch.stack(before), torch.stack(after)) if enough else None
        yield key, {"fid": found, "images": len(before)}


def _pair(
    lab: DeploymentUnderTest, variant: Variant, picture: Picture, name: str
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    if name == HARDENED_SET:
        return _original(lab, picture), _published(lab, variant, picture)
    result = lab.folder.known.get(Key(FEATURES_OF, lab.label, variant, picture.dataset, picture.name, name), {})
    if "budget" not in result:  # the pair did not match before the attack
        return None, None
    attacked = lab.folder.read_features(features_place(lab, variant, picture, result["budget"]))
    return _published(lab, variant, picture), attacked


def _original(lab: DeploymentUnderTest, picture: Picture) -> torch.Tensor | None:
    return _features(lab, ("original", picture.dataset, picture.name), lambda: to_8bit(picture.load().pixels))


def _published(lab: DeploymentUnderTest, variant: Variant, picture: Picture) -> torch.Tensor | None:
    if variant not in HARDENED:
        return _original(lab, picture)
    place = ("published", lab.label, variant, picture.dataset, picture.name)
    return _features(lab, place, lambda: lab.subject(variant, picture).published.pixels)


def _features(lab: DeploymentUnderTest, place: tuple[str, ...], pixels: Any) -> torch.Tensor | None:
    found = lab.folder.read_features(place)
    if found is None:
        found = lab.extras.features(pixels())
        if found is not None:
            lab.folder.save_features(place, found)
    return found
