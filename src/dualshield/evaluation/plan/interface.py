"""What every run is asked, whatever it measures; `plan` and `redteam` are two such plans.

A plan says what is wanted, and `run` carries it out: neither needs to know which command it came from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, get_args

from dualshield.engines.choose import check_device
from dualshield.errors import InputError
from dualshield.hardening.harden import Preset
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.variants import Variant

MAX_SEED = 2**63 - 1
# What an attack is called in results, and the method that carries it out.
ATTACKS = {
    "whitebox": "pgd",
    "adaptive": "eot-pgd",
    "blackbox": "nes",
    "nes-plain": "nes-plain",
    "collision": "collision",
}
BY_QUERIES = ("blackbox", "nes-plain")  # those that need no gradients
COLLISION = "collision"  # begins at another image


@dataclass(frozen=True)
class Scale:
    """The budgets of an attack, ascending; a ``search`` finds the least of them that succeeds, by bisection."""

    budgets: tuple[float, ...]
    search: bool = False


class RunPlan(Protocol):
    """All that results depend on beside the data and the software."""

    @property
    def name(self) -> str:
        """The kind of plan, as its configuration says."""

    @property
    def deployments(self) -> tuple[Deployment, ...]:
        """What is measured, one by one."""

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Which shields are up."""

    @property
    def parts(self) -> tuple[str, ...]:
        """What is measured on each image."""

    @property
    def seed(self) -> int:
        """Of all noise."""

    @property
    def limit(self) -> int | None:
        """Images of each dataset; None is all."""

    @property
    def skip(self) -> int:
        """Images of each dataset that are left to another run."""

    @property
    def device(self) -> str:
        """Where everything is computed."""

    @property
    def preset(self) -> Preset:
        """Of hardening."""

    @property
    def strength(self) -> float:
        """Of hardening."""

    @property
    def attack_limit(self) -> int | None:
        """Images of each dataset that are attacked; None is all."""

    @property
    def transform_limit(self) -> int | None:
        """Images of each dataset that are transformed; None is all."""

    @property
    def collision_pairs(self) -> int:
        """Of all images together."""

    @property
    def has_metrics(self) -> bool:
        """Whether LPIPS and FID are measured, where they are installed."""

    def scale(self, part: str) -> Scale:
        """Of an attack."""

    def keeps(self, index: int) -> bool:
        """Whether the images that the run makes of that one of a dataset are kept."""

    def settings(self) -> dict[str, Any]:
        """What only this kind of plan has, for the configuration."""


def label(deployment: Deployment) -> str:
    """What a deployment is called in results: its hashes, fit for a file name."""
    return re.sub(r"[^\w.+-]", "_", deployment.name).lstrip(".") or "_"


def budget_name(budget: float) -> str:
    """What a budget is called in results."""
    return f"{budget:.12g}"


def check_names(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    """At least one, known, none twice."""
    if not given:
        raise InputError(f"no {what} given: use some of {', '.join(known)}")
    for name in given:
        if name not in known:
            raise InputError(f"unknown {what} {name!r}: use some of {', '.join(known)}")
        if given.count(name) > 1:
            raise InputError(f"{what} {name} is given twice")


def check_plan(plan: RunPlan) -> None:
    """What all plans have in common."""
    check_names("variant", plan.variants, get_args(Variant))
    if not plan.deployments:
        raise InputError("no hash given")
    for deployment in plan.deployments:
        if not isinstance(deployment, Deployment):
            raise InputError(f"a plan takes deployments, as from deploy('pdq'), not {type(deployment).__name__}")
    labels = [label(deployment) for deployment in plan.deployments]
    for name in labels:
        if labels.count(name) > 1:
            raise InputError(f"two hashes are called {name!r}; results could not be told apart")
    if len({deployment.device for deployment in plan.deployments}) > 1:
        raise InputError("all hashes of a run have to be on one device")
    check_device(plan.device)
    if not 0 <= plan.seed <= MAX_SEED:
        raise InputError(f"seed {plan.seed} is not between 0 and {MAX_SEED}")
