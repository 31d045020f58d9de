"""What a run is asked to do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from dualshield.engines.choose import check_device
from dualshield.errors import InputError
from dualshield.evaluation.plan.protocol import PROTOCOLS, Protocol
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.variants import VARIANTS, Variant

MAX_SEED = 2**63 - 1

Part = Literal["certified", "whitebox", "adaptive", "blackbox", "transforms", "collisions", "quality"]
PARTS: tuple[Part, ...] = get_args(Part)


@dataclass(frozen=True)
class Plan:
    """All that results depend on beside the data and the software."""

    deployments: tuple[Deployment, ...]
    variants: tuple[Variant, ...] = VARIANTS
    parts: tuple[str, ...] = PARTS
    protocol: Protocol = PROTOCOLS["default"]
    limit: int = PROTOCOLS["default"].images  # images of each dataset
    seed: int = 2026
    keep_images: bool = False
    attack_limit: int | None = None  # images of each dataset that are attacked, if not all
    skip: int = 0  # images of each dataset that are left to another run

    def __post_init__(self) -> None:
        for what, given, known in (("variant", self.variants, get_args(Variant)), ("part", self.parts, PARTS)):
            if not given:
                raise InputError(f"no {what} given: use some of {', '.join(known)}")
            for name in given:
                if name not in known:
                    raise InputError(f"unknown {what} {name!r}: use some of {', '.join(known)}")
                if given.count(name) > 1:
                    raise InputError(f"{what} {name} is given twice")
        if not self.deployments:
            raise InputError("no hash given")
        for deployment in self.deployments:
            if not isinstance(deployment, Deployment):
                raise InputError(f"a Plan takes deployments, as from deploy('pdq'), not {type(deployment).__name__}")
        labels = [label(deployment) for deployment in self.deployments]
        for name in labels:
            if labels.count(name) > 1:
                raise InputError(f"two hashes are called {name!r}; results could not be told apart")
        if self.attack_limit is not None and self.attack_limit < 1:
            raise InputError(
                f"attack limit {self.attack_limit} is below 1; to attack nothing, leave attacks out of the parts"
            )
        if len({deployment.device for deployment in self.deployments}) > 1:
            raise InputError("all hashes of a run have to be on one device")
        check_device(self.device)
        if not 0 <= self.seed <= MAX_SEED:
            raise InputError(f"seed {self.seed} is not between 0 and {MAX_SEED}")

    @property
    def device(self) -> str:
        """Where everything is computed."""
        return self.deployments[0].device

    def budgets(self, part: str) -> tuple[float, ...]:
        """Of an attack; the adaptive one finds each image's cost on its scale."""
        return self.protocol.cost_budgets if part == "adaptive" else self.protocol.budgets


def label(deployment: Deployment) -> str:
    """What a deployment is called in results: its hashes, fit for a file name."""
    return re.sub(r"[^\w.+-]", "_", deployment.name).lstrip(".") or "_"
