"""The plan of a red team: attacks on one deployment by chosen methods and budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dualshield.attacks.budgets import BUDGETS
from dualshield.attacks.methods import METHODS, get_attack
from dualshield.attacks.result import AttackBudget
from dualshield.errors import InputError
from dualshield.evaluation.plan.interface import (
    ATTACKS,
    BY_QUERIES,
    COLLISION,
    OPTIMAL,
    RED_TEAM,
    Scale,
    check_names,
    check_plan,
)
from dualshield.evaluation.plan.variants import TRANSFORMS
from dualshield.hardening.harden import Preset
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.variants import SMOOTHED, VARIANTS, Variant

PART_OF = {method: part for part, method in ATTACKS.items()}


@dataclass(frozen=True)
class RedTeamPlan:
    """Attacks on one deployment. Evasions start from the published image, collisions from another image of the run.

    With ``search`` each image's cost of evasion is found by bisection over the budgets. With ``transforms`` all known
    transformations are applied to every published image, in addition to the methods or without any.
    """

    deployment: Deployment
    methods: tuple[str, ...] = ("pgd", "eot-pgd")
    budgets: tuple[float, ...] = BUDGETS
    variants: tuple[Variant, ...] = VARIANTS
    search: bool = False
    strength: float = 1.0  # strength of hardening
    seed: int = 2026
    transforms: bool = False
    limit: int | None = None  # images per folder; None for all

    def __post_init__(self) -> None:
        if not isinstance(self.deployment, Deployment):
            raise InputError(
                f"red team: give a deployment, as from deploy('pdq'), not {type(self.deployment).__name__}"
            )
        for method in self.methods:
            get_attack(method)
        if self.methods or not self.transforms:
            check_names("method", self.methods, list(METHODS))
            _check_budgets(self.budgets)
        if COLLISION in self.parts and self.search:
            raise InputError("red team: the search finds the cost of evasion; run collisions without the search")
        if OPTIMAL in self.parts:
            self._check_exact()
        check_plan(self)
        self._check_gradients()

    def _check_exact(self) -> None:
        """Raise an error early if there is no exact matcher for the attack optimal."""
        (first, *others) = self.deployment.members
        if others or first.config.method != "exact" or not set(self.variants) & set(SMOOTHED):
            raise InputError(
                "red team: the attack optimal needs one exact matcher, such as pdq with smoothing; use eot-pgd"
            )

    def _check_gradients(self) -> None:
        """Raise an error early if a hash lacks the gradients that an attack needs."""
        if all(part in BY_QUERIES for part in self.parts if part in ATTACKS):
            return
        for member in self.deployment.members:
            if not member.is_differentiable:
                name = member.hash.name
                why = f"hash {name} has no gradient"
                if member.hash.rule == "native":
                    why = f"the native rule of {name} compares no bits"
                raise InputError(f"{why}; use only black-box attacks (nes)")

    @property
    def name(self) -> str:
        """The command that makes this kind of run."""
        return RED_TEAM

    @property
    def deployments(self) -> tuple[Deployment, ...]:
        """The single deployment of the plan."""
        return (self.deployment,)

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the methods in results."""
        return (*(PART_OF[method] for method in self.methods), *((TRANSFORMS,) if self.transforms else ()))

    @property
    def skip(self) -> int:
        """Number of images to skip: none."""
        return 0

    @property
    def device(self) -> str:
        """The device of all computations."""
        return self.deployment.device

    @property
    def preset(self) -> Preset:
        """Preset of hardening, as deployed."""
        return "perceptual"

    @property
    def attack_limit(self) -> int | None:
        """Number of images per dataset to attack: all."""
        return None

    @property
    def transform_limit(self) -> int | None:
        """Number of images per dataset to transform: all."""
        return None

    @property
    def collision_pairs(self) -> int:
        """Number of unrelated pairs without an attack: none."""
        return 0

    @property
    def has_metrics(self) -> bool:
        """Whether to measure LPIPS and FID: no."""
        return False

    def scale(self, part: str) -> Scale:
        """Return the budgets, which are the same for all methods."""
        return Scale(self.budgets, self.search)

    def keeps(self, index: int) -> bool:
        """Return whether to keep images: no, only results."""
        return False

    def settings(self) -> dict[str, Any]:
        """Return the settings of the attacks; the methods have the names that users type."""
        return {
            "methods": self.methods,
            "budgets": self.budgets,
            "search": self.search,
            "strength": self.strength,
        }


def _check_budgets(budgets: Sequence[float]) -> None:
    for budget in budgets:
        AttackBudget(budget)
    if not budgets:
        raise InputError("red team: no budget given; give at least one")
    if list(budgets) != sorted(set(budgets)):
        raise InputError("red team: the budgets are not in ascending order; sort them, without repetitions")
