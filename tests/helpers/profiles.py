"""Points of a profile's grid, and the configuration that is deployed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deploy import HashLike, deploy
from dualshield.smoothing.profile import GridPoint, Rates


def point(lowpass: int | None, sigma: float, collisions: float = 0.0) -> GridPoint:
    own = Rates(0.15, 2 * sigma, sigma, 0.9, collisions, 0.4)
    return GridPoint(lowpass, sigma, own, replace(own, threshold=0.12, collisions=0.5))


def deployed(hash_: HashLike, **parameters: Any) -> MatcherConfig:
    """The configuration of votes that is deployed."""
    (member,) = deploy(hash_, **parameters).members
    assert isinstance(member.config, MatcherConfig), "decides exactly"
    return member.config
