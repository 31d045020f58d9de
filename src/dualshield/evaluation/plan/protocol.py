"""The evaluation protocols: the number of images and pairs, the budgets, and the parameters of the matcher.

``default`` measures a hash as it is deployed, with its profile. ``paper`` has every parameter of the paper (Detailed
Experimental Protocol). ``paper-limit`` is like ``paper``, but for linear hashes it draws the paper's noise from its
normal law (`smoothing.clipped`), which is fast enough for hundreds of images. The positive pairs of all protocols are
the published image with itself (``identity``) and with one of its mildest transformations (``benign``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from dualshield.attacks.budgets import BUDGETS, COST_BUDGETS
from dualshield.errors import InputError
from dualshield.hardening.harden import Preset
from dualshield.smoothing.choose import ViewsLike
from dualshield.smoothing.deploy import HashLike, Parameters, ProfileLike, deploy
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.names import Method
from dualshield.smoothing.views import NO_VIEWS

ProtocolName = Literal["default", "paper", "paper-limit"]


@dataclass(frozen=True)
class Protocol:
    """The numbers of images and pairs and the budgets of an evaluation."""

    name: ProtocolName
    images: int = 100  # per dataset, unless the plan has its own limit
    transform_images: int = 50  # per dataset
    collision_pairs: int = 2000  # over all datasets together
    budgets: tuple[float, ...] = BUDGETS
    cost_budgets: tuple[float, ...] = COST_BUDGETS
    gallery: int = 3  # images per dataset to keep for the report's gallery
    positive_pairs: tuple[str, ...] = ("identity", "benign")

    def deploy(
        self,
        hash: HashLike,
        device: str = "cpu",
        profile: ProfileLike | None = None,
        method: Method | None = None,
        views: ViewsLike | None = None,
    ) -> Deployment:
        """Return a deployment of a hash, or of several that decide together, with the parameters of this protocol."""
        if profile is not None and self.name != "default":
            raise InputError(f"the protocol {self.name} has the paper's parameters; leave out the profile")
        if views not in (None, "none", NO_VIEWS) and self.name != "default":
            raise InputError(f"the protocol {self.name} has the paper's parameters, without views; leave out the views")
        parameters: Parameters = "profile" if self.name == "default" else self.name
        return deploy(hash, parameters=parameters, device=device, profile=profile, method=method, views=views)

    @property
    def preset(self) -> Preset:
        """Preset of hardening."""
        return "perceptual" if self.name == "default" else self.name


PROTOCOLS: dict[ProtocolName, Protocol] = {name: Protocol(name) for name in get_args(ProtocolName)}
