"""Run several attacks on many images with one function call."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from dualshield._common.checks import NUMBER, PATH, require
from dualshield.attacks.budgets import BUDGETS, COST_BUDGETS
from dualshield.evaluation.plan.redteam import RedTeamPlan
from dualshield.evaluation.rates import Rate, attack_rates
from dualshield.evaluation.run.records import Run
from dualshield.evaluation.run.run import Progress, run_plan
from dualshield.smoothing.deploy import HashLike, as_deployment
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.variants import VARIANTS, Variant

PathLike = str | os.PathLike[str]


def redteam(
    hash: HashLike | Sequence[HashLike] | Deployment,
    images: PathLike | Sequence[PathLike],
    *,
    methods: Sequence[str] = ("pgd", "eot-pgd"),
    budgets: Sequence[float] | None = None,
    variants: Sequence[Variant] = VARIANTS,
    search: bool = False,
    strength: float = 1.0,
    seed: int = 2026,
    limit: int | None = None,
    out: PathLike | None = None,
    resume: bool = False,
    jobs: int = 1,
    progress: Progress = lambda what, done, total, left: None,
) -> list[Rate]:
    """Attack every image as published, and return success rates by variant, method and budget.

    ``images`` are folders or single files. Several hashes decide together. With ``search`` each image's cost of evasion
    is found by bisection over the budgets (see `cost_of_evasion`). The folder ``out`` keeps every single result, and
    ``resume`` continues an interrupted run there. Unreadable files are skipped with a warning.
    """
    require("images", images, Sequence, os.PathLike)
    require("out", out, *PATH, or_none=True)
    for name, given in (("methods", methods), ("variants", variants)):
        require(name, given, Sequence)
    require("budgets", budgets, Sequence, or_none=True)
    require("strength", strength, *NUMBER)
    require("limit", limit, int, or_none=True)
    for name, number in (("seed", seed), ("jobs", jobs)):
        require(name, number, int)
    paths = [images] if isinstance(images, str | os.PathLike) else list(images)
    for path in paths:
        require("images", path, *PATH)
    chosen = (COST_BUDGETS if search else BUDGETS) if budgets is None else budgets
    plan = RedTeamPlan(
        as_deployment(hash, {}), tuple(methods), tuple(chosen), tuple(variants), search, strength, seed, limit=limit
    )
    with TemporaryDirectory(prefix="dualshield-") as temporary:
        folder = Path(temporary, "run") if out is None else Path(out)
        summary = run_plan(plan, list(map(Path, paths)), folder, resume=resume, jobs=jobs, progress=progress)
        for warning in summary.warnings:
            warnings.warn(warning, stacklevel=2)
        return attack_rates(plan, Run.open(folder))
