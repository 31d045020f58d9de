"""A deployment: one hash or several with all parameters. It enrolls references and matches queries.

Several hashes decide together (`joint_decision`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import torch

from dualshield._common.digest import digest_of
from dualshield.engines.choose import check_device, check_engine, make_engine
from dualshield.engines.engine import Engine
from dualshield.engines.fixed_function import require_fixed_function
from dualshield.engines.pool import EnginePool
from dualshield.errors import InputError, TooLittleStructureError
from dualshield.hashes.codes import from_hex
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images import ImageLike, as_image
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.detection import MISSED
from dualshield.smoothing.exact.config import VOTE_PARAMETERS, ExactConfig
from dualshield.smoothing.exact_matcher import DeployedExactMatcher
from dualshield.smoothing.joint_decision import combined
from dualshield.smoothing.matcher import SmoothedMatcher
from dualshield.smoothing.member import Member
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.reference import Reference, check_terms
from dualshield.smoothing.result import MatchResult
from dualshield.smoothing.statistics import Decision

Matcher = SmoothedMatcher | DeployedExactMatcher

logger = logging.getLogger(__name__)

MAX_MEMBERS = 8


@dataclass(frozen=True)
class Recipe:
    """How to make a deployment again: the call of `deploy` and the later configuration changes."""

    deploy: Callable[[], Deployment]
    changes: tuple[dict[str, Any], ...] = ()

    def make(self) -> Deployment:
        """Make the deployment again."""
        made = self.deploy()
        for change in self.changes:
            made = made.with_config(**change)
        return made


@dataclass(frozen=True, eq=False)
class Deployment:
    """A matcher for many references and queries; `deploy` makes one from hash names.

    >>> import dualshield as ds
    >>> deployment = ds.deploy("pdq", n=500)
    >>> photo = torch.rand(3, 16, 16).repeat_interleave(32, 1).repeat_interleave(32, 2)
    >>> deployment.match(deployment.enroll(photo), photo).decision
    <Decision.MATCH: 'match'>
    """

    members: tuple[Member, ...]
    engine: str = "auto"
    device: str = "cpu"
    batch_size: int | None = None
    on_abstain: Decision = Decision.ABSTAIN  # the answer for a query whose votes prove nothing
    recipe: Recipe | None = None  # to make it again in another process; None if not made from names
    # Running engines, shared with deployments derived from this one.
    _engines: EnginePool = field(default_factory=EnginePool, repr=False)

    def __post_init__(self) -> None:
        check_device(self.device)
        check_engine(self.engine, self.batch_size)
        names = [member.hash.name for member in self.members]
        if not 1 <= len(set(names)) == len(names) <= MAX_MEMBERS:
            raise InputError(f"a deployment takes 1 to {MAX_MEMBERS} different hashes, got {'+'.join(names) or 'none'}")
        for what, values in (
            ("alphas", {config.alpha for config in self._voters}),
            ("target radii", {config.target_radius for config in self._voters}),
        ):
            if len(values) > 1:
                raise InputError(
                    f"the {what} differ between hashes ({', '.join(map(str, values))}); give them one value"
                )

    @property
    def _voters(self) -> list[MatcherConfig]:
        """The configurations of the members that draw noise; exact members need no part of alpha."""
        return [member.config for member in self.members if isinstance(member.config, MatcherConfig)]

    # -- description -------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The names of the hashes, joined as ``a+b``."""
        return "+".join(member.hash.name for member in self.members)

    @cached_property
    def hashes(self) -> tuple[PerceptualHash, ...]:
        """The unprotected hashes with their own thresholds, on the deployment's device."""
        return tuple(member.hash.to(self.device) for member in self.members)

    @property
    def alpha(self) -> float:
        """The error probability of the joint certificate; 0 if all members are exact."""
        return self._voters[0].alpha if self._voters else 0.0

    @property
    def draws_noise(self) -> bool:
        """Whether any member decides by votes; exact members draw nothing."""
        return bool(self._voters)

    @property
    def target_radius(self) -> float | None:
        """The target radius, or None for a fixed number of draws."""
        return self._voters[0].target_radius if self._voters else None

    @property
    def is_differentiable(self) -> bool:
        """Whether every member has gradients, which hardening and gradient attacks need."""
        return all(member.is_differentiable for member in self.members)

    @property
    def false_matches(self) -> float | None:
        """The sum of the members' calibrated false-match rates; None if a member's configuration was not measured."""
        rates = [member.false_matches for member in self.members]
        known = [rate for rate in rates if rate is not None]
        return sum(known) if len(known) == len(rates) else None

    @cached_property
    def digest(self) -> str:
        """The sha256 of all parameters, including the requested engine; each result names the engine that ran."""
        return digest_of(self.describe())

    def describe(self) -> dict[str, Any]:
        """All parameters, ready for JSON."""
        return {
            "members": [member.describe() for member in self.members],
            "engine": self.engine,
            "device": torch.device(self.device).type,
            "on_abstain": self.on_abstain.value,
        }

    def __repr__(self) -> str:
        parts = []
        for member in self.members:
            config = member.config
            lowpass = "" if config.lowpass is None else f", low-pass {config.lowpass}"
            up_to = "up to " if config.sigma == "auto" else ""
            parts.append(f"{member.hash.name}: sigma {up_to}{max(config.sigmas):g}{lowpass}")
        return f"<Deployment {'; '.join(parts)}; {self.digest[:12]}>"

    def with_config(self, **changes: Any) -> Deployment:
        """Return a copy with changed parameters for every member, such as ``n`` or ``target_radius``."""
        unknown = changes.keys() - {field_.name for field_ in fields(MatcherConfig)}
        if unknown:
            raise InputError(f"MatcherConfig has no {', '.join(sorted(unknown))}; check the spelling")
        useless = sorted(changes.keys() & set(VOTE_PARAMETERS))
        if useless and not self.draws_noise:
            raise InputError(f"{', '.join(useless)} belongs to votes, and {self.name} is decided exactly")
        members = tuple(replace(member, config=member.config.changed(changes)) for member in self.members)
        recipe = None if self.recipe is None else replace(self.recipe, changes=(*self.recipe.changes, changes))
        return replace(self, members=members, recipe=recipe)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the recipe where there is one: networks and engines cannot be pickled."""
        if self.recipe is not None:
            return _from_recipe, (self.recipe, self.engine, self.device, self.batch_size, self.on_abstain, self.digest)
        return Deployment, (self.members, self.engine, self.device, self.batch_size, self.on_abstain)

    # -- enrolling and matching --------------------------------------------------------------------

    @property
    def matchers(self) -> tuple[Matcher, ...]:
        """One matcher per member, with engines that run in this process."""
        process = self._engines.process()
        if process not in self._started:
            self._started[process] = self._start()
        return self._started[process]

    @cached_property
    def _started(self) -> dict[int, tuple[Matcher, ...]]:
        return {}

    def _start(self) -> tuple[Matcher, ...]:
        return tuple(self._matcher(member, member.config) for member in self.members)

    def _matcher(self, member: Member, config: MatcherConfig | ExactConfig) -> Matcher:
        if isinstance(config, ExactConfig):
            if member.warning:
                logger.warning("%s", member.warning)
            return DeployedExactMatcher(member.hash.to(self.device), config)
        count = len(self._voters)
        return SmoothedMatcher(
            member.voting.to(self.device),
            replace(config, alpha=self.alpha / count),
            self._running(member, config),
            self.device,
            missed=MISSED / count,
            abstain_as=self.on_abstain,
        )

    def _running(self, member: Member, config: MatcherConfig) -> Engine:
        hash_ = member.hash.to(self.device).with_lowpass(config.lowpass)
        kind = config.noise_kind
        reads = kind.engine_reads(hash_.front_end)
        # The key holds the network itself, which keeps it alive: no other network can reuse its id.
        which = (digest_of(hash_.identity), hash_.network, reads, kind.in_pixel_range)
        key = (*which, self.engine, self.device, self.batch_size)

        def start(engine: str) -> Engine:
            if member.warning:
                logger.warning("%s", member.warning)
            started = make_engine(hash_, engine, self.device, self.batch_size, reads=reads)
            require_fixed_function(started, hash_, in_pixel_range=kind.in_pixel_range)
            return started

        return self._engines.get(key, self.engine, start)

    def enroll(self, image: ImageLike, name: str | None = None, *, force: bool = False) -> Reference:
        """Enroll an image as reference; the result depends on its pixels and this deployment only.

        An image with too little structure to be told from blank images and documents is an error, unless ``force``.
        """
        matchers = self.matchers  # must come first: in a forked process this makes torch usable
        found = as_image(image, name)
        try:
            return Reference(found.name, tuple(matcher.enroll(found.pixels, force=force) for matcher in matchers))
        except TooLittleStructureError as error:
            raise TooLittleStructureError(f"{found.name}: {error}") from error

    def enroll_code(self, code: torch.Tensor | str, name: str = "code") -> Reference:
        """Enroll a bare code of the plain hash (bits or hex), from a list without images."""
        if len(self.members) > 1:
            raise InputError("a bare code belongs to one hash; a deployment of several needs a reference image")
        (matcher,) = self.matchers
        bits = from_hex(code, matcher.hash.bits) if isinstance(code, str) else code
        return Reference(name, (matcher.enroll_code(bits),))

    def match(
        self,
        reference: Reference,
        query: ImageLike,
        *,
        noise: GaussianSource | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> MatchResult:
        """Match a query against a reference, on fresh secret noise unless an experiment gives ``noise``.

        ``progress`` is called with the number of votes so far and the largest possible number.
        """
        started = time.perf_counter()
        self.check(reference)
        image = as_image(query)
        if not isinstance(noise, GaussianSource | None):
            raise InputError(f"noise is a GaussianSource, not {type(noise).__name__}")
        noise = noise or GaussianSource.secret()
        matchers = self.matchers
        if progress is not None:
            voted = _counter(progress, sum(matcher.config.most_votes for matcher in matchers))
            matchers = tuple(matcher.reporting(voted) for matcher in matchers)
        results = tuple(
            matcher.match(kept, image.pixels, noise.fork(f"member {matcher.hash.name}"))  # type: ignore[arg-type]
            for matcher, kept in zip(matchers, reference.members, strict=True)
        )
        return combined(
            results,
            reference=reference.name,
            query=image.name,
            fingerprint=reference.fingerprint,
            upload_norm=image.upload_norm,
            on_abstain=self.on_abstain,
            alpha=self.alpha,
            target_radius=self.target_radius,
            noise_source=noise.origin if self.draws_noise else None,
            deployment=self.digest,
            seconds=time.perf_counter() - started,
        )

    def for_known_queries(self, reference: Reference, noise: GaussianSource | None = None) -> Reference:
        """Prepare a reference for a fixed set of queries (`SmoothedMatcher.for_known_queries`)."""
        self.check(reference)
        noise = noise or GaussianSource.secret()
        members = tuple(
            matcher.for_known_queries(kept, noise.fork(f"member {matcher.hash.name}"))  # type: ignore[arg-type]
            for matcher, kept in zip(self.matchers, reference.members, strict=True)
        )
        return replace(reference, members=members)

    def check(self, reference: Reference) -> None:
        """Raise an error if the reference was enrolled for another hash or configuration; it says what differs."""
        if not isinstance(reference, Reference):
            raise InputError(f"a reference comes from enroll or Reference.load, not from {type(reference).__name__}")
        terms = [(matcher.terms, matcher.code_like) for matcher in self.matchers]
        check_terms(reference, self.name, terms)


def _counter(progress: Callable[[int, int], None], most: int) -> Callable[[int], None]:
    done = 0

    def voted(count: int) -> None:
        nonlocal done
        done += count
        progress(done, most)

    return voted


def _from_recipe(
    recipe: Recipe, engine: str, device: str, batch_size: int | None, policy: Decision, digest: str
) -> Deployment:
    """Unpickle a deployment from its recipe; an error if the names mean something else in this process."""
    made = replace(recipe.make(), engine=engine, device=device, batch_size=batch_size, on_abstain=policy)
    if made.digest != digest:
        raise InputError(
            f"{made.name} is another deployment in this process; make it here, or do not change its members"
        )
    return made
