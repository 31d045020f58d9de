"""A targeted white-box attack: push an unrelated image into a match with the reference.

The same adaptive search as `eot`, turned round. The answer to it is the certificate of the other class: within the
certified radius of a non-match no such attack can succeed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from dualshield.attacks.eot import DRAWS, STEPS, Search
from dualshield.attacks.judge import judged
from dualshield.attacks.objective import join_margin
from dualshield.attacks.result import AttackResult, Budget
from dualshield.attacks.victim import Victim
from dualshield.images.canonical import CanonicalImage
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.statistics import Decision


def attack(
    victim: Victim,
    query: CanonicalImage,
    budget: Budget,
    *,
    steps: int = STEPS,
    draws: int = DRAWS,
    seed: int = 2026,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> AttackResult:
    """Collide with the whole budget."""
    victim.require_differentiable()
    pixels = victim.start(query, matching=False)
    started = time.perf_counter()

    def objective(margins: torch.Tensor, signs: torch.Tensor) -> torch.Tensor:
        return join_margin(margins, signs, victim.hash.max_distance)

    search = Search(victim, pixels, GaussianSource.from_seed(seed), draws, objective)
    best = search.run(budget, steps, progress, sign=-1.0)
    return judged("collision", victim, pixels, best, budget, steps, started, search.warnings, wanted=Decision.MATCH)
