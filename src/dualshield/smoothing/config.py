"""The parameters of a smoothed matcher, and their calibrated defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from dualshield._common.checks import require
from dualshield.errors import InputError
from dualshield.smoothing.names import Method, NoiseName, ReferenceMode
from dualshield.smoothing.statistics import radius_ceiling
from dualshield.smoothing.views import NO_VIEWS, Views

if TYPE_CHECKING:  # what draws noise needs torch, which takes a second to load
    from dualshield.smoothing.noise_kinds import NoiseKind

Auto = Literal["auto"]
MAX_DRAWS = 100_000_000
DEFAULT_N = 5000
DEFAULT_ALPHA = 1e-3
DEFAULT_BANK = 101
MIN_SIGMA, MAX_SIGMA = 1e-6, 1000
# Below this the inverse functions behind the bounds lose accuracy.
MIN_ALPHA = 1e-30


@dataclass(frozen=True)
class MatcherConfig:
    """Everything that defines the smoothed matcher, apart from the hash.

    ``sigma`` may be "auto": enrollment then chooses for each reference, from separate draws, the sigma of
    ``sigma_grid`` with the largest expected radius. Images with little texture get a smaller sigma than textured ones.
    """

    sigma: float | Auto
    reference_mode: ReferenceMode = "code"
    noise: NoiseName = "linear"
    lowpass: int | None = None
    threshold: float | None = None  # None: the hash's own
    n0: int = 100
    n: int = DEFAULT_N
    alpha: float = DEFAULT_ALPHA
    target_radius: float | None = None
    bank_size: int = DEFAULT_BANK
    sigma_grid: tuple[float, ...] = ()
    views: Views = NO_VIEWS
    second_sigma: float | None = None  # a small sigma beside the reference's own: a match at either is a match
    second_threshold: float | None = None  # None: that of the votes at the other sigma
    probes: bool = False  # whether enrollment compares references with the probes (`probes`)

    def __post_init__(self) -> None:
        require("sigma", self.sigma, int, float, str)
        require("sigma grid", self.sigma_grid, tuple)
        for sigma in (*([] if self.sigma == "auto" else [self.sigma]), *self.sigma_grid):
            if not (_is_number(sigma) and MIN_SIGMA <= sigma <= MAX_SIGMA):
                raise InputError(
                    f"sigma {sigma} is not in [{MIN_SIGMA:g}, {MAX_SIGMA}]; it is in units of the pixel range [0, 1]"
                )
        if self.sigma == "auto" and not self.sigma_grid:
            raise InputError("sigma auto needs a calibrated profile with a sigma grid; run dualshield calibrate")
        if not (_is_number(self.alpha) and MIN_ALPHA <= self.alpha < 1):
            raise InputError(f"alpha {self.alpha} is not in [{MIN_ALPHA:g}, 1)")
        if self.threshold is not None and not (_is_number(self.threshold) and 0 <= self.threshold < 0.5):
            raise InputError(f"threshold {self.threshold} is not a bit error rate in [0, 0.5)")
        for name, value in (("n", self.n), ("n0", self.n0), ("bank size", self.bank_size)):
            if not _is_whole(value) or not 1 <= value <= MAX_DRAWS:
                raise InputError(f"{name} {value} is not a whole number between 1 and {MAX_DRAWS}")
        if self.lowpass is not None and not _is_whole(self.lowpass):
            raise InputError(f"low-pass {self.lowpass!r} is neither a whole number nor None")
        if self.target_radius is not None and not (_is_number(self.target_radius) and self.target_radius >= 0):
            raise InputError(f"target radius {self.target_radius} is not a number of at least 0")
        if self.noise not in get_args(NoiseName):
            raise InputError(f"unknown noise {self.noise!r}: use one of {', '.join(get_args(NoiseName))}")
        self._check_trials()
        if self.reference_mode not in get_args(ReferenceMode):
            known = ", ".join(get_args(ReferenceMode))
            raise InputError(f"unknown reference mode {self.reference_mode!r}: use one of {known}")

    def _check_trials(self) -> None:
        require("views", self.views, Views)
        second = self.second_sigma
        if second is not None and not (_is_number(second) and MIN_SIGMA <= second <= MAX_SIGMA):
            raise InputError(f"second sigma {second} is not in [{MIN_SIGMA:g}, {MAX_SIGMA}]")
        limit = self.second_threshold
        if limit is not None and not (_is_number(limit) and 0 <= limit < 0.5):
            raise InputError(f"second threshold {limit} is not a bit error rate in [0, 0.5)")
        if limit is not None and second is None:
            raise InputError("a second threshold needs a second sigma")
        require("probes", self.probes, bool)
        if self.views.is_none and second is None and not self.probes:
            return
        for what, value, needed in (("noise", self.noise, "linear"), ("reference mode", self.reference_mode, "code")):
            if value != needed:
                raise InputError(
                    f"views, a second sigma and probes need the {what} {needed}, not {value}; leave them out"
                )

    method: ClassVar[Method] = "votes"

    def changed(self, changes: dict[str, Any]) -> MatcherConfig:
        """Return a copy with changed parameters."""
        return replace(self, **changes)

    @property
    def sigmas(self) -> tuple[float, ...]:
        """All sigmas that enrollment may choose from."""
        return self.sigma_grid if self.sigma == "auto" else (self.sigma,)

    @property
    def noise_kind(self) -> NoiseKind:
        """The noise kind that ``noise`` names."""
        from dualshield.smoothing.noise_kinds import noise_kind

        return noise_kind(self.noise)

    @property
    def certifies(self) -> bool:
        """Whether votes under this noise certify; votes under a limit law are only estimates."""
        return self.noise_kind.certifies

    @property
    def most_votes(self) -> int:
        """The largest number of votes for one decision."""
        count = self.most_trials
        return count * self.n if self.target_radius is not None else count * self.n0 + self.n

    @property
    def most_trials(self) -> int:
        """The largest number of trials: views of the query, at each sigma of a reference."""
        return len(self.views.query) * (1 if self.second_sigma is None else 2)

    @property
    def radius_ceiling(self) -> float:
        """The largest radius that ``n`` draws can certify: all votes agree, at the largest sigma."""
        return radius_ceiling(max(self.sigmas), self.n, self.alpha)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


PAPER = MatcherConfig(sigma=0.1, reference_mode="paired", noise="clipped", threshold=0.2, n0=100, n=5000, alpha=1e-3)
"""The paper's parameters (Detailed Experimental Protocol, hardening and smoothing)."""

PAPER_LIMIT = replace(PAPER, noise="clipped-limit")
"""PAPER with normal-law noise for linear hashes: for experiments on many images, never a certificate."""
