"""A run of the parts that take no time, with votes: those of a resumed run are drawn again as they were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dualshield.evaluation.plan.plan import Plan
from dualshield.evaluation.plan.protocol import Protocol
from dualshield.evaluation.run.run import Summary, run_plan
from dualshield.smoothing.deploy import deploy

CHEAP = ("certified", "collisions")


def cheap(data: Path, out: Path, small: Protocol, **options: Any) -> Summary:
    plan = Plan((deploy("pdq", method="votes"),), ("original", "smoothing"), CHEAP, small, 3)
    return run_plan(replace(plan, **options.pop("plan", {})), [data], out, **options)
