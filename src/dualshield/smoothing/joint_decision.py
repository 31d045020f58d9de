"""The joint decision of several hashes: a pair matches if any member matches, so an attacker must evade all of them.

Each member that votes certifies with alpha divided by the number of such members; exact members cannot err. By the
union bound all certificates hold together with probability at least 1 - alpha, whichever of them is then reported:

* a match holds as long as any member's match holds: its radius is the largest among the matching members;
* a non-match needs the non-match of every member: its radius is the smallest of all members.

False matches add up: the joint rate is at most the sum of the members' rates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dualshield.images.space import RADIUS_SPACE
from dualshield.smoothing.names import Origin
from dualshield.smoothing.result import MatchResult, MemberResult
from dualshield.smoothing.statistics import Decision


def joint(results: Sequence[MemberResult]) -> tuple[Decision, float, float]:
    """Return the joint decision, the certified radius and the detected radius."""
    decision = joint_decision(result.decision for result in results)
    if decision is Decision.MATCH:
        matching = [result for result in results if result.decision is Decision.MATCH]
        return decision, max(r.radius for r in matching), max(r.radius_detected for r in matching)
    if decision is Decision.NO_MATCH:
        return decision, min(r.radius for r in results), min(r.radius_detected for r in results)
    return decision, 0.0, 0.0


def joint_decision(decisions: Iterable[Decision]) -> Decision:
    """Return MATCH at the first member's match (the rest is not evaluated), NO_MATCH if all agree, else ABSTAIN."""
    others = set()
    for decision in decisions:
        if decision is Decision.MATCH:
            return decision
        others.add(decision)
    return Decision.NO_MATCH if others == {Decision.NO_MATCH} else Decision.ABSTAIN


def combined(
    results: tuple[MemberResult, ...],
    *,
    reference: str,
    query: str,
    fingerprint: str,
    upload_norm: float | None,
    on_abstain: Decision,
    alpha: float,
    target_radius: float | None,
    noise_source: Origin | None,
    deployment: str,
    seconds: float,
) -> MatchResult:
    """Return the answer of a deployment from those of its members."""
    decision, radius, detected = joint(results)
    return MatchResult(
        reference=reference,
        query=query,
        hash="+".join(result.hash for result in results),
        decision=on_abstain if decision is Decision.ABSTAIN else decision,
        abstained=decision is Decision.ABSTAIN,
        radius=radius,
        radius_detected=detected,
        radius_space=RADIUS_SPACE,
        radius_upload=None if upload_norm is None else radius / upload_norm,
        on_abstain=on_abstain,
        alpha=alpha,
        target_radius=target_radius,
        noise_source=noise_source,
        reference_fingerprint=fingerprint,
        deployment=deployment,
        seconds=seconds,
        members=results,
    )
