"""The base class of attacks: settings with defaults, which a call may override."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dualshield.attacks.result import AttackBudget, AttackResult
from dualshield.attacks.victim import Target
from dualshield.images.canonical import CanonicalImage

Progress = Callable[[int, int], None]


def silent(done: int, total: int) -> None:
    """Report no progress."""


@dataclass(frozen=True, kw_only=True)
class BaseAttack(ABC):
    """An attack with its settings; subclasses add more settings."""

    seed: int = 2026
    progress: Progress = silent

    def __call__(self, victim: Target, query: CanonicalImage, budget: AttackBudget, **settings: Any) -> AttackResult:
        """Run the attack; ``settings`` override its own."""
        return replace(self, **settings).run(victim, query, budget)

    @abstractmethod
    def run(self, victim: Target, query: CanonicalImage, budget: AttackBudget) -> AttackResult:
        """Attack one pair of reference (in ``victim``) and query."""
