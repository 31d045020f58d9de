"""All attacks by name, and the variants of the defence they are run against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal, Protocol, get_args

from dualshield.attacks import collision, eot, nes, pgd
from dualshield.attacks.result import AttackResult, Budget
from dualshield.attacks.space import saved
from dualshield.attacks.victim import Against, Victim
from dualshield.errors import InputError
from dualshield.hardening.harden import Hardener, Preset
from dualshield.hashes import get_hash
from dualshield.images.canonical import CanonicalImage
from dualshield.smoothing.config import PAPER
from dualshield.smoothing.matcher import SmoothedMatcher
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.profile import default_config

ProtocolName = Literal["default", "paper"]

# Decisions need no radius: a few votes where they agree, up to this many near the boundary, then abstention.
DECISION_DRAWS = 1000


class Attack(Protocol):
    """The common call."""

    def __call__(
        self,
        victim: Victim,
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


class Defence:
    """One hash as deployed: ``original`` (plain), ``smoothing``, ``hardening`` (plain but hardened), ``ours`` (both).

    ``config`` is the smoothed matcher's; decisions take as few draws as they need. The protocol ``paper`` has the
    paper's matcher and hardening instead of the hash's profile and our default preset.
    """

    def __init__(
        self,
        hash_name: str,
        against: Against,
        *,
        protocol: ProtocolName = "default",
        device: str = "cpu",
        source: GaussianSource | None = None,
    ) -> None:
        if against not in get_args(Against):
            raise InputError(f"unknown variant {against!r}: use one of {', '.join(get_args(Against))}")
        if protocol not in get_args(ProtocolName):
            raise InputError(f"unknown protocol {protocol!r}: use one of {', '.join(get_args(ProtocolName))}")
        self.against = against
        self.hash = get_hash(hash_name).to(device)
        self.hash.network.requires_grad_(False)
        self.config = PAPER if protocol == "paper" else default_config(hash_name)
        if against in ("original", "hardening") and protocol == "paper" and PAPER.threshold is not None:
            self.hash = self.hash.with_threshold(PAPER.threshold)
        self._matcher: SmoothedMatcher | None = None
        self._hardener: Hardener | None = None
        if against in ("smoothing", "ours"):
            config = replace(self.config, target_radius=0.0, n=DECISION_DRAWS)
            self._matcher = SmoothedMatcher(self.hash, config, device=device, source=source)
        if against in ("hardening", "ours"):
            preset: Preset = "paper" if protocol == "paper" else "perceptual"
            self._hardener = Hardener([hash_name], preset=preset, device=device, source=source)

    def draw_from(self, source: GaussianSource) -> None:
        """Take all further noise from here: work that is resumed must not depend on what was done before."""
        parts: list[Hardener | SmoothedMatcher] = [] if self._matcher is None else [self._matcher]
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

    def victim(self, published: CanonicalImage) -> Victim:
        """The matcher with this reference enrolled."""
        if self._matcher is None:
            return Victim.plain(self.hash, published)
        return Victim.smoothed(self._matcher, published)
