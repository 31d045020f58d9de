"""One hash of a deployment, before any engine runs it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from dualshield.errors import InputError
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.exact.config import ExactConfig
from dualshield.smoothing.exact.reference import describe_exact
from dualshield.smoothing.profile import Profile


@dataclass(frozen=True, eq=False)
class Member:
    """One hash with its rule and threshold, its configuration, and the profile of that configuration."""

    hash: PerceptualHash
    config: MatcherConfig | ExactConfig
    profile: Profile | None = None
    warning: str = ""  # logged when the engine starts

    def __post_init__(self) -> None:
        if not isinstance(self.hash, PerceptualHash) or not isinstance(self.config, MatcherConfig | ExactConfig):
            raise InputError(f"a Member takes a PerceptualHash and a MatcherConfig, not {self.hash!r}, {self.config!r}")
        profile = self.profile
        if profile is not None and (profile.hash, profile.hash_version) != (self.hash.name, self.hash.version):
            raise InputError(
                f"the profile was measured for hash {profile.hash} {profile.hash_version}, not for {self.hash.name} "
                f"{self.hash.version}; calibrate this one"
            )

    @property
    def is_differentiable(self) -> bool:
        """Whether gradients of the hash bits are available and its rule compares bits; a native rule does not."""
        return self.hash.rule == "hamming" and self.hash.is_differentiable

    @property
    def false_matches(self) -> float | None:
        """The calibrated fraction of unrelated pairs that match; None if this configuration was not measured."""
        return None if self.profile is None else self.profile.false_matches_of(self.config)

    @cached_property
    def voting(self) -> PerceptualHash:
        """The hash with the vote threshold, which calibration may have set below the hash's own."""
        threshold = self.config.threshold if isinstance(self.config, MatcherConfig) else None
        return self.hash if threshold is None else self.hash.with_threshold(threshold)

    def describe(self) -> dict[str, Any]:
        """All parameters, ready for JSON."""
        if isinstance(self.config, ExactConfig):
            assert self.hash.linear is not None
            return describe_exact(self.hash.linear, self.config, self.hash.boundary)
        return {
            "hash": self.hash.identity,
            "rule": self.hash.rule,
            "boundary": float(self.voting.boundary),
            "plain_boundary": float(self.hash.boundary),
            **{k: v for k, v in asdict(self.config).items() if k not in ("threshold", "views")},
            "views": self.config.views.to_json(),
        }
