"""The plan of the paper's evaluation, with all or some of its parts."""

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
    """Everything that results depend on, except the data and the software."""

    deployments: tuple[Deployment, ...]
    variants: tuple[Variant, ...] = VARIANTS
    parts: tuple[str, ...] = PARTS
    protocol: Protocol = PROTOCOLS["default"]
    limit: int = PROTOCOLS["default"].images  # images per dataset
    seed: int = 2026
    keep_images: bool = False
    attack_limit: int | None = None  # images per dataset to attack; None for all
    skip: int = 0  # images to skip at the start of each dataset

    def __post_init__(self) -> None:
        check_names("part", self.parts, PARTS)
        check_plan(self)
        if self.attack_limit is not None and self.attack_limit < 1:
            raise InputError(
                f"attack limit {self.attack_limit} is below 1; to attack nothing, leave the attacks out of the parts"
            )

    @property
    def name(self) -> str:
        """The command that makes this kind of run."""
        return "evaluate"

    @property
    def device(self) -> str:
        """The device of all computations."""
        return self.deployments[0].device

    @property
    def preset(self) -> Preset:
        """Preset of hardening."""
        return self.protocol.preset

    @property
    def strength(self) -> float:
        """Strength of hardening, always the default."""
        return 1.0

    @property
    def transform_limit(self) -> int | None:
        """Number of images per dataset to transform."""
        return self.protocol.transform_images

    @property
    def collision_pairs(self) -> int:
        """Number of unrelated pairs, over all datasets together."""
        return self.protocol.collision_pairs

    @property
    def has_metrics(self) -> bool:
        """Whether to measure LPIPS and FID: yes, because the paper's tables have both."""
        return True

    def scale(self, part: str) -> Scale:
        """Return the budgets of an attack; the adaptive attack searches them for the cost of evasion."""
        return Scale(self.protocol.cost_budgets, search=True) if part == "adaptive" else Scale(self.protocol.budgets)

    def keeps(self, index: int) -> bool:
        """Return whether to keep the images made from the image at this index: all, or only the gallery."""
        return self.keep_images or index < self.protocol.gallery

    def settings(self) -> dict[str, Any]:
        """Return the protocol, the attack limit and whether images are kept."""
        parameters = {name: value for name, value in asdict(self.protocol).items() if name != "name"}
        return {
            "protocol": self.protocol.name,
            "parameters": parameters,
            "attack_limit": self.attack_limit,
            "keep_images": self.keep_images,
        }
