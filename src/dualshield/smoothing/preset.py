"""Presets of views: which views a hash is deployed with, and the thresholds that were calibrated with them on.

More views find more edited copies, and bring unrelated images closer too. So each preset has thresholds of its own, at
which unrelated images match no more often than with the plain hash without views.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from dualshield.errors import InputError
from dualshield.smoothing.views import PRESETS, Views

NAMES = PRESETS[1:]


@dataclass(frozen=True)
class Preset:
    """Views, the thresholds that belong to them, and the rates measured there.

    ``threshold`` is that of votes at a reference's own sigma; ``second_sigma`` and ``second_threshold`` are those of
    the small sigma beside it. ``exact_thresholds`` are those of an exact matcher, one for each sigma of the profile.
    """

    views: Views
    threshold: float | None = None
    second_sigma: float | None = None
    second_threshold: float | None = None
    exact_thresholds: tuple[float, ...] | None = None
    false_matches: float | None = None  # fraction of unrelated pairs that matched
    measured: dict[str, Any] = field(default_factory=dict)  # photos, pairs, edits, seed, date

    def __post_init__(self) -> None:
        if not isinstance(self.views, Views) or not isinstance(self.measured, dict):
            raise InputError("a preset has views, thresholds and what was measured")
        thresholds = [("threshold", self.threshold), ("second_threshold", self.second_threshold)]
        thresholds += [("exact_thresholds", value) for value in self.exact_thresholds or ()]
        for name, value in thresholds:
            if value is not None and not (_is_number(value) and 0 <= value < 0.5):
                raise InputError(f"{name} {value!r} is not a bit error rate in [0, 0.5)")
        if self.second_sigma is not None and not (_is_number(self.second_sigma) and 0 < self.second_sigma <= 1000):
            raise InputError(f"second_sigma {self.second_sigma!r} is not a positive number")
        if (self.second_sigma is None) != (self.second_threshold is None):
            raise InputError("a second sigma and a second threshold belong together")
        if self.false_matches is not None and not (_is_number(self.false_matches) and 0 <= self.false_matches <= 1):
            raise InputError(f"false_matches {self.false_matches!r} is not a rate in [0, 1]")

    def to_json(self) -> dict[str, Any]:
        """Return the preset as JSON values."""
        return {**asdict(self), "views": self.views.to_json()}

    @staticmethod
    def from_json(data: Any) -> Preset:
        """Read a preset from a JSON object."""
        names = set(Preset.__dataclass_fields__)
        if not isinstance(data, dict) or set(data) != names:
            raise InputError(f"a preset of views is not an object with the fields {', '.join(sorted(names))}")
        exact = data["exact_thresholds"]
        if exact is not None and (not isinstance(exact, list) or len(exact) > 1000):
            raise InputError("exact_thresholds is not a list")
        return Preset(**{**data, "views": Views.from_json(data["views"]), "exact_thresholds": exact and tuple(exact)})


def presets_to_json(presets: dict[str, Preset]) -> dict[str, Any]:
    """Return the presets of a profile as JSON values."""
    return {name: preset.to_json() for name, preset in presets.items()}


def presets_from_json(data: Any) -> dict[str, Preset]:
    """Read the presets of a profile."""
    if not isinstance(data, dict) or not set(data) <= set(NAMES):
        raise InputError(f"its presets of views are not an object with the names {' and '.join(NAMES)}")
    return {name: Preset.from_json(preset) for name, preset in data.items()}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
