"""Run one attack on one image with a single call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dualshield.attacks.defence import Defence
from dualshield.attacks.methods import get_attack
from dualshield.attacks.result import AttackBudget, AttackResult
from dualshield.errors import InputError
from dualshield.hashes import DEFAULT_HASH
from dualshield.images import ImageLike, as_image
from dualshield.smoothing.deploy import HashLike, as_deployment
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.variants import Variant


def attack(
    reference: ImageLike,
    query: ImageLike | None = None,
    *,
    hash: HashLike | Sequence[HashLike] | Deployment = DEFAULT_HASH,
    method: str = "eot-pgd",
    budget: float | AttackBudget = 40.0,
    against: Variant = "original",
    strength: float = 1.0,
    seed: int = 2026,
    progress: Callable[[int, int], None] = lambda done, total: None,
    **parameters: Any,
) -> AttackResult:
    """Attack the match of ``query`` (by default the published reference itself) with ``reference``.

    Takes the parameters of `deploy`. With ``against="both"`` the reference is hardened first; without a query the
    attacker starts from the hardened image, because only that image is public. For a collision the query is an
    unrelated image. ``seed`` is the attacker's; the defender's noise is fresh and secret.
    """
    chosen = get_attack(method)
    if method == "collision" and query is None:
        raise InputError("a collision needs an unrelated query; give an image as query")
    limit = budget if isinstance(budget, AttackBudget) else AttackBudget(budget)
    image, start = as_image(reference), None if query is None else as_image(query)
    deployment = as_deployment(hash, parameters)
    defence = Defence(deployment, against, strength=strength)
    published = defence.publish(image)
    return chosen(defence.victim(published), start or published, limit, seed=seed, progress=progress)
