"""Many attacks on many images: success rates by variant, method and budget, resumable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dualshield.attacks.methods import Defence, get_attack
from dualshield.attacks.result import Budget
from dualshield.attacks.victim import Against
from dualshield.errors import InputError, NothingToAttackError
from dualshield.images import load_image
from dualshield.journal import Journal
from dualshield.smoothing.noise import GaussianSource

Cell = tuple[str, str, float]  # variant, method, budget


@dataclass(frozen=True)
class Plan:
    """What is attacked, and how."""

    hash: str
    methods: tuple[str, ...] = ("pgd", "eot-pgd")
    budgets: tuple[float, ...] = (40.0, 90.0, 180.0)
    variants: tuple[Against, ...] = ("original", "smoothing", "ours")
    seed: int = 2026
    device: str = "cpu"

    def __post_init__(self) -> None:
        for method in self.methods:
            get_attack(method)
        for budget in self.budgets:
            Budget(budget)
        if not (self.methods and self.budgets and self.variants):
            raise InputError("red team: give at least one method, one budget and one variant")


@dataclass(frozen=True)
class Rate:
    """One cell of the table."""

    variant: str
    method: str
    budget: float
    images: int  # pairs that matched to begin with
    unmatched: int  # pairs that did not, and were not attacked
    success: float
    success_float: float
    abstained: float
    l2: float
    ssim: float
    queries: float
    seconds: float
    warnings: dict[str, int]


def run(
    plan: Plan,
    files: Sequence[Path],
    journal: Path | None = None,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> list[Rate]:
    """Attack every file in every variant, method and budget; what the journal holds already is not repeated."""
    record = Journal(journal, {**asdict(plan), "files": [file.name for file in files]}) if journal else None
    found: dict[tuple[str, str, str, float], dict[str, Any]] = {}
    for entry in record.records() if record else ():
        if isinstance(entry, dict) and "key" in entry:
            found[tuple(entry["key"])] = entry["result"]
    total = len(files) * len(plan.variants) * len(plan.methods) * len(plan.budgets)
    for variant in plan.variants:
        defence: Defence | None = None
        for file in files:
            keys = [(variant, file.name, method, budget) for method in plan.methods for budget in plan.budgets]
            missing = [key for key in keys if key not in found]
            if not missing:
                continue
            if defence is None:
                source = GaussianSource.from_seed(plan.seed).fork(variant)
                defence = Defence(plan.hash, variant, device=plan.device, source=source)
            for key, result in _attack(defence, file, missing, plan.seed):
                found[key] = result
                if record:
                    record.append({"key": key, "result": result})
                progress(f"{variant}, {key[2]} at {key[3]:g}", len(found), total)
    return [
        _rate((variant, method, budget), [found[variant, file.name, method, budget] for file in files])
        for variant in plan.variants
        for method in plan.methods
        for budget in plan.budgets
    ]


def _attack(
    defence: Defence, file: Path, keys: Sequence[tuple[str, str, str, float]], seed: int
) -> Iterator[tuple[tuple[str, str, str, float], dict[str, Any]]]:
    published = defence.publish(load_image(file))
    for key in keys:
        victim = defence.victim(published)
        attack = get_attack(key[2])
        try:
            yield key, attack(victim, published, Budget(key[3]), seed=seed).to_dict()
        except NothingToAttackError:
            yield key, {"unmatched": True}


def _rate(cell: Cell, results: list[dict[str, Any]]) -> Rate:
    attacked = [result for result in results if "unmatched" not in result]

    def mean(name: str) -> float:
        return float(np.mean([result[name] for result in attacked])) if attacked else 0.0

    warnings: dict[str, int] = {}
    for result in attacked:
        for warning in result["warnings"]:
            warnings[warning] = warnings.get(warning, 0) + 1
    return Rate(
        *cell,
        images=len(attacked),
        unmatched=len(results) - len(attacked),
        success=mean("success"),
        success_float=mean("success_float"),
        abstained=float(np.mean([r["decision"] == "abstain" for r in attacked])) if attacked else 0.0,
        l2=mean("l2"),
        ssim=mean("ssim"),
        queries=mean("queries"),
        seconds=mean("seconds"),
        warnings=warnings,
    )
