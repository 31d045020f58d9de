"""A targeted white-box attack: push an unrelated image into a match with the reference.

The same adaptive search as `eot`, turned round. The answer to it is the certificate of the other class: within the
certified radius of a non-match no such attack can succeed. Where several hashes are asked, one that matches is enough:
they are tried one after the other, each with the whole budget.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch

from dualshield.attacks.eot import DRAWS, STEPS, Search
from dualshield.attacks.judge import judged
from dualshield.attacks.objective import join_margin
from dualshield.attacks.result import AttackBudget, AttackResult
from dualshield.attacks.victim import Target, Victim
from dualshield.images.canonical import CanonicalImage
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.statistics import Decision


def attack(
    victim: Target,
    query: CanonicalImage,
    budget: AttackBudget,
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
    source = GaussianSource.from_seed(seed)
    nearest, best, taken = math.inf, torch.zeros_like(pixels), 0
    warnings: tuple[str, ...] = ()
    for member in victim.members:
        search = Search(member, pixels, source, draws, _joining)
        found = search.run(budget, steps, progress, sign=-1.0)
        taken += steps
        if (distance := search.reached / member.boundary) < nearest:
            nearest, best, warnings = distance, found, search.warnings
        if nearest < 1:
            break
    return judged("collision", victim, pixels, best, budget, taken, started, warnings, wanted=Decision.MATCH)


def _joining(member: Victim, margins: torch.Tensor, signs: torch.Tensor) -> torch.Tensor:
    return join_margin(margins, signs, member.hash.max_distance)
