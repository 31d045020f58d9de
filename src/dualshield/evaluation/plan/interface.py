"""The interface of all plans; the modules `plan` and `redteam` implement it.

A plan says what to measure, and `run` measures it. Neither depends on the command that made the plan.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, get_args

from dualshield.engines.choose import check_device
from dualshield.errors import InputError
from dualshield.evaluation.plan.variants import check_views
from dualshield.hardening.harden import Preset
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.variants import Variant

MAX_SEED = 2**63 - 1
# The name of each attack in results, and its method.
ATTACKS = {
    "whitebox": "pgd",
    "adaptive": "eot-pgd",
    "optimal": "optimal",
    "blackbox": "nes",
    "nes-plain": "nes-plain",
    "collision": "collision",
}
BY_QUERIES = ("blackbox", "nes-plain")  # attacks that need no gradients
OPTIMAL = "optimal"  # an attack on exact matchers only
RED_TEAM = "redteam"  # the name of a plan whose attacks are named by the user
COLLISION = "collision"  # an attack that starts from another image


@dataclass(frozen=True)
class Scale:
    """The budgets of an attack, ascending; with ``search`` bisection finds the smallest budget that succeeds."""

    budgets: tuple[float, ...]
    search: bool = False


class RunPlan(Protocol):
    """Everything that results depend on, except the data and the software."""

    @property
    def name(self) -> str:
        """The kind of plan, as written to the configuration."""

    @property
    def deployments(self) -> tuple[Deployment, ...]:
        """The deployments to measure, one after another."""

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Which shields are up."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts to measure on each image."""

    @property
    def seed(self) -> int:
        """Seed of all noise."""

    @property
    def limit(self) -> int | None:
        """Number of images per dataset; None for all."""

    @property
    def skip(self) -> int:
        """Number of images to skip at the start of each dataset."""

    @property
    def device(self) -> str:
        """The device of all computations."""

    @property
    def preset(self) -> Preset:
        """Preset of hardening."""

    @property
    def strength(self) -> float:
        """Strength of hardening."""

    @property
    def attack_limit(self) -> int | None:
        """Number of images per dataset to attack; None for all."""

    @property
    def transform_limit(self) -> int | None:
        """Number of images per dataset to transform; None for all."""

    @property
    def collision_pairs(self) -> int:
        """Number of unrelated pairs, over all datasets together."""

    @property
    def has_metrics(self) -> bool:
        """Whether to measure LPIPS and FID, if they are installed."""

    def scale(self, part: str) -> Scale:
        """Return the budgets of an attack."""

    def keeps(self, index: int) -> bool:
        """Return whether to keep the images made from the image at this index of its dataset."""

    def settings(self) -> dict[str, Any]:
        """Return the settings that only this kind of plan has, for the configuration."""


def label(deployment: Deployment) -> str:
    """Return the name of a deployment in results: its hashes, made safe for file names."""
    return re.sub(r"[^\w.+-]", "_", deployment.name).lstrip(".") or "_"


def budget_name(budget: float) -> str:
    """Return the name of a budget in results."""
    return f"{budget:.12g}"


def check_names(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    """Raise an error unless at least one name is given, all are known and none is given twice."""
    if not given:
        raise InputError(f"no {what} given; use one or more of {', '.join(known)}")
    for name in given:
        if name not in known:
            raise InputError(f"unknown {what} {name!r}; use one or more of {', '.join(known)}")
        if given.count(name) > 1:
            raise InputError(f"{what} {name} is given twice; give it once")


def check_plan(plan: RunPlan) -> None:
    """Raise an error if the settings that all plans have are not valid."""
    check_names("variant", plan.variants, get_args(Variant))
    if not plan.deployments:
        raise InputError("no hash given; give at least one")
    for deployment in plan.deployments:
        if not isinstance(deployment, Deployment):
            raise InputError(f"a plan takes deployments, as from deploy('pdq'), not {type(deployment).__name__}")
    check_views(plan.variants, plan.deployments, plan.parts)
    labels = [label(deployment) for deployment in plan.deployments]
    for name in labels:
        if labels.count(name) > 1:
            raise InputError(f"two hashes are named {name!r}, so their results could not be told apart; rename one")
    if len({deployment.device for deployment in plan.deployments}) > 1:
        raise InputError("the hashes of this run are on different devices; use one device")
    check_device(plan.device)
    if not 0 <= plan.seed <= MAX_SEED:
        raise InputError(f"seed {plan.seed} is not between 0 and {MAX_SEED}")
