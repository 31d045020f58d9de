"""The three attacks on the published image: the paper's white-box and black-box ones, and the adaptive one.

The adaptive attack looks for each image's cost of evasion by bisection; the others are run under the paper's budgets,
except those that they never felt. What follows without an attack is recorded too, and marked as inferred.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dualshield.attacks.budgets import Outcomes
from dualshield.attacks.methods import get_attack
from dualshield.attacks.result import AttackBudget, AttackResult
from dualshield.errors import NothingToAttackError
from dualshield.evaluation.parts.under_test import DeploymentUnderTest, ImageUnderTest
from dualshield.evaluation.plan.datasets import Picture
from dualshield.smoothing.variants import Variant

METHODS = {"whitebox": "pgd", "adaptive": "eot-pgd", "blackbox": "nes"}
# Only of this one the paper has FID.
FEATURES_OF = "whitebox"


def details(part: str, lab: DeploymentUnderTest, variant: Variant, picture: Picture) -> tuple[str, ...]:
    """The budgets; a hash without gradients can only be attacked by queries."""
    most = lab.plan.attack_limit
    if (part != "blackbox" and not lab.is_differentiable) or (most is not None and picture.index >= most):
        return ()
    return tuple(f"{budget:g}" for budget in lab.plan.budgets(part))


def work(part: str, subject: ImageUnderTest, missing: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """One record per budget, in the order of the attacks."""
    plan = subject.lab.plan
    outcomes = Outcomes(plan.budgets(part), search=part == "adaptive")
    for budget in outcomes.budgets:
        if (known := subject.known(part, f"{budget:g}")) is not None:
            outcomes.found[budget] = known
    written = set(outcomes.found)
    while (tried := outcomes.next_budget()) is not None:
        outcomes.found[tried] = _attack(subject, part, tried)
        written.add(tried)
        yield f"{tried:g}", outcomes.found[tried]
    outcomes.infer()
    for budget, outcome in outcomes.found.items():
        if budget not in written:
            _show_again(subject, part, budget, outcome)
            yield f"{budget:g}", outcome


def _attack(subject: ImageUnderTest, part: str, budget: float) -> dict[str, Any]:
    lab, published = subject.lab, subject.published
    victim = subject.victim.with_noise(subject.noise(part, f"{budget:g}"))
    try:
        result = get_attack(METHODS[part])(victim, published, AttackBudget(budget), seed=lab.plan.seed)
    except NothingToAttackError:
        return {"unmatched": True}
    _keep(subject, part, result)
    return {**result.to_dict(), "lpips": lab.extras.distance(published.pixels, result.adversarial.pixels)}


def _keep(subject: ImageUnderTest, part: str, result: AttackResult) -> None:
    lab, picture = subject.lab, subject.picture
    if subject.in_gallery:
        file = lab.folder.attacked_file(part, lab.label, subject.variant, picture, result.budget)
        lab.folder.save_image(file, result.adversarial)
    if part == FEATURES_OF and "quality" in lab.plan.parts:
        features = lab.extras.features(result.adversarial.pixels)
        if features is not None:
            lab.folder.save_features(features_place(lab, subject.variant, picture, result.budget), features)


def _show_again(subject: ImageUnderTest, part: str, budget: float, outcome: dict[str, Any]) -> None:
    """The gallery has an image for every budget that has one, inferred or not."""
    lab, picture = subject.lab, subject.picture
    if not subject.in_gallery or "budget" not in outcome:
        return
    files = [
        lab.folder.attacked_file(part, lab.label, subject.variant, picture, b) for b in (outcome["budget"], budget)
    ]
    lab.folder.copy_image(*files)


def features_place(lab: DeploymentUnderTest, variant: str, picture: Picture, budget: float) -> tuple[str, ...]:
    """Where the features of an attacked image are."""
    return "attacked", lab.label, variant, picture.dataset, picture.name, f"{budget:g}"
