"""The parameters of a smoothed matcher, and their calibrated defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

from dualshield.errors import InputError
from dualshield.smoothing.reference import ReferenceMode
from dualshield.smoothing.sampler import NoiseKind
from dualshield.smoothing.statistics import radius_ceiling

Auto = Literal["auto"]
MAX_DRAWS = 100_000_000
DEFAULT_N = 5000
DEFAULT_BANK = 101
MAX_SIGMA = 1000


@dataclass(frozen=True)
class MatcherConfig:
    """Everything that defines the smoothed matcher, apart from the hash.

    ``sigma`` may be "auto": each reference then gets, at enrolment and from draws of its own, the sigma of
    ``sigma_grid`` with the largest expected radius. That is how a faint image is kept from drowning in the noise that
    a textured one bears.
    """

    sigma: float | Auto
    reference_mode: ReferenceMode = "code"
    noise: NoiseKind = "linear"
    lowpass: int | None = None
    threshold: float | None = None  # None: the hash's own
    n0: int = 100
    n: int = DEFAULT_N
    alpha: float = 1e-3
    target_radius: float | None = None
    bank_size: int = DEFAULT_BANK
    sigma_grid: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for sigma in (self.sigma, *self.sigma_grid):
            if sigma != "auto" and not (math.isfinite(sigma) and 0 < sigma <= MAX_SIGMA):
                raise InputError(f"sigma {sigma} is not in (0, {MAX_SIGMA}]; it is in units of the pixel range [0, 1]")
        if self.sigma == "auto" and not self.sigma_grid:
            raise InputError("sigma auto needs a calibrated profile with a grid of sigmas; run dualshield calibrate")
        if not 0 < self.alpha < 1:
            raise InputError(f"alpha {self.alpha} is not in (0, 1)")
        for name, value, least in (("n", self.n, 1), ("n0", self.n0, 1), ("bank size", self.bank_size, 1)):
            if not least <= value <= MAX_DRAWS:
                raise InputError(f"{name} {value} is not between {least} and {MAX_DRAWS}")
        if self.target_radius is not None and not (math.isfinite(self.target_radius) and self.target_radius >= 0):
            raise InputError(f"target radius {self.target_radius} is not a number of at least 0")
        for name, choice, known in (
            ("reference mode", self.reference_mode, get_args(ReferenceMode)),
            ("noise", self.noise, get_args(NoiseKind)),
        ):
            if choice not in known:
                raise InputError(f"unknown {name} {choice!r}: use one of {', '.join(known)}")

    @property
    def radius_ceiling(self) -> float:
        """The largest radius that ``n`` draws can certify: all votes agree, under the widest noise it may choose."""
        widest = max(self.sigma_grid) if self.sigma == "auto" else self.sigma
        return radius_ceiling(widest, self.n, self.alpha)


PAPER = MatcherConfig(sigma=0.1, reference_mode="paired", noise="clipped", threshold=0.2, n0=100, n=5000, alpha=1e-3)
"""The paper's parameters (Detailed Experimental Protocol, hardening and smoothing)."""

PAPER_LIMIT = replace(PAPER, noise="clipped-limit")
"""The same with the noise of linear hashes from its normal law: for experiments on many images, never a certificate."""
