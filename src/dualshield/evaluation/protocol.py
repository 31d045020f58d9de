"""The protocols as data: what is measured on how many images, with which matcher.

``default`` measures a hash as it is deployed, by its profile; ``paper`` has every parameter of the paper (Detailed
Experimental Protocol); ``paper-limit`` too, but for linear hashes it takes the paper's noise from its normal law
(`smoothing.clipped`), which makes hundreds of images possible. In all of them the positive pairs are the published
image with itself (``identity``) and with one of its mildest transformations (``benign``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from dualshield.attacks.budgets import BUDGETS, COST_BUDGETS
from dualshield.attacks.methods import ProtocolName, matcher_config
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.smoothing.config import PAPER, MatcherConfig


@dataclass(frozen=True)
class Protocol:
    """How much of everything."""

    name: ProtocolName
    images: int = 100  # of each dataset, unless --limit says otherwise
    transform_images: int = 50  # of each dataset
    collision_pairs: int = 2000  # of all images together
    budgets: tuple[float, ...] = BUDGETS
    cost_budgets: tuple[float, ...] = COST_BUDGETS
    gallery: int = 3  # images of each dataset that are kept to be looked at
    positive_pairs: tuple[str, ...] = ("identity", "benign")

    def matcher(self, spec: str) -> MatcherConfig:
        """The smoothed matcher of one hash, as `Defence` deploys it."""
        return matcher_config(spec, self.name)

    def hash(self, spec: str) -> PerceptualHash:
        """One plain hash, with the threshold it has here."""
        found = get_hash(spec)
        return found if self.name == "default" or PAPER.threshold is None else found.with_threshold(PAPER.threshold)


PROTOCOLS: dict[ProtocolName, Protocol] = {name: Protocol(name) for name in get_args(ProtocolName)}
