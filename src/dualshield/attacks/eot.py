"""The adaptive white-box attack: it follows gradients of the smoothed matcher.

Gradients are averaged over draws of the deployed noise at the deployed sigma, against the reference codes of the
deployed mode. Steps are l2-normalised with momentum. When the distance stops improving, the step size halves (as in
AutoPGD) and the search restarts from the best point so far. A lucky draw cannot end the search: points are compared on
separate batches, and the result is judged on fresh noise.

A service with views or several sigmas has many trials, and an evasion must evade all of them. The search follows those
that are near (`nearest`), and looks again which these are whenever it compares points.

A plain hash has no noise to average over, and its many boundaries hinder gradient steps. There the search starts at the
shortest change of the linearised hash (`linearised`), which is usually enough by itself.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch

from dualshield.attacks import linearised
from dualshield.attacks.base import BaseAttack, Progress
from dualshield.attacks.judge import VANISHED, judged
from dualshield.attacks.l2_ball import project
from dualshield.attacks.nearest import look
from dualshield.attacks.objective import combined_direction
from dualshield.attacks.result import AttackBudget, AttackResult
from dualshield.attacks.victim import Target, Victim
from dualshield.images.canonical import CanonicalImage
from dualshield.images.eight_bit import to_8bit
from dualshield.smoothing.noise import GaussianSource

STEPS = 100
DRAWS = 4
MOMENTUM = 0.75
FIRST_STEP = 0.25  # fraction of the budget
WARM_STEP = 0.05
ROUNDS = 4
CHECK_EVERY = 10
CHECK_DRAWS = 64
# Of many trials: followed in each step, and how many of these are always the nearest; the others take turns.
TRIALS_PER_STEP, ALWAYS = 8, 4


@dataclass(frozen=True, kw_only=True)
class Adaptive(BaseAttack):
    """Settings of attacks that follow gradients of the smoothed matcher, averaged over ``draws``."""

    steps: int = STEPS
    draws: int = DRAWS


class Eot(Adaptive):
    """Evades within the budget."""

    def run(self, victim: Target, query: CanonicalImage, budget: AttackBudget) -> AttackResult:
        victim.require_differentiable()
        pixels = victim.start(query)
        started = time.perf_counter()
        search = Search(victim, pixels, GaussianSource.from_seed(self.seed), self.draws)
        start = _linearised_start(search, budget)
        if start is not None and search.distance(start) > victim.boundary:
            best, steps = start, ROUNDS  # there is no noise, so this evasion is final
        else:
            best, steps = search.run(budget, self.steps, self.progress, start=start), self.steps
        return judged("eot-pgd", victim, pixels, best, budget, steps, started, search.warnings)


attack = Eot()


def _linearised_start(search: Search, budget: AttackBudget) -> torch.Tensor | None:
    """Return a start for plain trials with small networks; their nearly orthogonal changes share the budget."""
    plain = [trial for trial in search.trials if not trial.sigma and trial.hash.has_small_network]
    if plain and search.chooses:
        return linearised.flip_all(plain, search.pixels, budget.l2 * (len(plain) / len(search.trials)) ** 0.5)
    start = None
    for trial in plain:
        own = linearised.flip(trial, search.pixels, budget.l2 / len(search.trials) ** 0.5, ROUNDS)
        start = own if start is None else project(search.pixels, start + own, budget.l2)
    return start


class Search:
    """A gradient search on the smoothed matcher, with the attacker's own noise: away from a match, or towards one."""

    def __init__(
        self, victim: Target, pixels: torch.Tensor, source: GaussianSource, draws: int, towards: float = 1.0
    ) -> None:
        self.victim = victim
        self.pixels = pixels
        self.source = source
        self.draws = draws
        self.towards = towards
        self.trials = victim.trials
        self.active = self.trials  # those that the search follows, the nearest first
        self.chooses = len(self.trials) > len(victim.members)  # which trials to follow
        self._turn = 0
        self.zero_gradients = 0
        self.reached = math.nan  # distance of the result of the last run

    def direction(self, delta: torch.Tensor) -> torch.Tensor:
        """Return the descent direction of the averaged objective, for all near trials together."""
        gradients, losses = [], []
        for trial in self._followed():
            moving = delta.detach().requires_grad_()
            image = self.pixels + moving
            if not trial.sigma:
                # Without noise, rounding to 8 bits matters: evaluate the saved image, with a straight-through gradient.
                image = image + (to_8bit(image) - image).detach()
            loss = trial.loss(image, self.draws, self.source, self.towards)
            gradients.append(torch.autograd.grad(loss, moving)[0])
            losses.append(loss.detach())
            self.zero_gradients += int(loss > 0 and not gradients[-1].any())
        return -combined_direction(gradients, losses)

    def distance(self, delta: torch.Tensor) -> float:
        """Return the mean distance of the saved image to the reference, on separate draws; it also updates `active`."""
        image = to_8bit(self.pixels + delta)
        if not self.chooses:
            return self.victim.noisy_distance(image, CHECK_DRAWS, self.source)
        found = look(self.trials, image, CHECK_DRAWS, self.source)
        self.active = tuple(self.trials[i] for i in found.active)
        return found.least

    def _followed(self) -> tuple[Victim, ...]:
        """Return the trials of the next step."""
        if not self.chooses or len(self.active) <= TRIALS_PER_STEP:
            return self.active
        nearest, others = self.active[:ALWAYS], self.active[ALWAYS:]
        first = self._turn % len(others)
        self._turn += TRIALS_PER_STEP - ALWAYS
        return nearest + (others[first:] + others[:first])[: TRIALS_PER_STEP - ALWAYS]

    def run(
        self,
        budget: AttackBudget,
        steps: int,
        progress: Progress,
        *,
        start: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the best perturbation found: the one with the largest distance, or the smallest for a collision."""
        sign = self.towards
        delta = torch.zeros_like(self.pixels) if start is None else start
        best, best_value = delta, sign * self.distance(delta)
        active = self.active
        velocity = torch.zeros_like(self.pixels)
        step_size, changed_at = (FIRST_STEP if start is None else WARM_STEP) * budget.l2, 0
        for step in range(1, steps + 1):
            velocity = MOMENTUM * velocity + (1 - MOMENTUM) * self.direction(delta)
            moved = delta + step_size * velocity / velocity.norm().clamp_min(1e-20)
            delta = project(self.pixels, moved, budget.l2)
            progress(step, steps)
            if step % CHECK_EVERY and step != steps:
                continue
            value = sign * self.distance(delta)
            if value > best_value:
                best, best_value, changed_at, active = delta, value, step, self.active
            elif step - changed_at >= 2 * CHECK_EVERY:
                step_size, changed_at, delta, velocity = step_size / 2, step, best, torch.zeros_like(velocity)
                self.active = active
        self.reached = sign * best_value
        return best

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons why the attack may be weaker than it should be."""
        return (VANISHED,) if self.zero_gradients else ()
