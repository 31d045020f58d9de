"""The variants of a defence that attacks are run against."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from dualshield.attacks.exact_victim import ExactVictim
from dualshield.attacks.joint_victim import JointVictim
from dualshield.attacks.victim import Service, Target, Victim
from dualshield.errors import InputError
from dualshield.hardening.harden import Hardener, Preset
from dualshield.images import ImageLike, as_image
from dualshield.images.canonical import CanonicalImage
from dualshield.images.eight_bit import to_8bit
from dualshield.smoothing.deployment import Deployment, Matcher
from dualshield.smoothing.exact.reference import ExactReference
from dualshield.smoothing.exact_matcher import DeployedExactMatcher
from dualshield.smoothing.matcher import SmoothedMatcher
from dualshield.smoothing.member_reference import MemberReference
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.reference_file import Kept
from dualshield.smoothing.variants import Variant
from dualshield.smoothing.views import NO_VIEWS

# Decisions need no radius: a few votes if they agree, at most this many near the boundary, then abstention.
DECISION_DRAWS = 1000


class Defence:
    """A deployment under attack: plain (``original``), with ``smoothing``, with ``hardening``, or with ``both``.

    Decisions take only as many draws as needed. Hardening uses the same deployment and thresholds. A plain hash sees
    images as they are, or ``with_views`` in the views of the deployment.
    """

    def __init__(
        self,
        deployment: Deployment,
        against: Variant,
        *,
        preset: Preset = "perceptual",
        strength: float = 1.0,
        with_views: bool = False,
    ) -> None:
        if not isinstance(deployment, Deployment):
            raise InputError(f"a Defence takes a deployment, as from deploy('pdq'), not {type(deployment).__name__}")
        if against not in get_args(Variant):
            raise InputError(f"unknown variant {against!r}: use one of {', '.join(get_args(Variant))}")
        self.against = against
        self.deployment = deployment
        self.with_views = with_views or against == "views"
        self._deciding: Deployment | None = None
        self.hardener: Hardener | None = None
        if against in ("smoothing", "both"):
            deciding = deployment.with_config(target_radius=0.0, n=DECISION_DRAWS) if deployment.draws_noise else None
            self._deciding = deciding or deployment
        if against in ("hardening", "both"):
            self.hardener = Hardener(deployment, preset=preset, strength=strength)

    def publish(self, image: ImageLike, noise: GaussianSource | None = None) -> CanonicalImage:
        """Return the published reference: hardened if the variant says so, and rounded to 8 bits."""
        found = as_image(image)
        if self.hardener is not None:
            delta, _ = self.hardener.perturb(found, noise=noise)
            found = replace(found, pixels=found.pixels + delta.cpu())
        return replace(found, pixels=to_8bit(found.pixels))

    def victim(self, published: CanonicalImage, noise: GaussianSource | None = None) -> Target:
        """Return the service with this reference enrolled; its noise is secret unless an experiment gives ``noise``."""
        if self._deciding is None:
            members = [
                Victim.plain(hash_, published, member.config.views if self.with_views else NO_VIEWS)
                for hash_, member in zip(self.deployment.hashes, self.deployment.members, strict=True)
            ]
        else:
            enrolled = self._deciding.enroll(published)
            service = Service(self._deciding.digest, enrolled.fingerprint)
            members = [
                _victim(matcher, published.name, kept, service)
                for matcher, kept in zip(self._deciding.matchers, enrolled.members, strict=True)
            ]
        target: Target = members[0] if len(members) == 1 else JointVictim(members)
        return target if noise is None else target.with_noise(noise)


def _victim(matcher: Matcher, name: str, kept: Kept, service: Service) -> Victim:
    if isinstance(matcher, DeployedExactMatcher) and isinstance(kept, ExactReference):
        return ExactVictim.of(matcher, name, kept, service)
    assert isinstance(matcher, SmoothedMatcher)
    assert isinstance(kept, MemberReference)
    return Victim(matcher.hash, name, kept, matcher, service=service)
