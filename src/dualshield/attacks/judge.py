"""Judge an adversarial image: the deployed matcher decides on the saved image, with fresh noise."""

from __future__ import annotations

import time

import torch

from dualshield.attacks.l2_ball import to_8bit_within
from dualshield.attacks.result import AttackBudget, AttackResult
from dualshield.attacks.victim import Target
from dualshield.images.canonical import CanonicalImage
from dualshield.images.quality import compare
from dualshield.smoothing.statistics import Decision

VANISHED = "gradients vanished in some steps"
LOST_BY_SAVING = "success vanished after saving as 8-bit PNG"


def judged(
    method: str,
    victim: Target,
    query: torch.Tensor,
    delta: torch.Tensor,
    budget: AttackBudget,
    steps: int,
    started: float,
    warnings: tuple[str, ...] = (),
    *,
    wanted: Decision | None = None,
) -> AttackResult:
    """Return the result of an attack on the saved image. Success is ``wanted``, or by default anything but a match."""

    def succeeded(decision: Decision) -> bool:
        return decision != Decision.MATCH if wanted is None else decision == wanted

    image = to_8bit_within(query, delta, budget.l2)
    decision = victim.decision(image)  # not counted as a query of the attacker
    success_float = succeeded(victim.decision((query + delta).clamp(0, 1)))
    success = succeeded(decision)
    if success_float and not success:
        warnings = (*warnings, LOST_BY_SAVING)
    quality = compare(query.cpu(), image.cpu())
    return AttackResult(
        method=method,
        budget=budget.l2,
        success=success,
        success_float=success_float,
        decision=decision.value,
        l2=quality.l2,
        linf=quality.linf,
        ssim=quality.ssim,
        queries=victim.queries,
        steps=steps,
        seconds=time.perf_counter() - started,
        warnings=warnings,
        adversarial=CanonicalImage(image.cpu(), "adversarial"),
        deployment=None if victim.service is None else victim.service.deployment,
        reference_fingerprint=None if victim.service is None else victim.service.reference_fingerprint,
        noise_source=victim.noise_source,
    )
