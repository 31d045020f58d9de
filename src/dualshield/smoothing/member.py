"""One hash of a deployment, before any engine runs it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dualshield.errors import InputError
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.profile import Profile


@dataclass(frozen=True, eq=False)
class Member:
    """One hash as deployed: with its own rule and threshold, its configuration, and the profile that came from."""

    hash: PerceptualHash
    config: MatcherConfig
    profile: Profile | None = None
    warning: str = ""  # told when its votes are first asked for

    def __post_init__(self) -> None:
        if not isinstance(self.hash, PerceptualHash) or not isinstance(self.config, MatcherConfig):
            raise InputError(f"a member is a PerceptualHash with a MatcherConfig, not {self.hash!r}, {self.config!r}")
        profile = self.profile
        if profile is not None and (profile.hash, profile.hash_version) != (self.hash.name, self.hash.version):
            raise InputError(
                f"the profile was measured for hash {profile.hash} {profile.hash_version}, not for {self.hash.name} "
                f"{self.hash.version}; calibrate this one"
            )

    @property
    def is_differentiable(self) -> bool:
        """Whether it has gradients that lead to its decisions; those of a native rule do not."""
        return self.hash.rule == "hamming" and self.hash.is_differentiable

    @property
    def false_matches(self) -> float | None:
        """The fraction of unrelated pairs that match, where just this configuration was calibrated."""
        return None if self.profile is None else self.profile.false_matches_of(self.config)

    @cached_property
    def voting(self) -> PerceptualHash:
        """The hash with the threshold of a vote, which calibration may have lowered below its own."""
        threshold = self.config.threshold
        return self.hash if threshold is None else self.hash.with_threshold(threshold)
