"""Red teams as tests run them: a plan, a folder, rates; and attacks whose outcome is known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from PIL import Image

from dualshield.errors import NothingToAttackError
from dualshield.evaluation.parts import attacked, under_test
from dualshield.evaluation.plan.redteam import RedTeamPlan
from dualshield.evaluation.rates import Rate, TransformRate, attack_rates, transform_rates
from dualshield.evaluation.run.records import RESULTS, Run
from dualshield.evaluation.run.run import run_plan
from dualshield.images import CanonicalImage
from dualshield.smoothing.deploy import deploy

COSTS = {"a.png": 0.5, "b.png": 7.0, "c.png": 30.0, "d.png": 1000.0}
PDQ = deploy("pdq")
ONE = RedTeamPlan(PDQ, ("eot-pgd",), (1.0,), ("original",))


def rates(plan: RedTeamPlan, images: list[Path], out: Path, **options: Any) -> list[Rate]:
    run_plan(plan, images, out, **options)
    return attack_rates(plan, Run.open(out))


def transformed_rates(plan: RedTeamPlan, images: list[Path], out: Path, **options: Any) -> list[TransformRate]:
    run_plan(plan, images, out, **options)
    return transform_rates(plan, Run.open(out))


def keep_lines(run: Path, count: int, of_next: int = 0) -> None:
    """As a kill would have left it: so many records, and a part of the next."""
    lines = (run / RESULTS).read_text().splitlines(keepends=True)
    (run / RESULTS).write_text("".join(lines[:count]) + lines[count][:of_next])


def noise_images(folder: Path, *names: str) -> list[Path]:
    """Small pictures that show nothing, each another nothing."""
    folder.mkdir(exist_ok=True)
    for index, name in enumerate(names):
        pixels = np.random.default_rng(index).integers(0, 256, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((64, 64)).save(folder / name)
    return [folder / name for name in names]


@dataclass
class _Result:
    budget: float
    success: bool

    def to_dict(self) -> dict[str, Any]:
        numbers = {"l2": self.budget, "ssim": 0.9, "queries": 0, "seconds": 0.0, "warnings": []}
        decision = "no_match" if self.success else "match"
        return {**numbers, "success": self.success, "success_float": self.success, "decision": decision}


class _Victim(str):
    def with_noise(self, noise: object) -> Self:
        return self


class _Defence:
    def __init__(self, *_: object, **__: object) -> None:
        pass

    def publish(self, image: CanonicalImage, noise: object) -> CanonicalImage:
        return image

    def victim(self, image: CanonicalImage) -> _Victim:
        return _Victim(image.name.rpartition("/")[2])


def known_costs(monkeypatch: pytest.MonkeyPatch, costs: dict[str, float]) -> list[tuple[str, float]]:
    """Attacks succeed from these budgets on; other files do not match to begin with. Returns what is tried."""
    tries: list[tuple[str, float]] = []

    def attack(victim: _Victim, query: CanonicalImage, budget: Any, *, seed: int) -> _Result:
        if victim not in costs:
            raise NothingToAttackError("nothing to evade")
        tries.append((str(victim), budget.l2))
        return _Result(budget.l2, budget.l2 >= costs[victim])

    monkeypatch.setattr(under_test, "Defence", _Defence)
    monkeypatch.setattr(attacked, "get_attack", lambda name: attack)
    return tries
