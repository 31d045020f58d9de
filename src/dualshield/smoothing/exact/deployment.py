"""A deployment of one exact hash without torch: the same answers and digests as `smoothing.deployment`, sooner.

The command line uses it, where loading torch would take longer than all the rest.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dualshield._common.digest import digest_of
from dualshield.errors import InputError, TooLittleStructureError
from dualshield.hashes.bits import from_hex
from dualshield.hashes.linear.linear_hash import LinearHash
from dualshield.images.canonical_array import CanonicalArray
from dualshield.smoothing.choose import CODE_PREFIX
from dualshield.smoothing.exact.config import ExactConfig
from dualshield.smoothing.exact.matcher import ExactMatcher
from dualshield.smoothing.exact.profile import ExactProfile
from dualshield.smoothing.exact.reference import ExactReference, describe_exact
from dualshield.smoothing.joint_decision import combined
from dualshield.smoothing.profile import Profile
from dualshield.smoothing.reference import Reference, check_terms
from dualshield.smoothing.result import MatchResult
from dualshield.smoothing.statistics import Decision


@dataclass(frozen=True, eq=False)
class ExactDeployment:
    """One linear hash with its exact configuration."""

    linear: LinearHash
    config: ExactConfig
    plain_boundary: float
    profile: Profile | ExactProfile | None = None  # with the first, false matches with views are known too
    engine: str = "auto"
    on_abstain: Decision = Decision.ABSTAIN

    @cached_property
    def matcher(self) -> ExactMatcher:
        """The matcher."""
        return ExactMatcher(self.linear, self.config)

    @property
    def false_matches(self) -> float | None:
        """The calibrated fraction of unrelated pairs that match; None if this configuration was not measured."""
        return None if self.profile is None else self.profile.false_matches_of(self.config)

    @cached_property
    def digest(self) -> str:
        """The sha256 of all parameters."""
        return digest_of(self.describe())

    def describe(self) -> dict[str, Any]:
        """All parameters, ready for JSON."""
        return {
            "members": [describe_exact(self.linear, self.config, self.plain_boundary)],
            "engine": self.engine,
            "device": "cpu",
            "on_abstain": self.on_abstain.value,
        }

    def enroll(self, image: CanonicalArray) -> Reference:
        """Enroll an image as reference."""
        try:
            return Reference(image.name, (self.matcher.enroll_pixels(image.pixels),))
        except TooLittleStructureError as error:
            raise TooLittleStructureError(f"{image.name}: {error}") from error

    def enroll_code(self, code: str) -> Reference:
        """Enroll a bare code, ``code:HEX``."""
        bits = from_hex(code.removeprefix(CODE_PREFIX), self.linear.bits)
        return Reference(code, (self.matcher.enroll_bits(bits),))

    def match(self, reference: Reference, image: CanonicalArray) -> MatchResult:
        """Match a query against a reference."""
        started = time.perf_counter()
        example = np.zeros(self.linear.bits, np.bool_)
        check_terms(reference, self.linear.name, [(self.matcher.terms, example)])
        (kept,) = reference.members
        if not isinstance(kept, ExactReference):
            raise InputError(f"reference {reference.name} is one of votes; enroll it again")
        result = self.matcher.match_exactly(kept, image.pixels)
        return combined(
            (result,),
            reference=reference.name,
            query=image.name,
            fingerprint=reference.fingerprint,
            upload_norm=image.upload_norm,
            on_abstain=self.on_abstain,
            alpha=0.0,
            target_radius=None,
            noise_source=None,
            deployment=self.digest,
            seconds=time.perf_counter() - started,
        )
