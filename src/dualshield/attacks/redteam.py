"""Many attacks on many images: success rates by variant, method and budget, resumable."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dualshield.attacks.methods import Defence, get_attack
from dualshield.attacks.result import Budget
from dualshield.attacks.victim import Against
from dualshield.errors import InputError, NothingToAttackError
from dualshield.images import CanonicalImage, load_image
from dualshield.journal import Journal
from dualshield.smoothing.noise import GaussianSource

UNTRIED: dict[str, Any] = {
    "inferred": True,
    "success": False,
    "success_float": False,
    "decision": "match",
    "warnings": [],
}

Key = tuple[str, str, str, float]  # variant, file, method, budget
Found = dict[Key, dict[str, Any]]


@dataclass(frozen=True)
class Plan:
    """What is attacked, and how. Evasions start at the published image, collisions at the next image of the list.

    With ``search`` the budgets are a scale on which each image's cost of evasion is found by bisection, as minimum-norm
    attacks are judged: what succeeds within a budget succeeds within every larger one, and where an attack failed,
    smaller budgets are taken to fail too.
    """

    hash: str
    methods: tuple[str, ...] = ("pgd", "eot-pgd")
    budgets: tuple[float, ...] = (40.0, 90.0, 180.0)
    variants: tuple[Against, ...] = ("original", "smoothing", "ours")
    search: bool = False
    seed: int = 2026
    device: str = "cpu"

    def __post_init__(self) -> None:
        for method in self.methods:
            get_attack(method)
        for budget in self.budgets:
            Budget(budget)
        if not (self.methods and self.budgets and self.variants):
            raise InputError("red team: give at least one method, one budget and one variant")
        if "collision" in self.methods and self.search:
            raise InputError("red team: the cost is that of evasion; run collisions without the search")
        if list(self.budgets) != sorted(set(self.budgets)):
            raise InputError("red team: give different budgets in ascending order")


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
) -> list[Rate]:
    """Attack every file in every variant, method and budget; what the journal holds already is not repeated."""
    if "collision" in plan.methods and len(files) < 2:
        raise InputError("red team: a collision needs a second image")
    names = [f"{file.parent.name}/{file.name}" for file in files]
    if len(set(names)) < len(names):
        raise InputError("red team: two of the files have the same folder and name; give each folder once")
    record = Journal(journal, {**asdict(plan), "files": names}) if journal else None
    found: Found = {}
    for entry in record.records() if record else ():
        if isinstance(entry, dict) and "key" in entry:
            found[tuple(entry["key"])] = entry["result"]
    total = len(files) * len(plan.variants) * len(plan.methods)
    done = 0
    for variant in plan.variants:
        lab = _Laboratory(plan, variant)
        for index, (file, name) in enumerate(zip(files, names, strict=True)):
            published: CanonicalImage | None = None
            for method in plan.methods:
                progress(f"{variant}, {method}, {name}", done, total)
                outcomes = _Outcomes(plan, variant, name, method, found)
                while (budget := outcomes.next_budget()) is not None:
                    published = published or lab.publish(name, load_image(file))
                    key = (variant, name, method, budget)
                    query = load_image(files[(index + 1) % len(files)]) if method == "collision" else published
                    found[key] = lab.attack(key, published, query)
                    if record:
                        record.append({"key": key, "result": found[key]})
                outcomes.infer()
                done += 1
    progress("finished", total, total)
    return [
        _rate(variant, method, budget, [found[variant, name, method, budget] for name in names])
        for variant in plan.variants
        for method in plan.methods
        for budget in plan.budgets
    ]


class _Laboratory:
    """One variant of the defence, set up when the first attack needs it.

    Every piece of work has noise of its own, so that a resumed run gives what an uninterrupted one would have given.
    """

    def __init__(self, plan: Plan, variant: Against) -> None:
        self.plan = plan
        self.variant = variant

    @cached_property
    def defence(self) -> Defence:
        return Defence(self.plan.hash, self.variant, device=self.plan.device, source=self._noise())

    def _noise(self, *labels: object) -> GaussianSource:
        text = "\n".join(map(str, (self.plan.seed, self.variant, *labels)))
        return GaussianSource.from_seed(int.from_bytes(hashlib.sha256(text.encode()).digest()))

    def publish(self, name: str, image: CanonicalImage) -> CanonicalImage:
        self.defence.draw_from(self._noise(name))
        return self.defence.publish(image)

    def attack(self, key: Key, published: CanonicalImage, query: CanonicalImage) -> dict[str, Any]:
        _, _, method, budget = key
        self.defence.draw_from(self._noise(*key))
        try:
            victim = self.defence.victim(published)
            return get_attack(method)(victim, query, Budget(budget), seed=self.plan.seed).to_dict()
        except NothingToAttackError:
            return {"unmatched": True}


@dataclass(frozen=True)
class _Outcomes:
    """One image under one attack: which budget is to be tried next."""

    plan: Plan
    variant: str
    name: str
    method: str
    found: Found

    def _at(self, budget: float) -> dict[str, Any] | None:
        return self.found.get((self.variant, self.name, self.method, budget))

    def next_budget(self) -> float | None:
        """None when all is known."""
        if not self.plan.search:
            return next((b for b in reversed(self.plan.budgets) if self._at(b) is None and not self._unfelt(b)), None)
        low, high = self._bracket()
        middle = (low + high) // 2
        return self.plan.budgets[middle] if low < high else None

    def _unfelt(self, budget: float) -> dict[str, Any] | None:
        """An attack under a larger budget that never came up to this one: it would have been the same under it."""
        larger = (self._at(b) for b in self.plan.budgets if b > budget)
        return next((outcome for outcome in larger if outcome and (outcome.get("reach") or math.inf) <= budget), None)

    def _bracket(self) -> tuple[int, int]:
        """The least successful budget lies in ``[low, high]`` as indices, as far as is known."""
        low, high = 0, len(self.plan.budgets)
        while low < high:
            middle = (low + high) // 2
            outcome = self._at(self.plan.budgets[middle])
            if outcome is None:
                break
            if "unmatched" in outcome:
                return high, high
            low, high = (low, middle) if outcome["success"] else (middle + 1, high)
        return low, high

    def infer(self) -> None:
        """The budgets left out. Of a search: above its least success that one again, below it nothing was found."""
        if not self.plan.search:
            for budget in reversed(self.plan.budgets):
                if self._at(budget) is None and (same := self._unfelt(budget)):
                    self.found[self.variant, self.name, self.method, budget] = {**same, "inferred": True}
            return
        least: dict[str, Any] | None = None
        for budget in self.plan.budgets:
            outcome = self._at(budget)
            if outcome is None:
                outcome = UNTRIED if least is None else {**least, "inferred": True}
                self.found[self.variant, self.name, self.method, budget] = outcome
            elif least is None and (outcome.get("success") or "unmatched" in outcome):
                least = outcome
        first = self._at(self.plan.budgets[0])
        if least is not None and "unmatched" in least and first == UNTRIED:
            for budget in self.plan.budgets:
                self.found[self.variant, self.name, self.method, budget] = least


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
