"""Which budgets an attack on one image is run under, and what follows for those left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dualshield.smoothing.statistics import Decision

BUDGETS = (40.0, 90.0, 180.0)
"""The paper's."""
COST_BUDGETS = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 90.0, 180.0)
"""The scale on which a cost of evasion is found."""

DECISIONS = [decision.value for decision in Decision]
UNTRIED: dict[str, Any] = {
    "inferred": True,
    "success": False,
    "success_float": False,
    "decision": "match",
    "warnings": [],
}


def is_outcome(value: object) -> bool:
    """Whether something that was read is all that rates and inferences need of an attack's outcome."""
    if not isinstance(value, dict):
        return False
    if value == {"unmatched": True}:
        return True
    warnings, reach = value.get("warnings"), value.get("reach")
    return (
        all(isinstance(value.get(name), bool) for name in ("success", "success_float"))
        and value.get("decision") in DECISIONS
        and all(is_number(value.get(name)) for name in ("l2", "ssim", "queries", "seconds"))
        and (reach is None or is_number(reach))
        and isinstance(warnings, list)
        and all(isinstance(warning, str) for warning in warnings)
    )


def is_number(value: object) -> bool:
    """A finite one that fits into a float; JSON as Python reads it knows others."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e300 < value < 1e300


@dataclass
class Outcomes:
    """One image under one attack; ``found`` holds what is known at each budget.

    With ``search`` the budgets (ascending) are a scale for bisection, as minimum-norm attacks are judged: what succeeds
    within a budget succeeds within every larger one, and where an attack failed, smaller budgets are taken to fail too.
    """

    budgets: Sequence[float]
    search: bool = False
    found: dict[float, dict[str, Any]] = field(default_factory=dict)

    def next_budget(self) -> float | None:
        """The one to be tried now; None when all is known."""
        if not self.search:
            unknown = (budget for budget in reversed(self.budgets) if budget not in self.found)
            return next((budget for budget in unknown if not self._unfelt(budget)), None)
        low, high = self._bracket()
        return self.budgets[(low + high) // 2] if low < high else None

    def _unfelt(self, budget: float) -> dict[str, Any] | None:
        """An attack under a larger budget that never came up to this one: it would have been the same under it."""
        larger = (self.found.get(b) for b in self.budgets if b > budget)
        return next((outcome for outcome in larger if outcome and (outcome.get("reach") or math.inf) <= budget), None)

    def _bracket(self) -> tuple[int, int]:
        """The least successful budget lies in ``[low, high]`` as indices, as far as is known."""
        low, high = 0, len(self.budgets)
        while low < high:
            middle = (low + high) // 2
            outcome = self.found.get(self.budgets[middle])
            if outcome is None:
                break
            if "unmatched" in outcome:
                return high, high
            low, high = (low, middle) if outcome["success"] else (middle + 1, high)
        return low, high

    def infer(self) -> None:
        """Fill in the budgets left out. Of a search: above its least success that one again, below it nothing."""
        for budget, outcome in self._inferred().items():
            self.found.setdefault(budget, outcome)

    def _inferred(self) -> dict[float, dict[str, Any]]:
        if not self.search:
            unfelt = {budget: self._unfelt(budget) for budget in self.budgets}
            return {budget: {**same, "inferred": True} for budget, same in unfelt.items() if same}
        if any("unmatched" in outcome for outcome in self.found.values()):
            return {budget: {"unmatched": True} for budget in self.budgets}
        inferred = {}
        least: dict[str, Any] | None = None
        for budget in self.budgets:
            outcome = self.found.get(budget)
            if outcome is None:
                inferred[budget] = UNTRIED if least is None else {**least, "inferred": True}
            elif least is None and outcome["success"]:
                least = outcome
        return inferred
