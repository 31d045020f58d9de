"""The parameters of an exact matcher."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal

from dualshield.errors import InputError
from dualshield.images.space import CANONICAL_SIZE
from dualshield.smoothing.names import Method
from dualshield.smoothing.views import NO_VIEWS, Views

MIN_SIGMA, MAX_SIGMA = 1e-3, 1000  # with less noise the soft median is finer than floating point resolves
# Parameters of votes, which an exact matcher does not have.
VOTE_PARAMETERS = ("noise", "reference_mode", "bank_size", "n0", "n", "alpha", "target_radius")


@dataclass(frozen=True)
class ExactConfig:
    """Everything that defines an exact matcher, apart from the hash.

    ``sigmas`` and ``thresholds`` belong together: with the i-th sigma a query matches if its soft distance, as a
    fraction of the bits, is at most the i-th threshold. Enrollment chooses for each reference the sigma with the
    largest radius.
    """

    sigmas: tuple[float, ...]
    thresholds: tuple[float, ...]
    lowpass: int | None = None
    views: Views = NO_VIEWS

    def __post_init__(self) -> None:
        for sigma in self.sigmas:
            _check_sigma(sigma)
        if not isinstance(self.views, Views):
            raise InputError(f"views are of type {type(self.views).__name__}; give Views")
        if not self.sigmas or len(self.sigmas) != len(self.thresholds) or len(set(self.sigmas)) < len(self.sigmas):
            raise InputError("an exact matcher needs one or more different sigmas, and one threshold for each")
        for threshold in self.thresholds:
            if not (_is_number(threshold) and 0 <= threshold < 0.5):
                raise InputError(f"threshold {threshold} is not a bit error rate in [0, 0.5)")
        if self.lowpass is not None and (not isinstance(self.lowpass, int) or isinstance(self.lowpass, bool)):
            raise InputError(f"low-pass {self.lowpass!r} is neither a whole number nor None")
        if self.lowpass is not None and not 2 <= self.lowpass <= CANONICAL_SIZE:
            raise InputError(f"low-pass {self.lowpass} is not between 2 and {CANONICAL_SIZE}")

    # What configurations of votes also have.
    method: ClassVar[Method] = "exact"
    noise: ClassVar[str] = "exact"
    alpha: ClassVar[float] = 0.0
    target_radius: ClassVar[float | None] = None
    most_votes: ClassVar[int] = 0
    certifies: ClassVar[bool] = True
    radius_ceiling: ClassVar[float | None] = None

    @property
    def sigma(self) -> float | Literal["auto"]:
        """The one sigma, or "auto" where enrollment chooses."""
        return self.sigmas[0] if len(self.sigmas) == 1 else "auto"

    def threshold_at(self, sigma: float) -> float:
        """Return the threshold that belongs to a sigma."""
        return self.thresholds[self.sigmas.index(sigma)]

    def with_sigma(self, sigma: float | str) -> ExactConfig:
        """Return the configuration with one sigma; between two, the threshold of the smaller one, which is lower."""
        if sigma == "auto":
            return self
        _check_sigma(sigma)
        below = [i for i, known in enumerate(self.sigmas) if known <= float(sigma) * (1 + 1e-12)]
        if not below:
            smallest = min(self.sigmas)
            raise InputError(
                f"sigma {sigma} is below {smallest:g}, the smallest calibrated one; take a larger one, or use votes"
            )
        nearest = max(below, key=lambda i: self.sigmas[i])
        return replace(self, sigmas=(float(sigma),), thresholds=(self.thresholds[nearest],))

    def changed(self, changes: dict[str, Any]) -> ExactConfig:
        """Return a copy with changed parameters; those of votes mean nothing here and are left out."""
        left = {name: value for name, value in changes.items() if name not in VOTE_PARAMETERS}
        if left.get("lowpass", self.lowpass) != self.lowpass:
            raise InputError("thresholds of an exact matcher belong to its low-pass; deploy it anew with the other one")
        changed = self if "sigma" not in left else self.with_sigma(left.pop("sigma"))
        if "threshold" in left:
            left["thresholds"] = (left.pop("threshold"),) * len(changed.sigmas)
        unknown = left.keys() - {field.name for field in fields(self)}
        if unknown:
            raise InputError(f"an exact matcher has no {', '.join(sorted(unknown))}; use votes, or leave it out")
        return replace(changed, **left)


def _check_sigma(sigma: object) -> None:
    if not (_is_number(sigma) and MIN_SIGMA <= sigma <= MAX_SIGMA):  # type: ignore[operator]
        raise InputError(
            f"sigma {str(sigma)[:20]} is not in [{MIN_SIGMA:g}, {MAX_SIGMA}]; it is in units of the pixel range [0, 1]"
        )


def _is_number(value: object) -> bool:
    # Not math.isfinite, which fails on a whole number that no float can hold.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
