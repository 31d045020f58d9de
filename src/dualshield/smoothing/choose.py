"""What a caller asks of a deployment, and whether it can be decided exactly; without torch."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, get_args

from dualshield.errors import InputError
from dualshield.hashes.linear.linear_hash import LinearHash
from dualshield.smoothing.config import Auto, MatcherConfig
from dualshield.smoothing.exact.config import VOTE_PARAMETERS, ExactConfig
from dualshield.smoothing.names import Method
from dualshield.smoothing.profile import Profile, check_lowpass
from dualshield.smoothing.reference_file import SUFFIX

# Used without a profile; small enough that no sensible hash collapses.
UNCALIBRATED_SIGMA = 0.1
CODE_PREFIX = "code:"


class Keep:
    """The type of ``KEEP``."""

    def __repr__(self) -> str:
        return "as configured"

    def __reduce__(self) -> str:
        return "KEEP"


KEEP = Keep()
"""Default of parameters where None is a value of its own: keep the profile's value."""


@dataclass(frozen=True)
class Wanted:
    """The caller's parameters, the same for every member."""

    profile: Profile | None
    parameters: str
    config: MatcherConfig | None
    for_codes: bool
    method: str | None
    sigma: float | Auto | None
    lowpass: int | Keep | None
    changes: dict[str, Any]


def is_bare_code(source: object) -> bool:
    """Whether ``source`` is a bare code, ``code:HEX``."""
    return isinstance(source, str) and source.startswith(CODE_PREFIX)


def is_kept(source: object) -> bool:
    """Whether ``source`` is the path of a saved reference."""
    return isinstance(source, str | os.PathLike) and os.fsdecode(source).lower().endswith(SUFFIX)


def is_exact(
    name: str, linear: LinearHash | None, profile: Profile | None, wanted: Wanted, *, native: bool = False
) -> bool:
    """Whether queries are decided exactly: asked for, or possible, calibrated, and no parameter of votes given."""
    given = [parameter for parameter in VOTE_PARAMETERS if parameter in wanted.changes]
    of_votes = bool(given or wanted.config or wanted.parameters != "profile" or native)
    if wanted.method not in (None, *get_args(Method)):
        raise InputError(f"unknown method {wanted.method!r}: use one of {', '.join(get_args(Method))}")
    if wanted.method != "exact":
        known = linear is not None and profile is not None and profile.exact is not None
        return wanted.method is None and known and not of_votes
    if linear is None:
        raise InputError(f"hash {name} is not linear up to a threshold and has no exact matcher; use votes")
    if of_votes:
        what = ", ".join(given) or "config, the paper's parameters and a native rule"
        raise InputError(f"{what} belongs to votes; leave it out, or use the method votes")
    return True


def exact_config(plain_threshold: float, profile: Profile | None, wanted: Wanted) -> ExactConfig:
    """Return the profile's exact configuration, with the explicit arguments in place."""
    exact = None if profile is None else profile.exact
    if exact is None:
        config = ExactConfig((UNCALIBRATED_SIGMA,), (plain_threshold,))
    else:
        config = exact.external_config() if wanted.for_codes else exact.config()
    if not isinstance(wanted.lowpass, Keep) and wanted.lowpass != config.lowpass:
        check_lowpass(wanted.lowpass)
        config = replace(config, lowpass=wanted.lowpass)
    threshold = wanted.changes.get("threshold")
    if wanted.sigma == "auto" and wanted.for_codes:
        raise InputError("sigma auto needs a reference image; with a bare code give sigma as a number")
    if wanted.sigma not in (None, "auto"):
        sigma = float(wanted.sigma)
        if threshold is not None:
            return ExactConfig((sigma,), (threshold,), config.lowpass)
        known = config if exact is None else replace(exact.config(), lowpass=config.lowpass)
        return known.with_sigma(sigma)
    return config if threshold is None else replace(config, thresholds=(threshold,) * len(config.sigmas))
