"""Make a deployment from hash names: find the profile and the configuration of each hash."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from dualshield._common.checks import NUMBER, PATH, require
from dualshield.errors import InputError
from dualshield.hashes import DEFAULT_HASH, PerceptualHash, get_hash
from dualshield.hashes.registry import split_names
from dualshield.images import ImageLike, as_image
from dualshield.smoothing.choose import (
    CODE_PREFIX,
    KEEP,
    UNCALIBRATED_SIGMA,
    Keep,
    ViewsLike,
    Wanted,
    as_views,
    exact_config,
    is_bare_code,
    is_exact,
    is_kept,
    kept_views,
    method_of,
    strictest,
    views_of,
)
from dualshield.smoothing.config import PAPER, PAPER_LIMIT, Auto, MatcherConfig
from dualshield.smoothing.deployment import Deployment, Recipe
from dualshield.smoothing.member import Member
from dualshield.smoothing.names import Method, NoiseName, ReferenceMode
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.preset import Preset
from dualshield.smoothing.profile import Profile, check_lowpass, find_profile, with_preset
from dualshield.smoothing.profile_folder import is_card
from dualshield.smoothing.reference import Reference
from dualshield.smoothing.result import MatchResult
from dualshield.smoothing.statistics import Decision

HashLike = str | os.PathLike[str] | PerceptualHash
"""A hash name, several names as ``a+b``, the path of a hash card, or a PerceptualHash."""
ProfileLike = Profile | str | os.PathLike[str]
"""A profile, or the path of a profile file."""
Parameters = Literal["profile", "paper", "paper-limit"]


def deploy(
    hash: HashLike | Sequence[HashLike] = DEFAULT_HASH,
    *,
    profile: ProfileLike | None = None,
    parameters: Parameters = "profile",
    config: MatcherConfig | None = None,
    for_codes: bool = False,
    method: Method | None = None,
    rule: str | None = None,
    sigma: float | Auto | None = None,
    lowpass: int | Keep | None = KEEP,
    views: ViewsLike | None = None,
    threshold: float | None = None,
    noise: NoiseName | None = None,
    reference_mode: ReferenceMode | None = None,
    bank_size: int | None = None,
    n0: int | None = None,
    n: int | None = None,
    alpha: float | None = None,
    target_radius: float | None = None,
    on_abstain: str = "abstain",
    engine: str = "auto",
    device: str = "cpu",
    batch_size: int | None = None,
) -> Deployment:
    """Make a deployment of one hash, or of several that decide together.

    Parameters come from the hash's calibrated profile (``profile``, or found beside the hash card, in the user's
    profile folder or in the package), from the paper, or from ``config``. Explicit arguments override them.
    ``sigma="auto"`` extends each reference's choice to the largest sigma of the profile's grid that costs no
    collisions. ``for_codes`` uses the profile's parameters for bare codes of the plain hash, where there are no
    reference images. ``rule`` defaults to the hash's own rule.

    ``views`` are the ways in which images are looked at, so that framed, cropped, mirrored or turned copies are found:
    a preset of the profile (``standard``, the usual one, ``thorough`` or ``none``), `Views`, or a JSON file of views.

    ``method`` is how queries are decided: by ``votes``, or ``exact``. Exact is the default for hashes that are linear
    up to a threshold and calibrated for it, such as PDQ, unless a parameter is given that only votes have.
    """
    require("profile", profile, Profile, *PATH, or_none=True)
    require("for_codes", for_codes, bool)
    for name, text in (("parameters", parameters), ("on_abstain", on_abstain)):
        require(name, text, str)
    for name, choice in (("method", method), ("rule", rule), ("noise", noise), ("reference mode", reference_mode)):
        require(name, choice, str, or_none=True)
    require("sigma", sigma, *NUMBER, str, or_none=True)
    require("lowpass", lowpass, int, Keep, or_none=True)
    if parameters not in get_args(Parameters):
        raise InputError(f"unknown parameters {parameters!r}: use one of {', '.join(get_args(Parameters))}")
    wanted = Wanted(
        profile if isinstance(profile, Profile | None) else Profile.load(Path(profile)),
        parameters,
        config,
        for_codes,
        method,
        sigma,
        lowpass,
        as_views(views),
        {
            name: value
            for name, value in (
                ("threshold", threshold),
                ("noise", noise),
                ("reference_mode", reference_mode),
                ("bank_size", bank_size),
                ("n0", n0),
                ("n", n),
                ("alpha", alpha),
                ("target_radius", target_radius),
            )
            if value is not None
        },
    )
    specs = _specs(hash)
    if profile is not None and len(specs) > 1:
        raise InputError("profile cannot be given for several hashes; each uses its own profile")
    hashes = [as_hash(spec) for spec in specs]
    # Beside a hash that can only vote, a linear one stays exact, and parameters of votes are for the other.
    votes = any(hash_.linear is None for hash_ in hashes)
    members = tuple(_member(spec, hash_, rule, wanted, votes) for spec, hash_ in zip(specs, hashes, strict=True))
    recipe = None
    if all(isinstance(spec, str) for spec in specs):
        again = {**wanted.changes, "profile": wanted.profile, "parameters": parameters, "config": config}
        again |= {
            "for_codes": for_codes,
            "method": method,
            "rule": rule,
            "sigma": sigma,
            "lowpass": lowpass,
            "views": wanted.views,
            "on_abstain": on_abstain,
        }
        again |= {"engine": engine, "device": device, "batch_size": batch_size}
        recipe = Recipe(partial(deploy, specs, **again))
    try:
        policy = Decision(on_abstain.replace("-", "_"))
    except ValueError as error:
        raise InputError(f"unknown on_abstain {on_abstain!r}: use one of match, no-match, abstain") from error
    return Deployment(members, engine, device, batch_size, policy, recipe)


def match(
    reference: ImageLike | Reference,
    query: ImageLike,
    *,
    hash: HashLike | Sequence[HashLike] | Deployment = DEFAULT_HASH,
    seed: int | None = None,
    **parameters: Any,
) -> MatchResult:
    """Decide whether two images match, and certify the decision; takes the parameters of `deploy`.

    The reference is an image, a saved reference (or its path, ending in .dsref), or ``code:HEX``. For more than one
    pair make a deployment and reuse it: its engine starts only once.

    >>> import dualshield as ds
    >>> ds.match("a.jpg", "b.jpg", hash="pdq").decision  # doctest: +SKIP
    <Decision.MATCH: 'match'>
    """
    kept = Reference.load(reference) if is_kept(reference) else reference  # type: ignore[arg-type]
    is_bare = kept.is_bare if isinstance(kept, Reference) else is_bare_code(kept)
    if isinstance(kept, Reference) and not isinstance(hash, Deployment):
        parameters = {
            **parameters,
            "method": method_of(kept, parameters.get("method"), hash),
            "views": kept_views(kept, parameters.get("views"), hash),
        }
    deployment = as_deployment(hash, {"for_codes": True, **parameters} if is_bare else parameters)
    image = as_image(query)
    return deployment.match(as_reference(deployment, kept), image, noise=GaussianSource.make(seed))


def as_deployment(hash: HashLike | Sequence[HashLike] | Deployment, parameters: dict[str, Any]) -> Deployment:
    """Return ``hash`` if it is a deployment, or call `deploy` with these parameters."""
    if not isinstance(hash, Deployment):
        return deploy(hash, **parameters)
    given = [name for name in parameters if name != "for_codes"]
    if given:
        raise InputError(f"a deployment has its parameters already; {', '.join(given)} cannot be given")
    return hash


def as_reference(deployment: Deployment, source: ImageLike | Reference, *, force: bool = False) -> Reference:
    """Return a reference: the given one, loaded from its file, or enrolled from an image or a bare code."""
    if isinstance(source, Reference):
        return source
    if isinstance(source, str) and is_bare_code(source):
        return deployment.enroll_code(source.removeprefix(CODE_PREFIX), source)
    if is_kept(source):
        return Reference.load(source)  # type: ignore[arg-type]
    return deployment.enroll(source, force=force)


def as_hash(hash: HashLike) -> PerceptualHash:
    """Return a hash from its name or card path; a PerceptualHash is returned unchanged."""
    if isinstance(hash, PerceptualHash):
        return hash
    if isinstance(hash, str | os.PathLike):
        return get_hash(os.fsdecode(hash))
    raise InputError(f"a hash is a name, the path of a card or a PerceptualHash, not {type(hash).__name__}")


# -- finding the configuration ---------------------------------------------------------------------


def _specs(hash: HashLike | Sequence[HashLike]) -> list[str | PerceptualHash]:
    listed = [hash] if isinstance(hash, str | os.PathLike | PerceptualHash) else hash
    if not isinstance(listed, Sequence):
        raise InputError(f"a hash is a name, the path of a card or a PerceptualHash, not {type(hash).__name__}")
    found: list[str | PerceptualHash] = []
    for spec in listed:
        if isinstance(spec, str | os.PathLike):
            found += split_names(os.fsdecode(spec))
        else:
            found.append(as_hash(spec))
    return found


def _member(
    spec: str | PerceptualHash, hash_: PerceptualHash, rule: str | None, wanted: Wanted, beside_votes: bool
) -> Member:
    hash_ = hash_ if rule is None else hash_.with_rule(rule)
    if wanted.config is not None and not isinstance(wanted.config, MatcherConfig):
        raise InputError(f"config is of type {type(wanted.config).__name__}; give a MatcherConfig")
    profile = _profile(spec, hash_, wanted)
    native = hash_.rule == "native"
    if is_exact(hash_.name, hash_.linear, profile, wanted, native=native, beside_votes=beside_votes):
        config = exact_config(hash_.name, hash_.threshold, profile, wanted)
        return Member(hash_, config, profile, "" if profile and profile.exact else _warning(hash_, None, wanted))
    config_of_votes = wanted.config or _starting_point(hash_, profile, wanted)
    changes = dict(wanted.changes)
    if wanted.sigma is not None:
        changes["sigma"] = wanted.sigma
    if not isinstance(wanted.lowpass, Keep):
        changes["lowpass"] = wanted.lowpass
    config_of_votes = _with_views(hash_, config_of_votes, profile, wanted)
    if "threshold" in changes and config_of_votes.second_sigma is not None:
        changes["second_threshold"] = min(changes["threshold"], config_of_votes.second_threshold or 0.5)
    if wanted.parameters != "profile" and PAPER.threshold is not None:
        hash_ = hash_.with_threshold(PAPER.threshold)  # the paper uses one threshold for votes and the plain hash
    return Member(hash_, replace(config_of_votes, **changes), profile, _warning(hash_, profile, wanted))


def _with_views(hash_: PerceptualHash, config: MatcherConfig, profile: Profile | None, wanted: Wanted) -> MatcherConfig:
    """Return the configuration with the views asked for, or with the usual ones where they were calibrated."""
    found = views_of(hash_.name, profile, wanted)
    if wanted.views is None and found is not None and profile is not None and not _is_usual(config, profile, wanted):
        return config
    if found is None:
        return config
    if isinstance(found, Preset):
        return with_preset(config, found)
    nearest = None if profile is None else strictest(profile.presets)
    return replace(config if nearest is None else with_preset(config, nearest), views=found)


def _is_usual(config: MatcherConfig, profile: Profile, wanted: Wanted) -> bool:
    """Whether the configuration is of the kind that views were calibrated for."""
    kind = (wanted.changes.get("noise", config.noise), wanted.changes.get("reference_mode", config.reference_mode))
    lowpass = profile.lowpass if isinstance(wanted.lowpass, Keep) else wanted.lowpass
    return kind == ("linear", "code") and lowpass == profile.lowpass


def _profile(spec: str | PerceptualHash, hash_: PerceptualHash, wanted: Wanted) -> Profile | None:
    """Return the given profile, or find it by name; None where the parameters do not come from a profile."""
    if wanted.profile is not None or wanted.parameters != "profile" or wanted.config or hash_.rule == "native":
        return wanted.profile
    if isinstance(spec, str):
        return find_profile(spec)
    found = None if is_card(hash_.name) else find_profile(hash_.name)  # here a name must not be read as a path
    return found if found is not None and found.hash_version == hash_.version else None


def _warning(hash_: PerceptualHash, profile: Profile | None, wanted: Wanted) -> str:
    """Return a warning if sigma is the uncalibrated default, else an empty text."""
    if wanted.config or wanted.parameters != "profile" or profile is not None or wanted.sigma is not None:
        return ""
    what = f"the native rule of {hash_.name}" if hash_.rule == "native" else f"hash {hash_.name}"
    return f"{what} is not calibrated, using sigma {UNCALIBRATED_SIGMA:g}; run dualshield calibrate"


def _starting_point(hash_: PerceptualHash, profile: Profile | None, wanted: Wanted) -> MatcherConfig:
    """Return the paper's or the profile's configuration, before explicit arguments override it."""
    if wanted.parameters != "profile":
        if wanted.sigma == "auto":
            raise InputError(f"the paper's parameters have one sigma, {PAPER.sigma}; sigma auto needs a profile")
        paper = PAPER_LIMIT if wanted.parameters == "paper-limit" and hash_.is_linear else PAPER
        return replace(paper, reference_mode="code") if wanted.for_codes else paper
    if hash_.rule == "native" or profile is None:
        # Profiles are calibrated for a Hamming threshold, so they say nothing about a native rule.
        return MatcherConfig(sigma=UNCALIBRATED_SIGMA)
    lowpass = profile.lowpass if isinstance(wanted.lowpass, Keep) else wanted.lowpass
    if wanted.sigma in (None, "auto"):
        check_lowpass(lowpass)  # an invalid value gets this error, not "not calibrated"
    if wanted.for_codes:
        if wanted.sigma == "auto":
            raise InputError("sigma auto needs a reference image; with a bare code give sigma as a number")
        config = profile.external_config()
        if wanted.sigma is None and not isinstance(wanted.lowpass, Keep) and lowpass != config.lowpass:
            raise InputError("this low-pass is not the profile's for bare codes; give sigma as a number")
        return config
    if wanted.sigma in (None, "auto"):
        profile = profile.at_lowpass(lowpass)
    return profile.widest_config() if wanted.sigma == "auto" else profile.config()
