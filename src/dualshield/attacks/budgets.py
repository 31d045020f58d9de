"""Choose the budgets under which an attack on one image runs, and infer the results for the other budgets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dualshield.smoothing.statistics import Decision

BUDGETS = (40.0, 90.0, 180.0)
"""The l2 budgets of the paper."""
COST_BUDGETS = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 90.0, 180.0)
"""The l2 budgets among which the cost of evasion is searched."""

DECISIONS = [decision.value for decision in Decision]
UNTRIED: dict[str, Any] = {
    "inferred": True,
    "success": False,
    "success_float": False,
    "decision": "match",
    "warnings": [],
}


NUMBERS = ("l2", "ssim", "queries", "seconds")


def is_outcome(value: object) -> bool:
    """Whether a value read from a file is a complete outcome of an attack."""
    if not isinstance(value, dict):
        return False
    if value.get("unmatched") is True:
        return True
    warnings, reach = value.get("warnings"), value.get("reach")
    untried = value.get("inferred") is True and not any(name in value for name in NUMBERS)
    return (
        all(isinstance(value.get(name), bool) for name in ("success", "success_float"))
        and value.get("decision") in DECISIONS
        and (untried or all(is_number(value.get(name)) for name in NUMBERS))
        and (reach is None or is_number(reach))
        and isinstance(warnings, list)
        and all(isinstance(warning, str) for warning in warnings)
    )


def is_number(value: object) -> bool:
    """Whether a value is a finite number that fits into a float; Python's JSON reader also accepts others."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e300 < value < 1e300


@dataclass
class Outcomes:
    """The outcomes of one attack on one image; ``found`` has the known outcome at each budget.

    With ``search`` the budgets (ascending) are searched by bisection, as usual for minimum-norm attacks: a success
    within a budget is a success within every larger one, and after a failure smaller budgets are assumed to fail too.
    """

    budgets: Sequence[float]
    search: bool = False
    found: dict[float, dict[str, Any]] = field(default_factory=dict)

    def next_budget(self) -> float | None:
        """Return the next budget to try; None if all outcomes are known."""
        if not self.search:
            unknown = (budget for budget in reversed(self.budgets) if budget not in self.found)
            return next((budget for budget in unknown if not self._outcome_of_larger(budget)), None)
        low, high = self._bracket()
        return self.budgets[(low + high) // 2] if low < high else None

    def _outcome_of_larger(self, budget: float) -> dict[str, Any] | None:
        """Return the outcome of a larger budget whose attack never exceeded this one; it would be the same here."""
        larger = (self.found.get(b) for b in self.budgets if b > budget)
        return next((outcome for outcome in larger if outcome and (outcome.get("reach") or math.inf) <= budget), None)

    def _bracket(self) -> tuple[int, int]:
        """Return indices ``low, high`` that enclose the least successful budget, as far as known."""
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
        """Fill in untried budgets. In a search, larger ones repeat the least success, smaller ones are failures."""
        for budget, outcome in self._inferred().items():
            self.found.setdefault(budget, outcome)

    def _inferred(self) -> dict[float, dict[str, Any]]:
        if not self.search:
            same_as = {budget: self._outcome_of_larger(budget) for budget in self.budgets}
            return {budget: {**same, "inferred": True} for budget, same in same_as.items() if same}
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
