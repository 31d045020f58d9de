"""Records to figures: every one with the number of images it is of, and a 95 % interval.

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
from dualshield.transforms.paper import MILDEST

VARIANTS = ("original", "smoothing", "hardening", "both")
IDENTITY = "identity"
POOLED = "all"
CONFIDENCE = 0.95
HIGHEST = {"ssim": 1.0, "linf": 1.0}


@dataclass(frozen=True)
class Figure:
    """How large, how sure, from how many. ``bound`` says that the value itself is only a bound: "≤" or ">"."""

    value: float
    low: float | None
    high: float | None
    count: int
    bound: str = ""


def rate(outcomes: Sequence[bool]) -> Figure | None:
    """The share of True."""
    return share([float(outcome) for outcome in outcomes])


def share(parts: Sequence[float]) -> Figure | None:
    """The mean of one value in [0, 1] per image."""
    if not parts:
        return None
    total = math.fsum(parts)
    return Figure(total / len(parts), *wilson(min(total, len(parts)), len(parts), CONFIDENCE), len(parts))


def mean(values: Iterable[object], most: float = math.inf) -> Figure | None:
    """The mean of what are finite numbers, none of which can be negative or above ``most``; one has no interval."""
    found = [value for value in map(number, values) if value is not None]
    if not found:
        return None
    centre = float(np.mean(found))
    if len(found) == 1:
        return Figure(centre, None, None, 1)
    reach = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(found) - 1) * np.std(found, ddof=1) / math.sqrt(len(found)))
    # Of few images the interval would reach beyond what the metric can be.
    return Figure(centre, max(min(centre, 0.0), centre - reach), min(most, centre + reach), len(found))


def number(value: object) -> float | None:
    """A finite number of a record, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def half_way(curve: Sequence[tuple[float, float]]) -> tuple[float, str] | None:
    """Where a curve of (budget, success) reaches one half, between budgets on a log scale, and how that is bounded.

    The first budget of all is "≤" if it is enough already; the last one is ">" if it is not. None without a curve.
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
    """The records of a run, by what they are of. Where a run has a piece of work twice, the later one counts."""

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
        """All of one part, also pairs that did not match."""
        return self._groups.get((part, hash_name, variant), [])

    def has(self, part: str) -> bool:
        """Whether anything of a part was done."""
        return any(key[0] == part for key in self._groups)

    def everything(self, part: str) -> list[Record]:
        """All of one part, over hashes and variants."""
        return [record for key, records in self._groups.items() if key[0] == part for record in records]

    def matched(self, part: str, hash_name: str, variant: str) -> list[Record]:
        """What there is to judge of one part."""
        return [record for record in self.records(part, hash_name, variant) if record.matched]

    # certified ------------------------------------------------------------------------------------------------------

    def radii(self, hash_name: str, variant: str, *, benign: bool = False, kind: str = "radius") -> list[float]:
        """The radius of every positive pair; 0 where the decision is not a match, as nothing is certified then.

        A ``kind`` that no pair has (older runs know no ``radius_detected``) is an empty list.
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
        """Success by image and budget."""
        found = self._by_image(part, hash_name, variant, "success", _budget)
        if part == "adaptive":
            return {image: _searched(tried, self.budgets(part)) for image, tried in found.items()}
        return found

    def budgets(self, part: str) -> list[float]:
        """All budgets that were tried, ascending."""
        if part not in self._budgets:
            found = {_budget(record) for record in self.everything(part)}
            self._budgets[part] = sorted(budget for budget in found if budget is not None)
        return self._budgets[part]

    def success(self, part: str, hash_name: str, variant: str, budget: float) -> Figure | None:
        """The success of an attack at one budget, over the images that matched before."""
        images = self.outcomes(part, hash_name, variant).values()
        return rate([tried[budget] for tried in images if budget in tried])

    def average_success(self, part: str, hash_name: str, variant: str) -> Figure | None:
        """The success averaged over the budgets, over images that were attacked at all of them."""
        budgets = self.budgets(part)
        images = self.outcomes(part, hash_name, variant).values()
        return share([sum(tried.values()) / len(tried) for tried in images if len(tried) == len(budgets)])

    def cost(self, hash_name: str, variant: str) -> Figure | None:
        """The l2 at which half of the images evade; its interval is where the ends of the curve's intervals do."""
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
        """How like what was attacked the attacked images are."""
        found = [record for record in self.matched(part, hash_name, variant) if _budget(record) == budget]
        return mean((record.result.get(quality) for record in found), HIGHEST.get(quality, math.inf))

    # transformations ------------------------------------------------------------------------------------------------

    @cached_property
    def transforms(self) -> list[tuple[str, bool]]:
        """Names of all transformations in the order of the run, and whether the paper has them."""
        found: dict[str, bool] = {}
        for record in self.everything("transforms"):
            if record.matched:
                found.setdefault(record.key.detail, record.result.get("paper") is True)
        return sorted(found.items(), key=lambda item: not item[1])

    def evasion(self, hash_name: str, variant: str, names: Iterable[str]) -> Figure | None:
        """The share of images that evade by transformations; several levels of a family count in equal parts."""
        return share([float(np.mean(list(tried.values()))) for tried in self._evaded(hash_name, variant, set(names))])

    def lowest_evasion(self, hash_name: str, variant: str) -> Figure | None:
        """The average over the paper's families at the lowest intensity, as its summary has it."""
        parts = []
        for tried in self._evaded(hash_name, variant, MILDEST):
            families: dict[str, list[bool]] = {}
            for name, evaded in tried.items():
                families.setdefault(family(name), []).append(evaded)
            parts.append(float(np.mean([np.mean(levels) for levels in families.values()])))
        return share(parts)

    def _evaded(self, hash_name: str, variant: str, names: set[str]) -> list[dict[str, bool]]:
        """Images that went through all of these transformations (that the run has), and which of them evaded."""
        names = names & {name for name, _ in self.transforms}
        found = self._by_image("transforms", hash_name, variant, "evaded", lambda record: record.key.detail)
        return [{name: tried[name] for name in names} for tried in found.values() if names and names <= tried.keys()]

    def _by_image(
        self, part: str, hash_name: str, variant: str, outcome: str, detail: Callable[[Record], Any]
    ) -> dict[tuple[str, str], dict[Any, bool]]:
        """What came of one part, by image and detail; asked for once per table row, so it is kept."""
        group = (part, hash_name, variant)
        if group not in self._known:
            found: dict[tuple[str, str], dict[Any, bool]] = {}
            for record in self.matched(*group):
                where, came = detail(record), record.result.get(outcome)
                if where is not None and isinstance(came, bool):
                    found.setdefault((record.key.dataset, record.key.image), {})[where] = came
            self._known[group] = found
        return self._known[group]

    # utility --------------------------------------------------------------------------------------------------------

    def collisions(self, hash_name: str, variant: str) -> Figure | None:
        """The share of unrelated pairs that match."""
        found = [record.result.get("collided") for record in self.matched("collisions", hash_name, variant)]
        return rate([collided for collided in found if isinstance(collided, bool)])

    def quality(self, hash_name: str, variant: str, dataset: str, name: str) -> Figure | None:
        """A mean over the hardened images of one dataset, or of all."""
        found = [r for r in self.matched("quality", hash_name, variant) if dataset in (POOLED, r.key.dataset)]
        return mean((record.result.get(name) for record in found), HIGHEST.get(name, math.inf))

    def fid(self, hash_name: str, variant: str, dataset: str, detail: str | float) -> Figure | None:
        """The Frechet distance of a set; one number of the whole set, so it has no interval."""
        for record in self.matched("fid", hash_name, variant):
            same = record.key.detail == detail or (not isinstance(detail, str) and _budget(record) == detail)
            value, images = number(record.result.get("fid")), number(record.result.get("images"))
            if same and record.key.dataset == dataset and value is not None:
                return Figure(value, None, None, int(images or 0))
        return None

    def unmeasured(self, part: str, name: str) -> bool:
        """Whether a metric is null throughout, as it is when its extra is not installed."""
        values = [record.result[name] for record in self.everything(part) if name in record.result]
        return bool(values) and all(value is None for value in values)


def cner(radii: Sequence[float], radius: float) -> Figure | None:
    """The share of positive pairs that match and are certified up to a radius."""
    return rate([found >= radius and found > 0 for found in radii])


def family(transform: str) -> str:
    """The family of a transformation such as ``jpeg-80``."""
    return transform.partition("-")[0]


def _searched(tried: Mapping[float, bool], budgets: Sequence[float]) -> dict[float, bool]:
    """A search's outcomes at all budgets it settles: what succeeds does so with more, what fails does with less."""
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
