"""Compute the report's figures from records, each with the number of images and a 95 % interval.

Rates have Wilson's interval. An average of several rates of the same images (over budgets or families) is the mean of
one share per image; its interval is Wilson's for that many images, which is wide enough for any value in [0, 1]. Means
have Student's interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import stats

from dualshield.evaluation.intervals import wilson
from dualshield.evaluation.run.records import Record, Run
from dualshield.evaluation.transform_names import family, in_order, is_edit
from dualshield.smoothing.variants import EXPLAINED
from dualshield.transforms.paper import MILDEST

LARGEST = 1e100
VARIANTS = tuple(EXPLAINED)
IDENTITY = "identity"
POOLED = "all"
CONFIDENCE = 0.95
HIGHEST = {"ssim": 1.0, "linf": 1.0}


@dataclass(frozen=True)
class Figure:
    """A value, its 95 % interval and its number of images; ``bound`` is "≤" or ">" if the value is only a bound."""

    value: float
    low: float | None
    high: float | None
    count: int
    bound: str = ""


def rate(outcomes: Sequence[bool]) -> Figure | None:
    """Return the share of outcomes that are True."""
    return share([float(outcome) for outcome in outcomes])


def share(parts: Sequence[float]) -> Figure | None:
    """Return the mean of one value in [0, 1] per image."""
    if not parts:
        return None
    total = math.fsum(parts)
    return Figure(total / len(parts), *wilson(min(total, len(parts)), len(parts), CONFIDENCE), len(parts))


def mean(values: Iterable[object], most: float = math.inf) -> Figure | None:
    """Return the mean of the finite numbers, which lie in [0, ``most``]; a single number has no interval."""
    found = [value for value in map(number, values) if value is not None]
    if not found:
        return None
    centre = float(np.mean(found))
    if len(found) == 1:
        return Figure(centre, None, None, 1)
    reach = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(found) - 1) * np.std(found, ddof=1) / math.sqrt(len(found)))
    # With few images the interval would exceed the range of the metric.
    return Figure(centre, max(min(centre, 0.0), centre - reach), min(most, centre + reach), len(found))


def number(value: object) -> float | None:
    """Return a value as a float if it is a number of a sensible size, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # NaN fails the comparison too. Sums and squares of larger numbers would overflow.
    return float(value) if abs(value) <= LARGEST else None


def half_way(curve: Sequence[tuple[float, float]]) -> tuple[float, str] | None:
    """Return where a curve of (budget, success) reaches one half, interpolated on a log scale, and a bound sign.

    The sign is "≤" if the first budget already reaches it, ">" if the last one does not. None for an empty curve.
    """
    last: tuple[float, float] | None = None
    for budget, success in curve:
        if success >= 0.5:
            if last is None:
                return budget, "≤"
            part = (0.5 - last[1]) / (success - last[1])
            return last[0] * (budget / last[0]) ** part, ""
        last = (budget, success)
    return None if last is None else (last[0], ">")


class Results:
    """The records of a run, grouped for the report. Of two records with one key the later one counts."""

    def __init__(self, run: Run) -> None:
        latest = {record.key: record for record in run.records if all(isinstance(part, str) for part in record.key)}
        self._groups: dict[tuple[str, str, str], list[Record]] = {}
        for record in latest.values():
            key = record.key
            self._groups.setdefault((key.part, key.hash, key.variant), []).append(record)
        self.hashes = list(dict.fromkeys([*_names(run.config, "hashes"), *(key.hash for key in latest)]))
        found = dict.fromkeys([*_names(run.config, "variants"), *(key.variant for key in latest)])
        self.variants = sorted(found, key=lambda name: VARIANTS.index(name) if name in VARIANTS else len(VARIANTS))
        self.datasets = list(dict.fromkeys(key.dataset for key in latest if key.dataset not in ("", POOLED)))
        self._budgets: dict[str, list[float]] = {}
        self._known: dict[tuple[str, str, str], dict[tuple[str, str], dict[Any, bool]]] = {}

    def records(self, part: str, hash_name: str, variant: str) -> list[Record]:
        """Return all records of one part, including pairs that did not match before the attack."""
        return self._groups.get((part, hash_name, variant), [])

    def has(self, part: str) -> bool:
        """Return whether there are records of a part."""
        return any(key[0] == part for key in self._groups)

    def everything(self, part: str) -> list[Record]:
        """Return all records of one part, over all hashes and variants."""
        return [record for key, records in self._groups.items() if key[0] == part for record in records]

    def matched(self, part: str, hash_name: str, variant: str) -> list[Record]:
        """Return the records of one part whose pairs matched before the attack."""
        return [record for record in self.records(part, hash_name, variant) if record.matched]

    def refused(self, part: str, hash_name: str, variant: str) -> set[tuple[str, str]]:
        """Return the images of one part that could not be enrolled."""
        records = self.records(part, hash_name, variant)
        return {(record.key.dataset, record.key.image) for record in records if record.refused}

    # certified ------------------------------------------------------------------------------------------------------

    def radii(self, hash_name: str, variant: str, *, benign: bool = False, kind: str = "radius") -> list[float]:
        """Return the radius of every positive pair; 0 if the decision is not a match, as nothing is certified then.

        The list is empty if no pair has this ``kind`` (older runs have no ``radius_detected``).
        """
        pairs = [
            record.result
            for record in self.records("certified", hash_name, variant)
            if (record.key.detail != IDENTITY) == benign
        ]
        if not any(kind in result for result in pairs):
            return []
        return [
            max(0.0, number(result.get(kind)) or 0.0) if result.get("decision") == "match" else 0.0 for result in pairs
        ]

    # attacks --------------------------------------------------------------------------------------------------------

    def outcomes(self, part: str, hash_name: str, variant: str) -> dict[tuple[str, str], dict[float, bool]]:
        """Return whether the attack succeeded, by image and budget."""
        found = self._by_image(part, hash_name, variant, "success", _budget)
        if part == "adaptive":
            return {image: _searched(tried, self.budgets(part)) for image, tried in found.items()}
        return found

    def budgets(self, part: str) -> list[float]:
        """Return all budgets of a part, ascending."""
        if part not in self._budgets:
            found = {_budget(record) for record in self.everything(part)}
            self._budgets[part] = sorted(budget for budget in found if budget is not None)
        return self._budgets[part]

    def success(self, part: str, hash_name: str, variant: str, budget: float) -> Figure | None:
        """Return the success rate of an attack at one budget, over the images that matched before."""
        images = self.outcomes(part, hash_name, variant).values()
        return rate([tried[budget] for tried in images if budget in tried])

    def average_success(self, part: str, hash_name: str, variant: str) -> Figure | None:
        """Return the success rate averaged over the budgets, over the images with results at all of them."""
        budgets = self.budgets(part)
        images = self.outcomes(part, hash_name, variant).values()
        return share([sum(tried.values()) / len(tried) for tried in images if len(tried) == len(budgets)])

    def cost(self, hash_name: str, variant: str) -> Figure | None:
        """Return the l2 at which half of the images evade; its interval comes from the ends of the rates' intervals."""
        rates = [(budget, self.success("adaptive", hash_name, variant, budget)) for budget in self.budgets("adaptive")]
        curve = [(budget, found) for budget, found in rates if found]
        middle = half_way([(budget, found.value) for budget, found in curve])
        low = half_way([(budget, found.high or 0.0) for budget, found in curve])
        high = half_way([(budget, found.low or 0.0) for budget, found in curve])
        if middle is None or low is None or high is None:
            return None
        count = min(found.count for _, found in curve)
        least = None if low[1] == "≤" else low[0]
        most = None if high[1] == ">" else high[0]
        return Figure(middle[0], least, most, count, middle[1])

    def distortion(self, part: str, hash_name: str, variant: str, budget: float, quality: str) -> Figure | None:
        """Return the mean similarity between attacked images and their starting images."""
        found = [record for record in self.matched(part, hash_name, variant) if _budget(record) == budget]
        return mean((record.result.get(quality) for record in found), HIGHEST.get(quality, math.inf))

    # transformations ------------------------------------------------------------------------------------------------

    @cached_property
    def transforms(self) -> list[tuple[str, bool]]:
        """The names of all transformations, the paper's first, and whether each is the paper's."""
        found: dict[str, bool] = {}
        for record in self.everything("transforms"):
            if record.matched:
                found.setdefault(record.key.detail, record.result.get("paper") is True)
        return sorted(found.items(), key=lambda item: not item[1])

    @property
    def paper_transforms(self) -> list[str]:
        """The names of the paper's transformations."""
        return [name for name, published in self.transforms if published]

    @property
    def edits(self) -> list[str]:
        """The names of the everyday edits, by family; some are also the paper's."""
        return in_order(name for name, published in self.transforms if is_edit(name, published))

    def evasion(self, hash_name: str, variant: str, names: Iterable[str]) -> Figure | None:
        """Return the share of images that evade by transformations, averaged over the given transformations."""
        return share([float(np.mean(list(tried.values()))) for tried in self._evaded(hash_name, variant, set(names))])

    def lowest_evasion(self, hash_name: str, variant: str) -> Figure | None:
        """Return the evasion averaged over the paper's families at the lowest intensity, as in the paper's summary."""
        parts = []
        for tried in self._evaded(hash_name, variant, MILDEST & set(self.paper_transforms)):
            families: dict[str, list[bool]] = {}
            for name, evaded in tried.items():
                families.setdefault(family(name), []).append(evaded)
            parts.append(float(np.mean([np.mean(levels) for levels in families.values()])))
        return share(parts)

    def _evaded(self, hash_name: str, variant: str, names: set[str]) -> list[dict[str, bool]]:
        """Return which transformations evaded, for each image that has results for all given ones that the run has."""
        names = names & {name for name, _ in self.transforms}
        found = self._by_image("transforms", hash_name, variant, "evaded", lambda record: record.key.detail)
        return [{name: tried[name] for name in names} for tried in found.values() if names and names <= tried.keys()]

    def _by_image(
        self, part: str, hash_name: str, variant: str, outcome: str, detail: Callable[[Record], Any]
    ) -> dict[tuple[str, str], dict[Any, bool]]:
        """Return the outcomes of one part by image and detail; cached, because every table row needs them."""
        group = (part, hash_name, variant)
        if group not in self._known:
            found: dict[tuple[str, str], dict[Any, bool]] = {}
            for record in self.matched(*group):
                where, value = detail(record), record.result.get(outcome)
                if where is not None and isinstance(value, bool):
                    found.setdefault((record.key.dataset, record.key.image), {})[where] = value
            self._known[group] = found
        return self._known[group]

    # utility --------------------------------------------------------------------------------------------------------

    def collisions(self, hash_name: str, variant: str) -> Figure | None:
        """Return the share of unrelated pairs that match."""
        found = [record.result.get("collided") for record in self.matched("collisions", hash_name, variant)]
        return rate([collided for collided in found if isinstance(collided, bool)])

    def quality(self, hash_name: str, variant: str, dataset: str, name: str) -> Figure | None:
        """Return the mean of a metric over the hardened images of one dataset, or of all."""
        found = [r for r in self.matched("quality", hash_name, variant) if dataset in (POOLED, r.key.dataset)]
        return mean((record.result.get(name) for record in found), HIGHEST.get(name, math.inf))

    def fid(self, hash_name: str, variant: str, dataset: str, detail: str | float) -> Figure | None:
        """Return the FID of a set; it is one number for the whole set, so it has no interval."""
        for record in self.matched("fid", hash_name, variant):
            same = record.key.detail == detail or (not isinstance(detail, str) and _budget(record) == detail)
            value, images = number(record.result.get("fid")), number(record.result.get("images"))
            if same and record.key.dataset == dataset and value is not None:
                return Figure(value, None, None, int(images or 0))
        return None

    def unmeasured(self, part: str, name: str) -> bool:
        """Return whether a metric is null in all records, as when its extra is not installed."""
        values = [record.result[name] for record in self.everything(part) if name in record.result]
        return bool(values) and all(value is None for value in values)


def cner(radii: Sequence[float], radius: float) -> Figure | None:
    """Return the share of positive pairs that match and are certified up to a radius."""
    return rate([found >= radius and found > 0 for found in radii])


def _searched(tried: Mapping[float, bool], budgets: Sequence[float]) -> dict[float, bool]:
    """Extend the outcomes of a search: a success holds at larger budgets, a failure at smaller ones."""
    least = min((budget for budget, success in tried.items() if success), default=math.inf)
    most = max((budget for budget, success in tried.items() if not success), default=-math.inf)
    return {budget: budget >= least for budget in budgets if budget >= least or budget <= most}


def _budget(record: Record) -> float | None:
    try:
        value = float(record.key.detail)
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def _names(config: Mapping[str, Any], field: str) -> list[str]:
    found = config.get(field)
    return [name for name in found if isinstance(name, str)] if isinstance(found, list | tuple) else []
