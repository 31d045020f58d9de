"""The paper's evaluation as a plan: every part of it, or some."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from dualshield.errors import InputError
from dualshield.evaluation.plan.interface import Scale, check_names, check_plan
from dualshield.evaluation.plan.protocol import PROTOCOLS, Protocol
from dualshield.hardening.harden import Preset
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.variants import VARIANTS, Variant

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
        check_names("part", self.parts, PARTS)
        check_plan(self)
        if self.attack_limit is not None and self.attack_limit < 1:
            raise InputError(
                f"attack limit {self.attack_limit} is below 1; to attack nothing, leave attacks out of the parts"
            )

    @property
    def name(self) -> str:
        """The command that makes such runs."""
        return "evaluate"

    @property
    def device(self) -> str:
        """Where everything is computed."""
        return self.deployments[0].device

    @property
    def preset(self) -> Preset:
        """Of hardening."""
        return self.protocol.preset

    @property
    def strength(self) -> float:
        """Hardening is measured as it is by default."""
        return 1.0

    @property
    def transform_limit(self) -> int | None:
        """Images of each dataset that are transformed."""
        return self.protocol.transform_images

    @property
    def collision_pairs(self) -> int:
        """Of all images together."""
        return self.protocol.collision_pairs

    @property
    def has_metrics(self) -> bool:
        """LPIPS and FID are in the paper's tables."""
        return True

    def scale(self, part: str) -> Scale:
        """Of an attack; the adaptive one finds each image's cost on its scale."""
        return Scale(self.protocol.cost_budgets, search=True) if part == "adaptive" else Scale(self.protocol.budgets)

    def keeps(self, index: int) -> bool:
        """All images, or those of the gallery."""
        return self.keep_images or index < self.protocol.gallery

    def settings(self) -> dict[str, Any]:
        """The protocol, and what is kept."""
        parameters = {name: value for name, value in asdict(self.protocol).items() if name != "name"}
        return {
            "protocol": self.protocol.name,
            "parameters": parameters,
            "attack_limit": self.attack_limit,
            "keep_images": self.keep_images,
        }
