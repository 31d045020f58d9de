"""The cheapest evasion of an exact matcher: the primal of the problem that its certificate bounds from below.

At the shortest change that reaches the boundary, the change is parallel to the gradient of the soft distance D there.
So from any start the next change is the shortest one that reaches the boundary of D linearised at this one; half steps
keep it from jumping. The first start is the solution of the certificate's dual problem. Pixels at the end of their
range cannot move further: they are held, and the others take over. The result is rounded to 8 bits; the boundary is
passed by as little as rounding allows.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from dualshield.attacks.base import BaseAttack
from dualshield.attacks.exact_victim import ExactVictim
from dualshield.attacks.judge import judged
from dualshield.attacks.l2_ball import project
from dualshield.attacks.result import AttackBudget, AttackResult
from dualshield.attacks.victim import Target
from dualshield.errors import InputError
from dualshield.images.canonical import CanonicalImage
from dualshield.images.eight_bit import to_8bit
from dualshield.smoothing.statistics import Decision

STEPS = 40
# How far past the boundary, in bits; rounding to 8 bits moves D by some hundredths.
SPARE_BITS = (0.01, 0.03, 0.1, 0.3, 1.0)


@dataclass(frozen=True, kw_only=True)
class Optimal(BaseAttack):
    """Finds the shortest evasion, whatever the budget; it succeeds if that fits into the budget."""

    steps: int = STEPS

    def run(self, victim: Target, query: CanonicalImage, budget: AttackBudget) -> AttackResult:
        if not isinstance(victim, ExactVictim):
            raise InputError("the attack optimal needs one exact matcher, such as pdq with smoothing; use eot-pgd")
        pixels = victim.start(query)
        started = time.perf_counter()
        delta = project(pixels, self.shortest(victim, pixels), budget.l2)
        return judged("optimal", victim, pixels, delta, budget, self.steps, started)

    def shortest(self, victim: ExactVictim, pixels: torch.Tensor) -> torch.Tensor:
        """Return the shortest change found whose saved image does not match."""
        delta = _start(victim, pixels)
        for step in range(self.steps):
            delta = delta + 0.5 * (_linearised(victim, pixels, delta, victim.boundary) - delta)
            self.progress(step + 1, self.steps)
        for spare in SPARE_BITS:
            changed = delta
            for _ in range(4):  # from so near, a few whole steps reach the boundary itself
                changed = _linearised(victim, pixels, changed, victim.boundary + spare)
            if victim.decision(to_8bit(pixels + changed)) is not Decision.MATCH:
                return changed
        return changed


attack = Optimal()


def _start(victim: ExactVictim, pixels: torch.Tensor) -> torch.Tensor:
    matcher, kept = victim.parts
    soft = matcher.soft(kept.sigma)
    found = matcher.coefficients(pixels.detach().cpu().numpy())
    evasion, multipliers = soft.attack(found, kept.code, victim.boundary)
    weights = evasion.toward * multipliers.p / matcher.rows.lengths
    return matcher.lift(weights, pixels)


def _linearised(victim: ExactVictim, pixels: torch.Tensor, delta: torch.Tensor, goal: float) -> torch.Tensor:
    """Return the shortest change within the pixel range at which D, linearised at ``delta``, is ``goal``."""
    moving = delta.detach().requires_grad_()
    distance = victim.soft_distance(pixels + moving)
    (gradient,) = torch.autograd.grad(distance, moving)
    missing = goal - float(distance.detach()) + float((gradient * delta).sum())
    low, high = -pixels, 1 - pixels
    free = torch.ones_like(gradient, dtype=torch.bool)
    held = torch.zeros_like(gradient)
    for _ in range(8):
        norm = float((gradient[free] ** 2).sum())
        if norm <= 0:
            break
        rest = missing - float((gradient * held).sum())
        change = torch.where(free, gradient * (rest / norm), held)
        outside = free & ((change < low) | (change > high))
        if not outside.any():
            return change
        held = torch.where(outside, change.clamp(low, high), held)
        free &= ~outside
    return held if norm <= 0 else change.clamp(low, high)
