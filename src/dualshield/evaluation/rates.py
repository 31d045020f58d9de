"""Success rates of a red team by variant, method and budget, computed from the records of its run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualshield.evaluation.plan.interface import OPTIMAL, budget_name, label
from dualshield.evaluation.plan.redteam import PART_OF, RedTeamPlan
from dualshield.evaluation.plan.variants import TRANSFORMS, is_measured
from dualshield.evaluation.run.records import Key, Run
from dualshield.smoothing.statistics import Decision
from dualshield.smoothing.variants import SMOOTHED
from dualshield.transforms import ALL_TRANSFORMS, PAPER_TRANSFORMS

Result = dict[str, Any]


@dataclass(frozen=True)
class Rate:
    """The results of one method under one variant and budget, over all images."""

    variant: str
    method: str
    budget: float
    images: int  # pairs that matched before the attack
    unmatched: int  # pairs that did not match before, and were not attacked
    attacked: int  # images minus those whose outcome was inferred
    success: float
    success_float: float
    abstained: float
    l2: float | None  # means over attacked images and results copied from another budget; None if there are none
    ssim: float | None
    queries: float | None
    seconds: float | None
    warnings: dict[str, int]


@dataclass(frozen=True)
class TransformRate:
    """How often one transformation evades one variant."""

    variant: str
    transform: str
    paper: bool  # whether it is one of the paper's; some of these are everyday edits too
    images: int  # pairs that matched before the transformation
    unmatched: int
    success: float
    abstained: float  # abstentions, which also count as successes
    ssim: float


def attack_rates(plan: RedTeamPlan, run: Run) -> list[Rate]:
    """Return the success rates of all attack methods; an unfinished run gives the rates so far."""
    found = _Found(plan, run)
    return [
        _rate(variant, method, budget, found.results(PART_OF[method], variant, budget_name(budget)))
        for variant in plan.variants
        for method in plan.methods
        for budget in plan.budgets
        if is_measured(variant, PART_OF[method]) and (PART_OF[method] != OPTIMAL or variant in SMOOTHED)
    ]


def transform_rates(plan: RedTeamPlan, run: Run) -> list[TransformRate]:
    """Return the evasion rates of all transformations; an unfinished run gives the rates so far."""
    found = _Found(plan, run)
    rates = []
    for variant in plan.variants:
        for transform in ALL_TRANSFORMS:
            results = found.results(TRANSFORMS, variant, transform.name)
            if not results:
                continue
            matched = [result for result in results if "unmatched" not in result]
            decisions = [result["decision"] for result in matched]
            rates.append(
                TransformRate(
                    variant,
                    transform.name,
                    transform in PAPER_TRANSFORMS,
                    len(matched),
                    len(results) - len(matched),
                    success=_share(decision != Decision.MATCH.value for decision in decisions),
                    abstained=_share(decision == Decision.ABSTAIN.value for decision in decisions),
                    ssim=_mean(matched, "ssim") or 0.0,
                )
            )
    return rates


def cost_of_evasion(rates: Sequence[Rate]) -> float | None:
    """Return the budget at which half of the images evade, interpolated; None if fewer evade at every budget."""
    last: tuple[float, float] | None = None
    for rate in rates:
        if rate.success >= 0.5:
            if last is None:
                return rate.budget  # an upper bound: there is no smaller budget to interpolate from
            share = (0.5 - last[1]) / (rate.success - last[1])
            return float(last[0] * (rate.budget / last[0]) ** share)
        last = (rate.budget, rate.success)
    return None


class _Found:
    """The records of the run's images by key; of two records with one key the later one counts."""

    def __init__(self, plan: RedTeamPlan, run: Run) -> None:
        self._hash = label(plan.deployment)
        self._records = {record.key: record.result for record in run.records}
        self._images = [(dataset, image) for dataset, images in run.config["data"].items() for image in images]

    def results(self, part: str, variant: str, detail: str) -> list[Result]:
        return list(self._results(part, variant, detail))

    def _results(self, part: str, variant: str, detail: str) -> Iterator[Result]:
        for dataset, image in self._images:
            result = self._records.get(Key(part, self._hash, variant, dataset, image, detail))
            if result is not None:
                yield result


def _rate(variant: str, method: str, budget: float, results: list[Result]) -> Rate:
    attacked = [result for result in results if "unmatched" not in result]
    return Rate(
        variant,
        method,
        budget,
        images=len(attacked),
        unmatched=len(results) - len(attacked),
        attacked=sum("inferred" not in result for result in attacked),
        success=_share(result["success"] for result in attacked),
        success_float=_share(result["success_float"] for result in attacked),
        abstained=_share(result["decision"] == Decision.ABSTAIN.value for result in attacked),
        l2=_mean(attacked, "l2"),
        ssim=_mean(attacked, "ssim"),
        queries=_mean(attacked, "queries"),
        seconds=_mean(attacked, "seconds"),
        warnings=dict(Counter(warning for result in attacked for warning in result["warnings"])),
    )


def _share(outcomes: Iterable[bool]) -> float:
    found = list(outcomes)
    return float(np.mean(found)) if found else 0.0


def _mean(results: Sequence[Result], name: str) -> float | None:
    values = [result[name] for result in results if name in result]
    return float(np.mean(values)) if values else None
