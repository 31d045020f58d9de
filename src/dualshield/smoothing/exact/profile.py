"""The calibrated parameters of an exact matcher, with the rates measured there; part of a hash's profile."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from dualshield.errors import InputError
from dualshield.smoothing.exact.config import ExactConfig


@dataclass(frozen=True)
class ExactRates:
    """Rates measured on calibration photos."""

    radius: float  # mean proven radius of (photo, same photo); 0 where the photo cannot be enrolled
    variants_matched: float  # fraction of transformed photos that match, over all transformations and strengths
    collisions: float  # fraction of ordered unrelated pairs, photo-photo and photo-blank, that match
    nearest: float  # smallest soft distance among those pairs, as a fraction of the bits

    def __post_init__(self) -> None:
        for name in ("radius", "variants_matched", "collisions", "nearest"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 <= value <= (1000 if name == "radius" else 1):
                raise InputError(f"{name} {value!r} is not in its range")


@dataclass(frozen=True)
class ExactProfile:
    """What enrolled references use (``sigmas``, ``thresholds``), and what bare codes use (``external_...``)."""

    lowpass: int | None
    sigmas: tuple[float, ...]
    thresholds: tuple[float, ...]
    external_sigma: float
    external_threshold: float
    unprotected: ExactRates
    deployed: ExactRates
    external: ExactRates

    def __post_init__(self) -> None:
        self.config()
        self.external_config()
        if max(self.deployed.collisions, self.external.collisions) > self.unprotected.collisions:
            raise InputError("more collisions were measured with its thresholds than with the plain hash")

    def config(self) -> ExactConfig:
        """The configuration for reference images: enrollment chooses among all sigmas."""
        return ExactConfig(self.sigmas, self.thresholds, self.lowpass)

    def external_config(self) -> ExactConfig:
        """The configuration for bare codes of the plain hash."""
        return ExactConfig((self.external_sigma,), (self.external_threshold,), self.lowpass)

    def false_matches_of(self, config: ExactConfig) -> float | None:
        """The fraction of unrelated pairs that matched with this configuration; None if it was not measured."""
        if config == self.config():
            return self.deployed.collisions
        return self.external.collisions if config == self.external_config() else None

    @staticmethod
    def parse(data: Any) -> ExactProfile:
        """Read it from a JSON object."""
        values = _values(ExactProfile, data, "exact")
        for name in ("sigmas", "thresholds"):
            if not isinstance(values[name], list | tuple) or len(values[name]) > 1000:
                raise InputError(f"exact: {name} is not a list")
            values[name] = tuple(values[name])
        for name in ("unprotected", "deployed", "external"):
            values[name] = ExactRates(**_values(ExactRates, values[name], f"exact: {name}"))
        return ExactProfile(**values)


def _values(kind: type[Any], data: Any, what: str) -> dict[str, Any]:
    names = {part.name for part in fields(kind)}
    if not isinstance(data, dict) or set(data) != names:
        raise InputError(f"{what} is not an object with the fields {', '.join(sorted(names))}")
    return dict(data)
