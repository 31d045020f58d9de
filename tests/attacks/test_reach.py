"""A budget that an attack never felt need not be tried."""

from __future__ import annotations

import torch

from dualshield.attacks import pgd
from dualshield.attacks.result import AttackBudget
from dualshield.attacks.victim import Victim
from dualshield.hashes import get_hash
from dualshield.images import CanonicalImage


def test_pgd_is_the_same_under_every_budget_above_its_reach(photos: list[CanonicalImage]) -> None:
    victim = Victim.plain(get_hash("pdq"), photos[1])
    free = pgd.attack(victim, photos[1], AttackBudget(500), steps=40, restarts=2)
    assert free.success
    assert free.reach is not None
    same = pgd.attack(victim, photos[1], AttackBudget(1.001 * free.reach), steps=40, restarts=2)
    assert torch.equal(same.adversarial.pixels, free.adversarial.pixels)
    held = pgd.attack(victim, photos[1], AttackBudget(0.7 * free.reach), steps=40, restarts=2)
    assert held.reach is not None
    assert held.reach > held.budget
    assert not torch.equal(held.adversarial.pixels, free.adversarial.pixels)
