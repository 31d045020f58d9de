"""All attacks by name, and the variants of the defence they are run against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal, Protocol, get_args

from dualshield.attacks import collision, eot, nes, pgd
from dualshield.attacks.joint import JointVictim
from dualshield.attacks.result import AttackResult, Budget
from dualshield.attacks.space import saved
from dualshield.attacks.victim import Against, Target, Victim
from dualshield.errors import InputError
from dualshield.hardening.harden import Hardener, Preset
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.hashes.registry import split_names
from dualshield.images.canonical import CanonicalImage
from dualshield.smoothing.config import PAPER, PAPER_LIMIT, MatcherConfig
from dualshield.smoothing.ensemble import EnsembleMatcher, check_members
from dualshield.smoothing.matcher import SmoothedMatcher
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.profile import default_config

ProtocolName = Literal["default", "paper", "paper-limit"]

# Decisions need no radius: a few votes where they agree, up to this many near the boundary, then abstention.
DECISION_DRAWS = 1000


class Attack(Protocol):
    """The common call."""

    def __call__(
        self,
        victim: Target,
        query: CanonicalImage,
        budget: Budget,
        *,
        seed: int = 2026,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> AttackResult: ...


METHODS: dict[str, Attack] = {
    "pgd": pgd.attack,
    "eot-pgd": eot.attack,
    "nes": nes.attack,
    "nes-plain": partial(nes.attack, plain_score=True),
    "collision": collision.attack,
}


def get_attack(name: str) -> Attack:
    """An attack by its name."""
    if name not in METHODS:
        raise InputError(f"unknown attack {name!r}: use one of {', '.join(METHODS)}")
    return METHODS[name]


def matcher_config(spec: str, protocol: ProtocolName) -> MatcherConfig:
    """The smoothed matcher of one hash."""
    if protocol == "default":
        return default_config(spec)
    return PAPER_LIMIT if protocol == "paper-limit" and get_hash(spec).is_linear else PAPER


class Defence:
    """A hash as deployed: ``original`` (plain), ``smoothing``, ``hardening`` (plain but hardened), ``ours`` (both).

    Or several, as ``a+b``: each member has its own matcher, at alpha divided by their number, and hardening serves all.
    Decisions take as few draws as they need. The protocol ``paper`` has the paper's matcher and hardening instead of
    the hash's profile and our default preset; ``paper-limit`` too, with the noise of linear hashes by its limit.
    """

    def __init__(
        self,
        hash_name: str,
        against: Against,
        *,
        protocol: ProtocolName = "default",
        strength: float = 1.0,
        device: str = "cpu",
        source: GaussianSource | None = None,
    ) -> None:
        if against not in get_args(Against):
            raise InputError(f"unknown variant {against!r}: use one of {', '.join(get_args(Against))}")
        if protocol not in get_args(ProtocolName):
            raise InputError(f"unknown protocol {protocol!r}: use one of {', '.join(get_args(ProtocolName))}")
        self.against = against
        names = split_names(hash_name)
        self.hashes = [get_hash(name).to(device) for name in names]
        if len(names) > 1:
            check_members([hash_.name for hash_ in self.hashes])
        if protocol != "default" and PAPER.threshold is not None:
            self.hashes = [hash_.with_threshold(PAPER.threshold) for hash_ in self.hashes]
        self._matchers: tuple[SmoothedMatcher, ...] = ()
        self._hardener: Hardener | None = None
        if against in ("smoothing", "ours"):
            configs = [matcher_config(name, protocol) for name in names]
            configs = [replace(config, target_radius=0.0, n=DECISION_DRAWS) for config in configs]
            self._matchers = _matchers(list(zip(self.hashes, configs, strict=True)), device, source)
        if against in ("hardening", "ours"):
            preset: Preset = "perceptual" if protocol == "default" else protocol
            self._hardener = Hardener([hash_name], preset=preset, strength=strength, device=device, source=source)

    def draw_from(self, source: GaussianSource) -> None:
        """Take all further noise from here: work that is resumed must not depend on what was done before."""
        parts: list[Hardener | SmoothedMatcher] = [*self._matchers]
        if self._hardener is not None:
            parts += [self._hardener, *self._hardener.matchers.values()]
        for part in parts:
            part.source = source.fork("defence")

    def publish(self, image: CanonicalImage) -> CanonicalImage:
        """The reference as it is published: hardened, or as it was; always on the 8-bit grid of a file."""
        if self._hardener is not None:
            delta, _ = self._hardener.perturb(image)
            image = replace(image, pixels=image.pixels + delta.cpu())
        return replace(image, pixels=saved(image.pixels))

    def victim(self, published: CanonicalImage) -> Target:
        """The service with this reference enrolled."""
        if self._matchers:
            members = [Victim.smoothed(matcher, published) for matcher in self._matchers]
        else:
            members = [Victim.plain(hash_, published) for hash_ in self.hashes]
        return members[0] if len(members) == 1 else JointVictim(members)


def _matchers(
    members: list[tuple[PerceptualHash, MatcherConfig]], device: str, source: GaussianSource | None
) -> tuple[SmoothedMatcher, ...]:
    if len(members) == 1:
        return (SmoothedMatcher(*members[0], device=device, source=source),)
    return EnsembleMatcher(members, device=device, source=source).members
