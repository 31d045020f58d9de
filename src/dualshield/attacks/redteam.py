"""Many attacks on many images: success rates by variant, method and budget, resumable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dualshield._common.journal import Journal
from dualshield.attacks.budgets import BUDGETS, Outcomes, is_number, is_outcome
from dualshield.attacks.defence import Defence
from dualshield.attacks.methods import get_attack
from dualshield.attacks.result import AttackBudget
from dualshield.errors import ImageError, InputError, NothingToAttackError
from dualshield.images import CanonicalImage, load_image
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.variants import Variant

Key = tuple[str, str, str, float]  # variant, file, method, budget


@dataclass(frozen=True)
class Plan:
    """What is attacked, and how. Evasions start at the published image, collisions at the next image of the list.

    With ``search`` the budgets are a scale on which each image's cost of evasion is found by bisection (`budgets`).
    """

    deployment: Deployment
    methods: tuple[str, ...] = ("pgd", "eot-pgd")
    budgets: tuple[float, ...] = BUDGETS
    variants: tuple[Variant, ...] = ("original", "smoothing", "both")
    search: bool = False
    strength: float = 1.0  # of hardening
    seed: int = 2026

    def __post_init__(self) -> None:
        if not isinstance(self.deployment, Deployment):
            raise InputError(
                f"red team: give a deployment, as from deploy('pdq'), not {type(self.deployment).__name__}"
            )
        for method in self.methods:
            get_attack(method)
        for budget in self.budgets:
            AttackBudget(budget)
        if not (self.methods and self.budgets and self.variants):
            raise InputError("red team: give at least one method, one budget and one variant")
        if "collision" in self.methods and self.search:
            raise InputError("red team: the cost is that of evasion; run collisions without the search")
        if list(self.budgets) != sorted(set(self.budgets)):
            raise InputError("red team: give different budgets in ascending order")

    def settings(self) -> dict[str, Any]:
        """All that results depend on, ready for JSON."""
        values = {name: value for name, value in vars(self).items() if name != "deployment"}
        return {"hash": self.deployment.name, "deployment": self.deployment.digest, **values}


@dataclass(frozen=True)
class Rate:
    """One cell of the table."""

    variant: str
    method: str
    budget: float
    images: int  # pairs that matched to begin with
    unmatched: int  # pairs that did not, and were not attacked
    attacked: int  # less than the images where a search inferred the outcome
    success: float
    success_float: float
    abstained: float
    l2: float | None  # means over what was attacked, or inherited as a success; None if nothing was
    ssim: float | None
    queries: float | None
    seconds: float | None
    warnings: dict[str, int]


def run(
    plan: Plan,
    files: Sequence[Path],
    journal: Path | None = None,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    unreadable: Callable[[ImageError], None] | None = None,
) -> list[Rate]:
    """Attack every file in every variant, method and budget; what the journal holds already is not repeated.

    ``unreadable`` is told of files that cannot be read, which are then passed over; without it they are an error.
    """
    progress("reading the images", 0, len(files))
    named = readable(files, unreadable)
    names, files = list(named), list(named.values())
    if "collision" in plan.methods and len(files) < 2:
        raise InputError("red team: a collision needs a second image")
    record = Journal(journal, {**plan.settings(), "files": names}) if journal else None
    found: dict[tuple[str, str, str], Outcomes] = {
        (variant, name, method): Outcomes(plan.budgets, plan.search)
        for variant in plan.variants
        for name in names
        for method in plan.methods
    }
    if record:
        _resume(record, found)
    total = len(files) * len(plan.variants) * len(plan.methods)
    done = 0
    for variant in plan.variants:
        lab = _Laboratory(plan, variant)
        for index, (file, name) in enumerate(zip(files, names, strict=True)):
            published: CanonicalImage | None = None
            for method in plan.methods:
                progress(f"{variant}, {method}, {name}", done, total)
                outcomes = found[variant, name, method]
                while (budget := outcomes.next_budget()) is not None:
                    published = published or lab.publish(name, load_image(file))
                    key = (variant, name, method, budget)
                    query = load_image(files[(index + 1) % len(files)]) if method == "collision" else published
                    outcomes.found[budget] = lab.attack(key, published, query)
                    if record:
                        record.append({"key": key, "result": outcomes.found[budget]})
                outcomes.infer()
                done += 1
    progress("finished", total, total)
    return [
        _rate(variant, method, budget, [found[variant, name, method].found[budget] for name in names])
        for variant in plan.variants
        for method in plan.methods
        for budget in plan.budgets
    ]


def readable(files: Sequence[Path], unreadable: Callable[[ImageError], None] | None = None) -> dict[str, Path]:
    """The files that are images, by folder and name; the others are told of, or an error. All before any work."""
    named: dict[str, Path] = {}
    for file in files:
        name = f"{file.parent.name}/{file.name}"
        if name in named:
            raise InputError("red team: two of the files have the same folder and name; give each folder once")
        try:
            load_image(file)
        except ImageError as error:
            if unreadable is None:
                raise
            unreadable(error)
        else:
            named[name] = file
    if not named:
        raise InputError("red team: none of the files can be read as an image; give others")
    return named


def _resume(record: Journal, found: dict[tuple[str, str, str], Outcomes]) -> None:
    """Fill in what earlier runs found; a record that is not whole counts as not done."""
    for entry in record.records():
        match entry:
            case {"key": [str(variant), str(name), str(method), budget], "result": result}:
                outcomes = found.get((variant, name, method))
                if outcomes and is_number(budget) and budget in outcomes.budgets and is_outcome(result):
                    outcomes.found[budget] = result


class _Laboratory:
    """One variant of the defence, set up when the first attack needs it.

    Every piece of work has noise of its own, so that a resumed run gives what an uninterrupted one would have given.
    """

    def __init__(self, plan: Plan, variant: Variant) -> None:
        self.plan = plan
        self.variant = variant

    @cached_property
    def defence(self) -> Defence:
        return Defence(self.plan.deployment, self.variant, strength=self.plan.strength)

    def _noise(self, *labels: object) -> GaussianSource:
        return GaussianSource.for_work(self.plan.seed, self.variant, *labels)

    def publish(self, name: str, image: CanonicalImage) -> CanonicalImage:
        return self.defence.publish(image, self._noise(name))

    def attack(self, key: Key, published: CanonicalImage, query: CanonicalImage) -> dict[str, Any]:
        _, _, method, budget = key
        try:
            victim = self.defence.victim(published, self._noise(*key))
            return get_attack(method)(victim, query, AttackBudget(budget), seed=self.plan.seed).to_dict()
        except NothingToAttackError:
            return {"unmatched": True}


def cost_of_evasion(rates: Sequence[Rate]) -> float | None:
    """The budget at which half of the images evade, between the rates of one curve; None if that is never reached."""
    last: tuple[float, float] | None = None
    for rate in rates:
        if rate.success >= 0.5:
            if last is None:
                return rate.budget  # at most this
            share = (0.5 - last[1]) / (rate.success - last[1])
            return float(last[0] * (rate.budget / last[0]) ** share)
        last = (rate.budget, rate.success)
    return None


def _rate(variant: str, method: str, budget: float, results: list[dict[str, Any]]) -> Rate:
    attacked = [result for result in results if "unmatched" not in result]

    def mean(name: str) -> float | None:
        values = [result[name] for result in attacked if name in result]
        return float(np.mean(values)) if values else None

    def share(outcomes: list[bool]) -> float:
        return float(np.mean(outcomes)) if outcomes else 0.0

    warnings: dict[str, int] = {}
    for result in attacked:
        for warning in result["warnings"]:
            warnings[warning] = warnings.get(warning, 0) + 1
    return Rate(
        variant,
        method,
        budget,
        images=len(attacked),
        unmatched=len(results) - len(attacked),
        attacked=sum("inferred" not in result for result in attacked),
        success=share([result["success"] for result in attacked]),
        success_float=share([result["success_float"] for result in attacked]),
        abstained=share([result["decision"] == "abstain" for result in attacked]),
        l2=mean("l2"),
        ssim=mean("ssim"),
        queries=mean("queries"),
        seconds=mean("seconds"),
        warnings=warnings,
    )
