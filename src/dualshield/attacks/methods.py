"""All attacks by name."""

from __future__ import annotations

from typing import Protocol

from dualshield._common.checks import require
from dualshield.attacks import collision, eot, nes, optimal, pgd
from dualshield.attacks.base import Progress, silent
from dualshield.attacks.result import AttackBudget, AttackResult
from dualshield.attacks.victim import Target
from dualshield.errors import InputError
from dualshield.images.canonical import CanonicalImage


class Attack(Protocol):
    """The call signature of all attacks."""

    def __call__(
        self,
        victim: Target,
        query: CanonicalImage,
        budget: AttackBudget,
        *,
        seed: int = 2026,
        progress: Progress = silent,
    ) -> AttackResult: ...


METHODS: dict[str, Attack] = {
    "pgd": pgd.attack,
    "eot-pgd": eot.attack,
    "optimal": optimal.attack,
    "nes": nes.attack,
    "nes-plain": nes.Nes(plain_score=True),
    "collision": collision.attack,
}


def get_attack(name: str) -> Attack:
    """Return an attack by its name."""
    require("method", name, str)
    if name not in METHODS:
        raise InputError(f"unknown attack {name!r}: use one of {', '.join(METHODS)}")
    return METHODS[name]
