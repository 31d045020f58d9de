"""Several hashes that decide together: a pair matches if any member says so, and an attacker must evade all of them.

Each member certifies with alpha divided by their number, so that all their certificates hold together with probability
1 - alpha (union bound), whichever of them is then quoted:

* a match holds as long as any member's match does: the largest radius of those that match;
* a non-match needs every member's non-match: the smallest radius of all.

The price is false matches, which add up: at most the sum of the members' rates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dualshield.smoothing.result import MemberResult
from dualshield.smoothing.statistics import Decision


def joint(results: Sequence[MemberResult]) -> tuple[Decision, float, float]:
    """The decision of all members, the certified radius and the detected one."""
    decision = joint_decision(result.decision for result in results)
    if decision is Decision.MATCH:
        matching = [result for result in results if result.decision is Decision.MATCH]
        return decision, max(r.radius for r in matching), max(r.radius_detected for r in matching)
    if decision is Decision.NO_MATCH:
        return decision, min(r.radius for r in results), min(r.radius_detected for r in results)
    return decision, 0.0, 0.0


def joint_decision(decisions: Iterable[Decision]) -> Decision:
    """A match is one whoever says so, and no further member is asked; a non-match needs all of them."""
    others = set()
    for decision in decisions:
        if decision is Decision.MATCH:
            return decision
        others.add(decision)
    return Decision.NO_MATCH if others == {Decision.NO_MATCH} else Decision.ABSTAIN
