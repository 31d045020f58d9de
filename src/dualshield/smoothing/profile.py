"""Profiles: the calibrated low-pass, sigma and threshold of a hash, with the rates measured there."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualshield._common.files import read_limited, write_atomically
from dualshield.errors import InputError
from dualshield.images.space import CANONICAL_SIZE
from dualshield.smoothing.config import MAX_SIGMA, MatcherConfig
from dualshield.smoothing.exact.config import ExactConfig
from dualshield.smoothing.exact.profile import ExactProfile
from dualshield.smoothing.preset import Preset, presets_from_json, presets_to_json
from dualshield.smoothing.profile_folder import is_there, profile_file, shipped_file

if TYPE_CHECKING:  # torch takes a second to load, and reading a profile does not need it
    from dualshield.hashes.perceptual_hash import PerceptualHash

MAX_BYTES = 16 * 2**20
VARIANT_TOLERANCE = 0.01
OPTIONAL = ("exact", "presets")  # not in profiles from before there were exact matchers, and views
# Mean radii above this fraction of the best count as equal: a calibration cannot tell them apart.
SAME_RADIUS = 0.99


@dataclass(frozen=True)
class Rates:
    """Rates measured at one grid point for one kind of reference."""

    threshold: float  # largest bit error rate at which a vote matches
    radius_identity: float  # mean certified radius of (photo, same photo)
    radius_variants: float  # mean certified radius of (photo, benign variant), 0 where not certified as a match
    variants_matched: float  # fraction of benign variants that match
    collisions: float  # fraction of ordered unrelated pairs, photo-photo and photo-blank, that match
    worst_unrelated: float  # largest single-draw match probability seen among those pairs

    def __post_init__(self) -> None:
        if not 0 <= _number("threshold", self.threshold) < 0.5:
            raise InputError(f"threshold {self.threshold} is not in [0, 0.5)")
        for name in ("radius_identity", "radius_variants"):
            if not _number(name, getattr(self, name)) >= 0:
                raise InputError(f"{name} {getattr(self, name)} is below 0")
        for name in ("variants_matched", "collisions", "worst_unrelated"):
            if not 0 <= _number(name, getattr(self, name)) <= 1:
                raise InputError(f"{name} {getattr(self, name)} is not in [0, 1]")

    @staticmethod
    def parse(data: Any, what: str) -> Rates:
        """Read rates from a JSON object."""
        return Rates(**_values(Rates, data, what))

    def keeps(self, unprotected: Rates) -> bool:
        """Whether collisions do not exceed the unprotected rate, and variants match within one point of it."""
        enough = unprotected.variants_matched - VARIANT_TOLERANCE
        return self.collisions <= unprotected.collisions and self.variants_matched >= enough


@dataclass(frozen=True)
class GridPoint:
    """The measurements at one low-pass and sigma.

    ``consensus``: references enrolled as deployed, each with the best sigma of the grid up to this one.
    ``external``: bare codes of the plain hash, at exactly this sigma.
    """

    lowpass: int | None
    sigma: float
    consensus: Rates
    external: Rates

    def __post_init__(self) -> None:
        check_lowpass(self.lowpass)
        if not 0 < _number("sigma", self.sigma) <= MAX_SIGMA:
            raise InputError(f"sigma {self.sigma} is not positive and at most {MAX_SIGMA}")

    @staticmethod
    def parse(data: Any) -> GridPoint:
        """Read a grid point from a JSON object."""
        values = _values(GridPoint, data, "a point of the grid")
        rates = {name: Rates.parse(values[name], name) for name in ("consensus", "external")}
        return GridPoint(**{**values, **rates})

    def __str__(self) -> str:
        return f"low-pass {self.lowpass or 'none'}, sigma {self.sigma:g}"


@dataclass(frozen=True)
class Profile:
    """The outcome of a calibration; JSON on disk.

    The deployed parameters must be a measured point of its grid; anything else is an error. ``sigma`` is the largest
    sigma that enrollment may choose. ``threshold`` is the vote threshold; calibration sets it below the plain hash's
    where noise and low-pass would otherwise cause collisions.
    """

    hash: str
    hash_version: str
    threshold: float
    lowpass: int | None
    sigma: float
    external_threshold: float
    external_lowpass: int | None
    external_sigma: float
    unprotected: Rates
    grid: tuple[GridPoint, ...]
    measured: dict[str, Any] = field(default_factory=dict)  # images, pairs, draws, alpha, seed, date
    exact: ExactProfile | None = None  # of hashes that are linear up to a threshold
    presets: dict[str, Preset] = field(default_factory=dict)  # of views

    def __post_init__(self) -> None:
        for name, kind in (("hash", str), ("hash_version", str), ("measured", dict)):
            if not isinstance(getattr(self, name), kind):
                raise InputError(f"{name} is of type {type(getattr(self, name)).__name__}")
        if len({(point.lowpass, point.sigma) for point in self.grid}) < len(self.grid):
            raise InputError("the same point occurs twice in its grid")
        external = self._at(self.external_lowpass, self.external_sigma).external
        for name, rates in (("threshold", self._chosen.consensus), ("external_threshold", external)):
            if getattr(self, name) != rates.threshold:
                raise InputError(f"its {name} is {getattr(self, name)!r}, but {rates.threshold} in its grid")
        if self._chosen.consensus.collisions > self.unprotected.collisions:
            raise InputError(f"more collisions were measured at {self._chosen} than with the plain hash")
        for name, preset in self.presets.items():
            by_exact = preset.exact_thresholds
            if by_exact is not None and (self.exact is None or len(by_exact) != len(self.exact.sigmas)):
                raise InputError(f"its views {name} do not have one threshold for each sigma of its exact matcher")
        # True is equal to 1, and no number.
        for name in ("threshold", "sigma", "external_threshold", "external_sigma"):
            _number(name, getattr(self, name))

    def __repr__(self) -> str:
        lowpass = "" if self.lowpass is None else f", low-pass {self.lowpass}"
        return f"<Profile of {self.hash} {self.hash_version}: sigma up to {self.sigma:g}{lowpass}>"

    def _points(self) -> list[GridPoint]:
        return [point for point in self.grid if point.lowpass == self.lowpass]

    def _at(self, lowpass: int | None, sigma: float) -> GridPoint:
        for point in self.grid:
            if (point.lowpass, point.sigma) == (lowpass, sigma):
                return point
        raise InputError(
            f"its grid has no point at low-pass {'none' if lowpass is None else repr(lowpass)}, sigma {sigma!r}"
        )

    @property
    def _chosen(self) -> GridPoint:
        return self._at(self.lowpass, self.sigma)

    def config(self) -> MatcherConfig:
        """The default configuration: linear noise, mode code, each reference's sigma up to the profile's."""
        return self._config(self._chosen)

    @property
    def false_matches(self) -> float:
        """The fraction of unrelated pairs that matched with the default configuration."""
        return self._chosen.consensus.collisions

    def false_matches_of(self, config: MatcherConfig | ExactConfig) -> float | None:
        """The fraction of unrelated pairs that matched with this configuration; None if it was not measured."""
        if isinstance(config, ExactConfig):
            if self.exact is None:
                return None
            for preset in self.presets.values():
                if not config.views.is_none and config == with_exact_preset(self.exact.config(), preset):
                    return preset.false_matches
            return self.exact.false_matches_of(config)
        for preset in self.presets.values():
            if preset.views == config.views and preset.threshold is not None:
                viewed = replace(with_preset(self.config(), preset), **_certifying(config))
                return preset.false_matches if viewed == config else None
        widest = self.widest_config()
        measured = (
            (self.config(), self.false_matches),
            (widest, self._at(self.lowpass, max(widest.sigmas)).consensus.collisions),
            (self.external_config(), self._at(self.external_lowpass, self.external_sigma).external.collisions),
        )
        asked = {**_certifying(config), "probes": config.probes}
        return next((rate for candidate, rate in measured if replace(candidate, **asked) == config), None)

    def widest_config(self) -> MatcherConfig:
        """The configuration of sigma "auto": each reference's sigma up to the largest that costs no collisions.

        Ordinary photos gain nothing from the largest sigmas; hardened photos do.
        """
        limit = self.unprotected.collisions
        points = [point for point in self._points() if point.consensus.collisions <= limit]
        best = max(point.consensus.radius_identity for point in points)
        return self._config(
            max((p for p in points if p.consensus.radius_identity >= SAME_RADIUS * best), key=lambda p: p.sigma)
        )

    def _config(self, point: GridPoint) -> MatcherConfig:
        # All sigmas of the grid up to this point: the same choice as in the measurement.
        sigmas = tuple(p.sigma for p in self._points() if p.sigma <= point.sigma)
        threshold = point.consensus.threshold
        return MatcherConfig(sigma="auto", lowpass=self.lowpass, threshold=threshold, sigma_grid=sigmas)

    def at_lowpass(self, lowpass: int | None) -> Profile:
        """Return a profile with the same measurements that deploys another low-pass of the grid."""
        if lowpass == self.lowpass:
            return self
        check_lowpass(lowpass)
        points = [point for point in self.grid if point.lowpass == lowpass and point.consensus.keeps(self.unprotected)]
        if not points:
            raise InputError(
                f"low-pass {lowpass or 'none'} has no calibrated sigma for {self.hash}; give sigma as a number"
            )
        best = max(points, key=lambda point: point.consensus.radius_identity)
        # What was calibrated for exact matching and for views belongs to another low-pass.
        found = replace(self, presets={}, exact=None)
        return replace(found, lowpass=lowpass, sigma=best.sigma, threshold=best.consensus.threshold)

    def external_config(self) -> MatcherConfig:
        """The configuration for bare codes of the plain hash, without reference images."""
        return MatcherConfig(
            sigma=self.external_sigma, lowpass=self.external_lowpass, threshold=self.external_threshold
        )

    def save(self, file: Path) -> None:
        """Write the profile atomically: an old file is replaced as a whole or not at all."""
        write_atomically(file, (json.dumps(self.to_json(), indent=1) + "\n").encode())

    def to_json(self) -> dict[str, Any]:
        """Return the profile as JSON values."""
        return {**asdict(self), "presets": presets_to_json(self.presets)}

    @staticmethod
    def load(file: Path) -> Profile:
        """Read a profile written by ``save``."""
        data = read_limited(file, MAX_BYTES)
        try:
            return Profile.parse(data.decode(), str(file))
        except UnicodeDecodeError as error:
            raise InputError(
                f"{file} is not a DualShield profile: it is not text; write one with dualshield calibrate"
            ) from error

    @staticmethod
    def parse(text: str, name: str) -> Profile:
        """Read a profile from its JSON text."""
        try:
            values = _values(Profile, json.loads(text), "it")
            if not isinstance(values["grid"], list):
                raise InputError("its grid is not a list")
            values["grid"] = tuple(GridPoint.parse(point) for point in values["grid"])
            values["unprotected"] = Rates.parse(values["unprotected"], "unprotected")
            values["exact"] = None if values["exact"] is None else ExactProfile.parse(values["exact"])
            values["presets"] = presets_from_json({} if values["presets"] is None else values["presets"])
            profile = Profile(**values)
            profile.config()
            profile.external_config()
            return profile
        except InputError as error:
            why = str(error)
        except (ValueError, RecursionError) as error:
            why = f"it is not JSON ({error})"
        raise InputError(f"{name} is not a DualShield profile: {why}; write one with dualshield calibrate")


def with_preset(config: MatcherConfig, preset: Preset) -> MatcherConfig:
    """Return a configuration of votes with a preset's views and thresholds; enrollment compares with the probes."""
    return replace(
        config,
        views=preset.views,
        threshold=config.threshold if preset.threshold is None else preset.threshold,
        second_sigma=preset.second_sigma,
        second_threshold=preset.second_threshold,
        probes=True,
    )


def with_exact_preset(config: ExactConfig, preset: Preset) -> ExactConfig:
    """Return an exact configuration with a preset's views and thresholds."""
    thresholds = preset.exact_thresholds
    if thresholds is None or len(thresholds) != len(config.sigmas):
        raise InputError("these views are not calibrated for the exact matcher; use views none")
    return replace(config, views=preset.views, thresholds=thresholds)


def _certifying(config: MatcherConfig) -> dict[str, Any]:
    """The parameters of a configuration that false matches do not depend on."""
    return {
        "n0": config.n0,
        "n": config.n,
        "alpha": config.alpha,
        "target_radius": config.target_radius,
    }


def find_profile(spec: str) -> Profile | None:
    """Return the calibrated profile of a hash name or card, or None if there is none.

    It is looked for beside the card, in the user's profile folder and in the package.
    """
    file, shipped = profile_file(spec), shipped_file(spec)
    own = Profile.load(file) if file is not None and is_there(file) else None
    if shipped is None:
        return own
    found = Profile.parse(shipped.read_text(encoding="utf-8"), shipped.name)
    # The user's profile comes first, unless it was calibrated for another version of the hash.
    return own if own is not None and (own.hash, own.hash_version) == (found.hash, found.hash_version) else found


def check_lowpass(lowpass: object) -> None:
    """Raise an error if ``lowpass`` is not valid for a canonical image."""
    if lowpass is None:
        return
    if not isinstance(lowpass, int) or isinstance(lowpass, bool):
        raise InputError(f"low-pass {lowpass!r} is not a whole number")
    if not 2 <= lowpass <= CANONICAL_SIZE:
        raise InputError(f"low-pass {lowpass} is not between 2 and {CANONICAL_SIZE}")


def _number(what: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= sys.float_info.max:
        raise InputError(f"{what} {value!r} is not a number")
    return value


def _values(kind: type[Any], data: Any, what: str) -> dict[str, Any]:
    """Return the fields of a dataclass from a JSON object; raise an error if one is missing."""
    if not isinstance(data, dict):
        raise InputError(f"{what} is not an object")
    for part in fields(kind):
        if part.name not in data and part.name not in OPTIONAL:
            raise InputError(f"{what} has no {part.name}")
    return {part.name: data.get(part.name) for part in fields(kind)}


def choose(hash_: PerceptualHash, unprotected: Rates, grid: Sequence[GridPoint], measured: dict[str, Any]) -> Profile:
    """Return the profile with the largest mean radius among the grid points that keep the plain hash's rates."""

    def best(rates: Callable[[GridPoint], Rates]) -> GridPoint:
        allowed = [point for point in grid if rates(point).keeps(unprotected)]
        if not allowed:
            raise InputError(
                f"calibration of {hash_.name}: every sigma of the grid costs collisions or variants; try smaller sigmas"
            )
        return max(allowed, key=lambda point: rates(point).radius_identity)

    own, external = best(lambda p: p.consensus), best(lambda p: p.external)
    return Profile(
        hash=hash_.name,
        hash_version=hash_.version,
        threshold=own.consensus.threshold,
        lowpass=own.lowpass,
        sigma=own.sigma,
        external_threshold=external.external.threshold,
        external_lowpass=external.lowpass,
        external_sigma=external.sigma,
        unprotected=unprotected,
        grid=tuple(grid),
        measured=measured,
    )
