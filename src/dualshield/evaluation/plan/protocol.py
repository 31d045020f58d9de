"""The protocols as data: what is measured on how many images, with which matcher.

``default`` measures a hash as it is deployed, by its profile; ``paper`` has every parameter of the paper (Detailed
Experimental Protocol); ``paper-limit`` too, but for linear hashes it takes the paper's noise from its normal law
(`smoothing.clipped`), which makes hundreds of images possible. In all of them the positive pairs are the published
image with itself (``identity``) and with one of its mildest transformations (``benign``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from dualshield.attacks.budgets import BUDGETS, COST_BUDGETS
from dualshield.errors import InputError
from dualshield.hardening.harden import Preset
from dualshield.smoothing.deploy import HashLike, Parameters, ProfileLike, deploy
from dualshield.smoothing.deployment import Deployment

ProtocolName = Literal["default", "paper", "paper-limit"]


@dataclass(frozen=True)
class Protocol:
    """How much of everything."""

    name: ProtocolName
    images: int = 100  # of each dataset, unless the plan says otherwise
    transform_images: int = 50  # of each dataset
    collision_pairs: int = 2000  # of all images together
    budgets: tuple[float, ...] = BUDGETS
    cost_budgets: tuple[float, ...] = COST_BUDGETS
    gallery: int = 3  # images of each dataset that are kept to be looked at
    positive_pairs: tuple[str, ...] = ("identity", "benign")

    def deploy(self, hash: HashLike, device: str = "cpu", profile: ProfileLike | None = None) -> Deployment:
        """A hash, or several that decide together, with the parameters of this protocol."""
        if profile is not None and self.name != "default":
            raise InputError(f"the protocol {self.name} has the paper's parameters: it takes no profile")
        parameters: Parameters = "profile" if self.name == "default" else self.name
        return deploy(hash, parameters=parameters, device=device, profile=profile)

    @property
    def preset(self) -> Preset:
        """Of hardening."""
        return "perceptual" if self.name == "default" else self.name


PROTOCOLS: dict[ProtocolName, Protocol] = {name: Protocol(name) for name in get_args(ProtocolName)}
