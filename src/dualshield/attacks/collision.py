"""A targeted white-box attack: push an unrelated image into a match with the reference.

The search is that of `eot` in the opposite direction. The defence against it is the certificate of a non-match: within
its radius no such attack can move the majority of votes. With several hashes one match is enough, so they are tried one
after the other, each with the whole budget. Of the trials of a hash with views, the
nearest at each sigma is tried.
"""

from __future__ import annotations

import math
import time

import torch

from dualshield.attacks.eot import CHECK_DRAWS, Adaptive, Search
from dualshield.attacks.judge import judged
from dualshield.attacks.nearest import look
from dualshield.attacks.result import AttackBudget, AttackResult
from dualshield.attacks.victim import Target, Victim
from dualshield.images.canonical import CanonicalImage
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.statistics import Decision


class Collision(Adaptive):
    """Collides within the budget, with the first hash where that succeeds."""

    def run(self, victim: Target, query: CanonicalImage, budget: AttackBudget) -> AttackResult:
        victim.require_differentiable()
        pixels = victim.start(query, matching=False)
        started = time.perf_counter()
        source = GaussianSource.from_seed(self.seed)
        nearest, best, taken = math.inf, torch.zeros_like(pixels), 0
        warnings: tuple[str, ...] = ()
        for trial in (trial for member in victim.members for trial in _nearest(member, pixels, source)):
            search = Search(trial, pixels, source, self.draws, towards=-1.0)
            found = search.run(budget, self.steps, self.progress)
            taken += self.steps
            if (distance := search.reached / trial.boundary) < nearest:
                nearest, best, warnings = distance, found, search.warnings
            if nearest < 1:
                break
        return judged("collision", victim, pixels, best, budget, taken, started, warnings, wanted=Decision.MATCH)


attack = Collision()


def _nearest(member: Victim, pixels: torch.Tensor, source: GaussianSource) -> list[Victim]:
    """Return the nearest trial at each sigma, the nearest first."""
    trials = member.trials
    if len(trials) == 1:
        return list(trials)
    distances = look(trials, pixels, CHECK_DRAWS, source).distances
    chosen: dict[float, Victim] = {}
    for i in sorted(range(len(trials)), key=distances.__getitem__):
        chosen.setdefault(trials[i].sigma, trials[i])
    return list(chosen.values())
