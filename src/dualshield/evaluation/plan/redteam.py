"""A red team as a plan: one deployment, attacked in the ways and under the budgets that were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dualshield.attacks.budgets import BUDGETS
from dualshield.attacks.methods import METHODS, get_attack
from dualshield.attacks.result import AttackBudget
from dualshield.errors import InputError
from dualshield.evaluation.plan.interface import ATTACKS, BY_QUERIES, COLLISION, Scale, check_names, check_plan
from dualshield.hardening.harden import Preset
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.variants import VARIANTS, Variant

TRANSFORMS = "transforms"
PART_OF = {method: part for part, method in ATTACKS.items()}


@dataclass(frozen=True)
class RedTeamPlan:
    """What is attacked, and how. Evasions start at the published image, collisions at another image of the run.

    With ``search`` the budgets are a scale on which each image's cost of evasion is found by bisection. With
    ``transforms`` every published image is transformed in all known ways, instead of the methods or beside them.
    """

    deployment: Deployment
    methods: tuple[str, ...] = ("pgd", "eot-pgd")
    budgets: tuple[float, ...] = BUDGETS
    variants: tuple[Variant, ...] = VARIANTS
    search: bool = False
    strength: float = 1.0  # of hardening
    seed: int = 2026
    transforms: bool = False
    limit: int | None = None  # images of each folder, if not all

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
            raise InputError("red team: the cost is that of evasion; run collisions without the search")
        check_plan(self)
        self._check_gradients()

    def _check_gradients(self) -> None:
        """Attacks would refuse it too, but only when the first image is attacked."""
        if all(part in BY_QUERIES for part in self.parts if part in ATTACKS):
            return
        for member in self.deployment.members:
            if not member.is_differentiable:
                name = member.hash.name
                why = f"hash {name} has no gradient"
                if member.hash.rule == "native":
                    why = f"the native rule of {name} compares no bits"
                raise InputError(f"{why}: only black-box attacks (nes) can be used")

    @property
    def name(self) -> str:
        """The command that makes such runs."""
        return "redteam"

    @property
    def deployments(self) -> tuple[Deployment, ...]:
        """The one."""
        return (self.deployment,)

    @property
    def parts(self) -> tuple[str, ...]:
        """What the methods are called in results."""
        return (*(PART_OF[method] for method in self.methods), *((TRANSFORMS,) if self.transforms else ()))

    @property
    def skip(self) -> int:
        """A red team begins with the first image."""
        return 0

    @property
    def device(self) -> str:
        """Where everything is computed."""
        return self.deployment.device

    @property
    def preset(self) -> Preset:
        """Of hardening, as it is deployed."""
        return "perceptual"

    @property
    def attack_limit(self) -> int | None:
        """All images are attacked."""
        return None

    @property
    def transform_limit(self) -> int | None:
        """All images are transformed."""
        return None

    @property
    def collision_pairs(self) -> int:
        """Unrelated pairs that nobody attacks are not counted."""
        return 0

    @property
    def has_metrics(self) -> bool:
        """No LPIPS or FID."""
        return False

    def scale(self, part: str) -> Scale:
        """The same for all methods."""
        return Scale(self.budgets, self.search)

    def keeps(self, index: int) -> bool:
        """No images, only results."""
        return False

    def settings(self) -> dict[str, Any]:
        """Methods by their own names too: they are what is typed."""
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
        raise InputError("red team: give at least one budget")
    if list(budgets) != sorted(set(budgets)):
        raise InputError("red team: give different budgets in ascending order")
