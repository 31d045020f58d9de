"""What is deployed: one hash or several, with all parameters, as one object that lasts.

A deployment enrols references and decides about queries. Where it has several hashes, a pair matches if any member says
so, and an attacker must evade all of them together. Each member certifies with alpha divided by their number, so that
all their certificates hold together with probability 1 - alpha (union bound), whichever of them is then quoted:

* a match holds as long as any member's match does: the largest radius of those that match;
* a non-match needs every member's non-match: the smallest radius of all.

The price is false matches, which add up: at most the sum of the members' rates.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import torch

from dualshield.digest import canonical_json, digest_of
from dualshield.errors import InputError, UnusableReferenceError
from dualshield.hashes.codes import from_hex
from dualshield.hashes.contract import PerceptualHash
from dualshield.images import RADIUS_SPACE, ImageLike, as_image
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.detection import MISSED
from dualshield.smoothing.engines import Engine, EnginePool, check_device, check_engine, make_engine, require_function
from dualshield.smoothing.matcher import SmoothedMatcher, what_engines_read
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.profile import Profile
from dualshield.smoothing.reference import MemberReference, Reference
from dualshield.smoothing.result import MatchResult, MemberResult
from dualshield.smoothing.statistics import Decision

logger = logging.getLogger(__name__)

MAX_MEMBERS = 8
MOST_TOLD = 300


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


@dataclass(frozen=True)
class Recipe:
    """A call that makes a deployment, and how its configuration was changed since."""

    deploy: Callable[[], Deployment]
    changes: tuple[dict[str, Any], ...] = ()

    def make(self) -> Deployment:
        """The same deployment once more."""
        made = self.deploy()
        for change in self.changes:
            made = made.with_config(**change)
        return made


@dataclass(frozen=True, eq=False)
class Deployment:
    """A matcher that lasts; `deploy` makes one from names.

    >>> import dualshield as ds
    >>> deployment = ds.deploy("pdq", n=500)
    >>> photo = torch.rand(3, 512, 512).cumsum(1) / 512
    >>> deployment.match(deployment.enroll(photo), photo).decision
    <Decision.MATCH: 'match'>
    """

    members: tuple[Member, ...]
    engine: str = "auto"
    device: str = "cpu"
    batch_size: int | None = None
    on_abstain: Decision = Decision.ABSTAIN  # what to say of a query whose votes prove nothing
    recipe: Recipe | None = None  # how to make it again in another process, where it came from names
    # Engines in use, shared with deployments that were derived from this one.
    _engines: EnginePool = field(default_factory=EnginePool, repr=False)

    def __post_init__(self) -> None:
        check_device(self.device)
        check_engine(self.engine, self.batch_size)
        names = [member.hash.name for member in self.members]
        if not 1 <= len(set(names)) == len(names) <= MAX_MEMBERS:
            raise InputError(
                f"several hashes at once: give at most {MAX_MEMBERS} different ones, got {'+'.join(names) or 'none'}"
            )
        for what, values in (
            ("alphas", {member.config.alpha for member in self.members}),
            ("target radii", {member.config.target_radius for member in self.members}),
        ):
            if len(values) > 1:
                raise InputError(f"several hashes at once: their {what} differ ({', '.join(map(str, values))})")

    # -- what it is --------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its hashes, as ``a+b``."""
        return "+".join(member.hash.name for member in self.members)

    @cached_property
    def hashes(self) -> tuple[PerceptualHash, ...]:
        """The unprotected hashes, on its device, with their own thresholds."""
        return tuple(member.hash.to(self.device) for member in self.members)

    @property
    def alpha(self) -> float:
        """Of the joint certificate."""
        return self.members[0].config.alpha

    @property
    def target_radius(self) -> float | None:
        """Asked for, or None where a fixed number of draws is."""
        return self.members[0].config.target_radius

    @property
    def is_differentiable(self) -> bool:
        """Whether it can be hardened for, and attacked by gradients."""
        return all(member.is_differentiable for member in self.members)

    @property
    def false_matches(self) -> float | None:
        """The fraction of unrelated pairs that match, as calibrated; None where a member was not measured like this."""
        rates = [member.false_matches for member in self.members]
        known = [rate for rate in rates if rate is not None]
        return sum(known) if len(known) == len(rates) else None

    @cached_property
    def digest(self) -> str:
        """A sha256 over all parameters: results with the same one came from the same matcher."""
        return digest_of(self.describe())

    def describe(self) -> dict[str, Any]:
        """All parameters, ready for JSON."""
        return {
            "members": [
                {
                    "hash": member.hash.identity,
                    "rule": member.hash.rule,
                    "boundary": float(member.voting.boundary),
                    "plain_boundary": float(member.hash.boundary),
                    **{k: v for k, v in asdict(member.config).items() if k != "threshold"},
                }
                for member in self.members
            ],
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
        """The same with other parameters of every member, such as ``n`` or ``target_radius``."""
        unknown = changes.keys() - {field_.name for field_ in fields(MatcherConfig)}
        if unknown:
            raise InputError(f"a configuration has no {', '.join(sorted(unknown))}")
        members = tuple(replace(member, config=replace(member.config, **changes)) for member in self.members)
        recipe = None if self.recipe is None else replace(self.recipe, changes=(*self.recipe.changes, changes))
        return replace(self, members=members, recipe=recipe)

    def __reduce__(self) -> tuple[Any, ...]:
        """For other processes: made again from its names, because networks and engines do not travel."""
        if self.recipe is not None:
            return self.recipe.make, ()
        return Deployment, (self.members, self.engine, self.device, self.batch_size, self.on_abstain)

    # -- what it does ------------------------------------------------------------------------------

    @property
    def matchers(self) -> tuple[SmoothedMatcher, ...]:
        """One per member, with their engines running in this process."""
        process = self._engines.process()
        if process not in self._started:
            self._started[process] = self._start()
        return self._started[process]

    @cached_property
    def _started(self) -> dict[int, tuple[SmoothedMatcher, ...]]:
        return {}

    def _start(self) -> tuple[SmoothedMatcher, ...]:
        count = len(self.members)
        return tuple(
            SmoothedMatcher(
                member.voting.to(self.device),
                replace(member.config, alpha=self.alpha / count),
                self._running(member),
                self.device,
                missed=MISSED / count,
                abstain_as=self.on_abstain,
            )
            for member in self.members
        )

    def _running(self, member: Member) -> Engine:
        hash_ = member.hash.to(self.device).with_lowpass(member.config.lowpass)
        reads = what_engines_read(hash_, member.config)
        key = (hash_.identity["name"], id(hash_.network), hash_.lowpass, reads, self.engine, self.batch_size)

        def start(engine: str) -> Engine:
            if member.warning:
                logger.warning("%s", member.warning)
            started = make_engine(hash_, engine, self.device, self.batch_size, reads=reads)
            require_function(started, hash_, clipped=member.config.noise == "clipped")
            return started

        return self._engines.get(key, self.engine, start)

    def enroll(self, image: ImageLike, name: str | None = None) -> Reference:
        """Prepare a reference: a function of the image's pixels and this deployment, and of nothing else."""
        matchers = self.matchers  # first of all: in a forked process this makes torch usable
        found = as_image(image, name)
        return Reference(found.name, tuple(matcher.enroll(found.pixels) for matcher in matchers))

    def enroll_code(self, code: torch.Tensor | str, name: str = "code") -> Reference:
        """A bare code of the plain hash, as bits or in hex, from a list that has no images."""
        if len(self.members) > 1:
            raise InputError("a bare code belongs to one hash; a deployment of several needs a reference image")
        (matcher,) = self.matchers
        bits = from_hex(code, matcher.hash.bits) if isinstance(code, str) else code
        return Reference(name, (matcher.enroll_code(bits),))

    def match(self, reference: Reference, query: ImageLike, *, noise: GaussianSource | None = None) -> MatchResult:
        """Decide about a query, on fresh secret noise unless an experiment brings its own."""
        started = time.perf_counter()
        self.check(reference)
        image = as_image(query)
        if not isinstance(noise, GaussianSource | None):
            raise InputError(f"noise is a GaussianSource, not {type(noise).__name__}")
        noise = noise or GaussianSource.secret()
        results = tuple(
            matcher.match(kept, image.pixels, noise.fork(f"member {matcher.hash.name}"))
            for matcher, kept in zip(self.matchers, reference.members, strict=True)
        )
        decision, radius, detected = joint(results)
        norm = image.upload_norm
        return MatchResult(
            reference=reference.name,
            query=image.name,
            hash=self.name,
            decision=self.on_abstain if decision is Decision.ABSTAIN else decision,
            abstained=decision is Decision.ABSTAIN,
            radius=radius,
            radius_detected=detected,
            radius_space=RADIUS_SPACE,
            radius_upload=None if norm is None else radius / norm,
            on_abstain=self.on_abstain,
            alpha=self.alpha,
            target_radius=self.target_radius,
            noise_source=noise.origin,
            reference_fingerprint=reference.fingerprint,
            deployment=self.digest,
            seconds=time.perf_counter() - started,
            members=results,
        )

    def for_known_queries(self, reference: Reference, noise: GaussianSource | None = None) -> Reference:
        """The same reference for a set of queries that are known already (`SmoothedMatcher.for_known_queries`)."""
        self.check(reference)
        noise = noise or GaussianSource.secret()
        members = tuple(
            matcher.for_known_queries(kept, noise.fork(f"member {matcher.hash.name}"))
            for matcher, kept in zip(self.matchers, reference.members, strict=True)
        )
        return replace(reference, members=members)

    def check(self, reference: Reference) -> None:
        """Refuse a reference that was enrolled for another hash or configuration, and say what differs."""
        if not isinstance(reference, Reference):
            raise InputError(f"a reference comes from enroll or Reference.load, not from {type(reference).__name__}")
        theirs = "+".join(str(member.terms["hash"]["name"]) for member in reference.members)
        if theirs != self.name:
            raise UnusableReferenceError(
                f"reference {reference.name} was enrolled for hash {theirs}, not for {self.name}: enrol it again"
            )
        for matcher, kept in zip(self.matchers, reference.members, strict=True):
            difference = _difference(kept, matcher.terms) or _misshapen(kept, matcher.code_like)
            if difference:
                raise UnusableReferenceError(
                    f"reference {reference.name} was enrolled for {theirs} with another configuration ({difference}): "
                    "enrol it again, or deploy the configuration it has"
                )


def _difference(kept: MemberReference, terms: dict[str, Any]) -> str:
    """What a reference has that a matcher has not."""
    if kept.terms is terms:
        return ""
    parts = [
        f"{name} {_short(kept.terms.get(name))}, here {_short(value)}"
        for name, value in terms.items()
        if canonical_json(kept.terms.get(name)) != canonical_json(value)
    ]
    return "; ".join(parts)


def _short(value: Any) -> str:
    text = canonical_json(value)
    return text if len(text) <= MOST_TOLD else f"{text[:MOST_TOLD]}..."


def _misshapen(kept: MemberReference, expected: torch.Tensor) -> str:
    """Codes from a file may say that they belong here and yet not be what the hash compares."""
    codes = [kept.plain, kept.code, *([] if kept.bank is None else [kept.bank[0]])]
    if all(code.shape == expected.shape and code.dtype == expected.dtype for code in codes):
        return ""
    return f"its codes have {codes[1].numel()} values, here {expected.numel()}"


def joint(results: Sequence[MemberResult]) -> tuple[Decision, float, float]:
    """The decision of all members, the certified radius and the detected one."""
    decision = joint_decision(result.decision for result in results)
    if decision is Decision.MATCH:
        matching = [result for result in results if result.decision is Decision.MATCH]
        return decision, max(r.radius for r in matching), max(r.radius_detected for r in matching)
    if decision is Decision.NO_MATCH:
        return decision, min(r.radius for r in results), min(r.radius_detected for r in results)
    return decision, 0.0, 0.0


def joint_decision(decisions: Iterable[Decision]) -> Decision:
    """A match is one whoever says so, and no further member is asked; a non-match needs all of them."""
    others = set()
    for decision in decisions:
        if decision is Decision.MATCH:
            return decision
        others.add(decision)
    return Decision.NO_MATCH if others == {Decision.NO_MATCH} else Decision.ABSTAIN
