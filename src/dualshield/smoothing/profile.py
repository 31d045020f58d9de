"""Calibrated defaults of a hash: which low-pass, sigma and threshold to deploy, and the rates measured there."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

from dualshield.errors import InputError
from dualshield.files import read_limited, write_atomically
from dualshield.hashes.contract import PerceptualHash
from dualshield.hashes.registry import CARD_SUFFIXES
from dualshield.smoothing.config import MatcherConfig

PROFILE_SUFFIX = ".profile.json"
MAX_BYTES = 16 * 2**20
VARIANT_TOLERANCE = 0.01
# Mean radii closer than this are equal, as far as a calibration can tell.
AS_WIDE = 0.99


@dataclass(frozen=True)
class Rates:
    """What one way of keeping references achieved at one grid point."""

    threshold: float  # bit error rate of a matching vote
    radius_identity: float  # mean certified radius of (photo, same photo)
    radius_variants: float  # mean certified radius of (photo, benign variant), 0 where not certified as a match
    variants_matched: float  # fraction of benign variants that match
    collisions: float  # fraction of ordered unrelated pairs, photo-photo and photo-blank, that match
    worst_unrelated: float  # largest single-draw match probability seen among those pairs

    def keeps(self, unprotected: Rates) -> bool:
        """Whether collisions stay at the unprotected level and variants match within one point of it."""
        enough = unprotected.variants_matched - VARIANT_TOLERANCE
        return self.collisions <= unprotected.collisions and self.variants_matched >= enough


@dataclass(frozen=True)
class GridPoint:
    """One (low-pass, sigma).

    ``consensus``: references enrolled as deployed, each with the best sigma of the grid up to this one.
    ``external``: bare codes of the plain hash, at exactly this sigma.
    """

    lowpass: int | None
    sigma: float
    consensus: Rates
    external: Rates

    @staticmethod
    def parse(data: dict[str, Any]) -> GridPoint:
        """From its JSON object."""
        return GridPoint(data["lowpass"], data["sigma"], Rates(**data["consensus"]), Rates(**data["external"]))


@dataclass(frozen=True)
class Profile:
    """The outcome of a calibration; JSON on disk.

    ``sigma`` is the largest that a reference may get at enrolment; ``threshold`` is that of a vote, which calibration
    lowers below the plain hash's where noise and low-pass would otherwise cost collisions.
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
    measured: dict[str, Any] = field(default_factory=dict)  # images, draws, alpha, seed, date

    def __repr__(self) -> str:
        lowpass = "" if self.lowpass is None else f", low-pass {self.lowpass}"
        return f"<Profile of {self.hash} {self.hash_version}: sigma up to {self.sigma:g}{lowpass}>"

    def _points(self) -> list[GridPoint]:
        return [point for point in self.grid if point.lowpass == self.lowpass]

    def config(self) -> MatcherConfig:
        """The default configuration: linear noise, mode code, each reference's sigma up to the profile's."""
        return self._config(next(point for point in self._points() if point.sigma == self.sigma))

    @property
    def false_matches(self) -> float:
        """The fraction of unrelated pairs that matched with the default configuration."""
        return next(p.consensus.collisions for p in self._points() if p.sigma == self.sigma)

    def false_matches_of(self, config: MatcherConfig) -> float | None:
        """The same for any configuration that was measured; None for one that was not."""
        widest = self.widest_config()
        external = {(p.lowpass, p.sigma): p.external.collisions for p in self.grid}
        measured = (
            (self.config(), self.false_matches),
            (widest, next(p.consensus.collisions for p in self._points() if p.sigma == max(widest.sigmas))),
            (self.external_config(), external.get((self.external_lowpass, self.external_sigma))),
        )
        asked: dict[str, Any] = {
            "n0": config.n0,
            "n": config.n,
            "alpha": config.alpha,
            "target_radius": config.target_radius,
        }
        return next((rate for candidate, rate in measured if replace(candidate, **asked) == config), None)

    def widest_config(self) -> MatcherConfig:
        """Of sigma "auto": each reference's sigma up to the largest that costs no collisions.

        Ordinary photos gain nothing from the top of that range, hardened ones do.
        """
        limit = self.unprotected.collisions
        points = [point for point in self._points() if point.consensus.collisions <= limit]
        best = max(point.consensus.radius_identity for point in points)
        return self._config(
            max((p for p in points if p.consensus.radius_identity >= AS_WIDE * best), key=lambda p: p.sigma)
        )

    def _config(self, point: GridPoint) -> MatcherConfig:
        # All sigmas of the grid up to the point's: exactly the choice that was measured there.
        sigmas = tuple(p.sigma for p in self._points() if p.sigma <= point.sigma)
        threshold = point.consensus.threshold
        return MatcherConfig(sigma="auto", lowpass=self.lowpass, threshold=threshold, sigma_grid=sigmas)

    def at_lowpass(self, lowpass: int | None) -> Profile:
        """The same measurements, deployed behind another low-pass of the grid."""
        if lowpass == self.lowpass:
            return self
        points = [point for point in self.grid if point.lowpass == lowpass and point.consensus.keeps(self.unprotected)]
        if not points:
            raise InputError(
                f"low-pass {lowpass or 'none'} is not among those calibrated for {self.hash}: give sigma as a number"
            )
        best = max(points, key=lambda point: point.consensus.radius_identity)
        return replace(self, lowpass=lowpass, sigma=best.sigma, threshold=best.consensus.threshold)

    def external_config(self) -> MatcherConfig:
        """For bare codes of the plain hash, where there is no image to enrol."""
        return MatcherConfig(
            sigma=self.external_sigma, lowpass=self.external_lowpass, threshold=self.external_threshold
        )

    def save(self, file: Path) -> None:
        """Write atomically: an old profile is replaced as a whole or not at all."""
        write_atomically(file, (json.dumps(asdict(self), indent=1) + "\n").encode())

    @staticmethod
    def load(file: Path) -> Profile:
        """Read a profile written by ``save``."""
        data = read_limited(file, MAX_BYTES)
        try:
            return Profile.parse(data.decode(), str(file))
        except UnicodeDecodeError as error:
            raise InputError(f"{file} is not a DualShield profile: it is not text") from error

    @staticmethod
    def parse(text: str, name: str) -> Profile:
        """A profile from its JSON text."""
        try:
            data = json.loads(text)
            grid = tuple(GridPoint.parse(point) for point in data["grid"])
            values = {f.name: data[f.name] for f in fields(Profile)}
            values.update(grid=grid, unprotected=Rates(**data["unprotected"]))
            profile = Profile(**values)
            profile._check_types()
            profile.config()
            profile.external_config()
            return profile
        except (KeyError, TypeError, ValueError, RecursionError, StopIteration, InputError) as error:
            raise InputError(
                f"{name} is not a DualShield profile ({error!r}); write one with dualshield calibrate"
            ) from error

    def _check_types(self) -> None:
        rates = [self.unprotected, *(r for point in self.grid for r in (point.consensus, point.external))]
        sigmas = [self.sigma, self.external_sigma, *(point.sigma for point in self.grid)]
        lowpasses = [self.lowpass, self.external_lowpass, *(point.lowpass for point in self.grid)]
        for number in (
            self.threshold,
            self.external_threshold,
            *sigmas,
            *(value for r in rates for value in astuple(r)),
        ):
            if not isinstance(number, int | float):
                raise TypeError(f"{number!r} is not a number")
        for lowpass in lowpasses:
            if not isinstance(lowpass, int | None):
                raise TypeError(f"low-pass {lowpass!r} is not a whole number")


def profile_file(spec: str) -> Path | None:
    """Where the profile of a card lies: beside it. Named hashes ship theirs with the package."""
    if not spec.lower().endswith(CARD_SUFFIXES):
        return None
    return Path(spec).with_suffix(PROFILE_SUFFIX)


def find_profile(spec: str) -> Profile | None:
    """The calibrated profile of a hash name or card, or None where there is none."""
    file = profile_file(spec)
    if file is not None:
        return Profile.load(file) if file.exists() else None
    shipped = resources.files("dualshield") / "profiles" / f"{spec}.json"
    return Profile.parse(shipped.read_text(encoding="utf-8"), shipped.name) if shipped.is_file() else None


def choose(hash_: PerceptualHash, unprotected: Rates, grid: Sequence[GridPoint], measured: dict[str, Any]) -> Profile:
    """The profile that deploys the largest mean radius among the grid points that keep what the plain hash has."""

    def best(rates: Callable[[GridPoint], Rates]) -> GridPoint:
        allowed = [point for point in grid if rates(point).keeps(unprotected)]
        if not allowed:
            raise InputError(
                f"calibration of {hash_.name}: every sigma of the grid costs collisions or variants; try smaller ones"
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
