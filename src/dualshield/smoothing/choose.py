"""What a caller asks of a deployment, and whether it can be decided exactly; without torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from dualshield._common.checks import PATH, require
from dualshield.errors import InputError
from dualshield.hashes.linear.linear_hash import LinearHash
from dualshield.smoothing.config import Auto, MatcherConfig
from dualshield.smoothing.exact.config import VOTE_PARAMETERS, ExactConfig
from dualshield.smoothing.exact.reference import ExactReference
from dualshield.smoothing.names import Method
from dualshield.smoothing.preset import Preset
from dualshield.smoothing.profile import Profile, check_lowpass, find_profile, with_exact_preset
from dualshield.smoothing.profile_folder import is_card
from dualshield.smoothing.reference import Reference
from dualshield.smoothing.reference_file import SUFFIX
from dualshield.smoothing.views import NO_VIEWS, PRESETS, Views

# Used without a profile; small enough that no sensible hash collapses.
UNCALIBRATED_SIGMA = 0.1
CODE_PREFIX = "code:"
USUAL = "standard"  # the views of a deployment that names none
EXACT: Method = "exact"
VOTES: Method = "votes"


class Keep:
    """The type of ``KEEP``."""

    def __repr__(self) -> str:
        return "as configured"

    def __reduce__(self) -> str:
        return "KEEP"


ViewsLike = Views | str | os.PathLike[str]
"""Views, the name of a preset (``none``, ``standard``, ``thorough``), or the path of a JSON file of views."""
KEEP = Keep()
"""Default of parameters where None is a value of its own: keep the profile's value."""


@dataclass(frozen=True)
class Wanted:
    """The caller's parameters, the same for every member."""

    profile: Profile | None
    parameters: str
    config: MatcherConfig | None
    for_codes: bool
    method: Method | None
    sigma: float | Auto | None
    lowpass: int | Keep | None
    views: Views | str | None  # views, the name of a preset, or None for the usual ones
    changes: dict[str, Any]


def is_bare_code(source: object) -> bool:
    """Whether ``source`` is a bare code, ``code:HEX``."""
    return isinstance(source, str) and source.startswith(CODE_PREFIX)


def is_kept(source: object) -> bool:
    """Whether ``source`` is the path of a saved reference."""
    return isinstance(source, str | os.PathLike) and os.fsdecode(source).lower().endswith(SUFFIX)


def is_exact(
    name: str,
    linear: LinearHash | None,
    profile: Profile | None,
    wanted: Wanted,
    *,
    native: bool = False,
    beside_votes: bool = False,
) -> bool:
    """Whether queries are decided exactly: asked for, or possible, calibrated, and no parameter of votes given.

    Beside members that vote (``beside_votes``) parameters of votes are theirs.
    """
    given = [parameter for parameter in VOTE_PARAMETERS if parameter in wanted.changes and not beside_votes]
    of_votes = bool(given or wanted.config or wanted.parameters != "profile" or native)
    if wanted.method not in (None, *get_args(Method)):
        raise InputError(f"unknown method {wanted.method!r}: use one of {', '.join(get_args(Method))}")
    if wanted.method != "exact":
        known = linear is not None and profile is not None and profile.exact is not None
        return wanted.method is None and known and not of_votes
    if linear is None:
        raise InputError(f"hash {name} is not linear up to a threshold and has no exact matcher; use votes")
    if of_votes:
        other = "a config" if wanted.config else "a native rule" if native else "the paper's configuration"
        what = ", ".join(given) or other
        raise InputError(f"{what} belongs to votes; leave it out, or use the method votes")
    return True


def exact_config(name: str, plain_threshold: float, profile: Profile | None, wanted: Wanted) -> ExactConfig:
    """Return the profile's exact configuration of hash ``name``, with the explicit arguments in place."""
    exact = None if profile is None else profile.exact
    threshold = wanted.changes.get("threshold")
    if wanted.sigma == "auto" and wanted.for_codes:
        raise InputError("sigma auto needs a reference image; with a bare code give sigma as a number")
    asked = None if wanted.sigma == "auto" else wanted.sigma
    if asked is not None and not isinstance(asked, int | float):
        raise InputError(f"sigma {asked!r} is not a number")
    lowpass = wanted.lowpass if exact is None or not isinstance(wanted.lowpass, Keep) else exact.lowpass
    lowpass = None if isinstance(lowpass, Keep) else lowpass
    check_lowpass(lowpass)
    if exact is None or lowpass != exact.lowpass:
        # Nothing is calibrated here, so the threshold is the plain hash's.
        if exact is not None and asked is None:
            raise InputError(f"low-pass {lowpass or 'none'} is not calibrated; give sigma as a number")
        sigma = UNCALIBRATED_SIGMA if asked is None else float(asked)
        return ExactConfig((sigma,), (plain_threshold if threshold is None else threshold,), lowpass)
    found = views_of(name, profile, wanted, exact=True)
    external = wanted.for_codes and asked in (None, exact.external_sigma)
    config = exact.external_config() if external else exact.config()
    if isinstance(found, Preset):
        config = with_exact_preset(config, found)
    elif found is not None:
        config = _with_own_views(config, found, profile)
    if asked is not None and threshold is not None:
        return ExactConfig((float(asked),), (threshold,), lowpass, config.views)
    config = config if asked is None else config.with_sigma(asked)
    return config if threshold is None else replace(config, thresholds=(threshold,) * len(config.sigmas))


def _with_own_views(config: ExactConfig, views: Views, profile: Profile | None) -> ExactConfig:
    """Return the configuration with views of the user's; thresholds are those of the preset with the most views."""
    preset = strictest({} if profile is None else profile.presets)
    if preset is not None and preset.exact_thresholds is not None:
        config = with_exact_preset(config, preset)
    return replace(config, views=views)


def as_views(views: ViewsLike | None) -> Views | str | None:
    """Return views, or the name of a preset; a path is read."""
    require("views", views, Views, *PATH, or_none=True)
    if views is None or isinstance(views, Views) or (isinstance(views, str) and views in PRESETS):
        return views
    if isinstance(views, str) and not views.lower().endswith(".json"):
        raise InputError(f"unknown views {views!r}: use one of {', '.join(PRESETS)}, or a file that ends in .json")
    return Views.load(views)


def views_of(name: str, profile: Profile | None, wanted: Wanted, *, exact: bool = False) -> Views | Preset | None:
    """Return the preset or the views that are asked for, or the usual preset; None for images as they are."""
    asked = wanted.views
    presets = {} if profile is None else profile.presets
    if asked is None:
        known = wanted.parameters == "profile" and wanted.config is None and not wanted.for_codes
        usual = presets.get(USUAL) if known else None
        calibrated = usual is not None and (usual.exact_thresholds if exact else usual.threshold) is not None
        return usual if calibrated else None
    if isinstance(asked, Views):
        return None if asked.is_none else asked
    if asked == "none":
        return None
    if wanted.for_codes:
        raise InputError("views need a reference image; a bare code is matched with views none")
    if asked not in presets:
        known_names = ", ".join(("none", *presets))
        raise InputError(f"hash {name} has no calibrated views {asked!r}: use one of {known_names}, or a file of views")
    return presets[asked]


def kept_views(kept: Reference | None, asked: ViewsLike | None, hashes: object) -> ViewsLike | None:
    """Return the views asked for, or the name of those that a saved reference of one hash was enrolled with."""
    if asked is not None or kept is None or len(kept.members) > 1 or kept.is_bare:
        return asked
    views, name = kept.members[0].terms["views"], str(kept.members[0].terms["hash"]["name"])
    if isinstance(hashes, str) and hashes != name:
        return None
    if views == NO_VIEWS.to_json():
        return "none"
    profile = find_profile(name) if not is_card(name) else None
    presets = {} if profile is None else profile.presets
    return next((known for known, preset in presets.items() if preset.views.to_json() == views), None)


def strictest(presets: Mapping[str, Preset]) -> Preset | None:
    """Return the preset with the most views, whose thresholds are the lowest."""
    return max(presets.values(), key=lambda preset: len(preset.views.reference), default=None)


def method_of(kept: Reference | None, asked: Method | None, hashes: object) -> Method | None:
    """Return the method asked for, or the one that a saved reference of these hashes was enrolled for."""
    if asked is not None or kept is None:
        return asked
    if isinstance(hashes, str) and hashes != "+".join(str(member.terms["hash"]["name"]) for member in kept.members):
        return None
    kinds = {isinstance(member, ExactReference) for member in kept.members}
    return {frozenset({True}): EXACT, frozenset({False}): VOTES}.get(frozenset(kinds))
