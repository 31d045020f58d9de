"""Attack the published image: the paper's white-box and black-box attacks, the adaptive one, and those of a red team.

An attack runs at each of its budgets, except those that it never exceeded with a larger budget, or it searches for the
cost of evasion by bisection. Results that follow from other budgets are recorded too, and marked as inferred.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dualshield.attacks.budgets import Outcomes, is_outcome
from dualshield.attacks.exact_victim import ExactVictim
from dualshield.attacks.methods import get_attack
from dualshield.attacks.result import AttackBudget, AttackResult
from dualshield.attacks.victim import Target
from dualshield.errors import NothingToAttackError
from dualshield.evaluation.parts.under_test import DeploymentUnderTest, ImageUnderTest
from dualshield.evaluation.plan.datasets import Picture
from dualshield.evaluation.plan.interface import ATTACKS, BY_QUERIES, OPTIMAL, RED_TEAM, RunPlan, budget_name
from dualshield.smoothing.variants import SMOOTHED, Variant

# The only attack for which the paper reports FID.
FEATURES_OF = "whitebox"


def details(part: str, lab: DeploymentUnderTest, variant: Variant, picture: Picture) -> tuple[str, ...]:
    """Return the names of the budgets; none if the hash lacks the gradients that the attack needs."""
    most = lab.plan.attack_limit
    if part == OPTIMAL and variant not in SMOOTHED:
        return ()  # there is no exact matcher to evade
    if (part not in BY_QUERIES and not lab.is_differentiable) or (most is not None and picture.index >= most):
        return ()
    return tuple(map(budget_name, lab.plan.scale(part).budgets))


def is_whole(result: dict[str, Any]) -> bool:
    """Return whether a record from a file is complete; incomplete records are measured again."""
    return is_outcome(result)


def work(
    part: str, subject: ImageUnderTest, missing: tuple[str, ...], start: Picture | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield one record per budget, in the order of the attacks; ``start`` replaces the published image as the start."""
    scale = subject.lab.plan.scale(part)
    outcomes = Outcomes(scale.budgets, scale.search)
    for budget in outcomes.budgets:
        if (known := subject.known(part, budget_name(budget))) is not None:
            outcomes.found[budget] = known
    written = set(outcomes.found)
    while (tried := outcomes.next_budget()) is not None:
        outcomes.found[tried] = _attack(subject, part, tried, start)
        written.add(tried)
        yield budget_name(tried), outcomes.found[tried]
    outcomes.infer()
    for budget, outcome in outcomes.found.items():
        if budget not in written:
            _copy_to_gallery(subject, part, budget, outcome)
            yield budget_name(budget), outcome


def _method(part: str, victim: Target, plan: RunPlan) -> str:
    """Return the attack of a part. The adaptive part of an evaluation takes the strongest one for the matcher."""
    strongest = part == "adaptive" and plan.name != RED_TEAM
    return OPTIMAL if strongest and isinstance(victim, ExactVictim) else ATTACKS[part]


def _attack(subject: ImageUnderTest, part: str, budget: float, start: Picture | None) -> dict[str, Any]:
    lab = subject.lab
    query = subject.published if start is None else start.load()
    try:
        victim = subject.victim.with_noise(subject.noise(part, budget_name(budget)))
        result = get_attack(_method(part, victim, lab.plan))(victim, query, AttackBudget(budget), seed=lab.plan.seed)
    except NothingToAttackError:
        return {"unmatched": True, **subject.refusal}
    _keep(subject, part, result)
    found = result.to_dict()
    if start is not None:
        found["query"] = start.label
    if lab.plan.has_metrics:
        found["lpips"] = lab.extras.distance(query.pixels, result.adversarial.pixels)
    return found


def _keep(subject: ImageUnderTest, part: str, result: AttackResult) -> None:
    lab, picture = subject.lab, subject.picture
    if subject.in_gallery:
        file = lab.folder.attacked_file(part, lab.label, subject.variant, picture, result.budget)
        lab.folder.save_image(file, result.adversarial)
    if part == FEATURES_OF and "quality" in lab.plan.parts:
        features = lab.extras.features(result.adversarial.pixels)
        if features is not None:
            lab.folder.save_features(features_place(lab, subject.variant, picture, result.budget), features)


def _copy_to_gallery(subject: ImageUnderTest, part: str, budget: float, outcome: dict[str, Any]) -> None:
    """Copy the attacked image of an inferred result, so that the gallery has one for each budget."""
    lab, picture = subject.lab, subject.picture
    if not subject.in_gallery or "budget" not in outcome:
        return
    files = [
        lab.folder.attacked_file(part, lab.label, subject.variant, picture, b) for b in (outcome["budget"], budget)
    ]
    lab.folder.copy_image(*files)


def features_place(lab: DeploymentUnderTest, variant: str, picture: Picture, budget: float) -> tuple[str, ...]:
    """Return the path of the features of an attacked image."""
    return "attacked", lab.label, variant, picture.dataset, picture.name, budget_name(budget)
