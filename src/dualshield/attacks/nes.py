"""The paper's black-box attack: natural evolution strategies on the score that the service returns.

A 64 x 64 grey perturbation, clean start, at most 500 steps and 1,500 queries, 32 antithetic directions per estimate
(16 pairs), sign steps of 2/255, scale 4/255, early stop. One call to the service is one query, regardless of its number
of votes. `plain_score` follows the Hamming score of the plain hash instead, which a service may leak.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F

from dualshield.attacks.base import BaseAttack
from dualshield.attacks.judge import judged
from dualshield.attacks.l2_ball import to_8bit_within
from dualshield.attacks.result import AttackBudget, AttackResult
from dualshield.attacks.victim import Target
from dualshield.images.canonical import CanonicalImage
from dualshield.smoothing.statistics import Decision

STEPS = 500
QUERIES = 1500
DIRECTIONS = 32
STEP_SIZE = 2 / 255
SCALE = 4 / 255
GRID = 64


@dataclass(frozen=True, kw_only=True)
class Nes(BaseAttack):
    """Evades with queries only, without gradients."""

    steps: int = STEPS
    max_queries: int = QUERIES
    plain_score: bool = False

    def run(self, victim: Target, query: CanonicalImage, budget: AttackBudget) -> AttackResult:
        ball = _Ball(victim.start(query), budget.l2)
        started = time.perf_counter()
        score = victim.plain_score if self.plain_score else victim.score
        generator = torch.Generator().manual_seed(self.seed)
        grid = torch.zeros(GRID, GRID)
        step = 0
        for step in range(1, self.steps + 1):
            # Both the estimate and the decision after the step must fit into the query limit.
            if victim.queries + DIRECTIONS + 1 > self.max_queries:
                step -= 1
                break
            half = torch.randn(DIRECTIONS // 2, GRID, GRID, generator=generator)
            estimate = torch.zeros_like(grid)
            for direction in half:
                gain = score(ball.image(grid + SCALE * direction)) - score(ball.image(grid - SCALE * direction))
                estimate += gain * direction
            grid = ball.kept(grid + STEP_SIZE * estimate.sign())
            self.progress(min(victim.queries, self.max_queries), self.max_queries)
            # Decide on the saved image, which is also the one that is judged.
            if victim.decide(to_8bit_within(ball.centre, ball.change(grid), budget.l2)) != Decision.MATCH:
                break
        name = "nes-plain" if self.plain_score else "nes"
        result = judged(name, victim, ball.centre, ball.change(grid), budget, step, started)
        return replace(result, reach=max(result.l2, ball.reach))  # saving may lengthen a change a little


attack = Nes()


class _Ball:
    """Maps grey grids to images around the query, projected onto the budget and the pixel range."""

    def __init__(self, centre: torch.Tensor, l2: float) -> None:
        self.centre = centre
        self.l2 = l2
        self.reach = 0.0  # the longest change before projection; a larger budget gives the same attack

    def _grey(self, grid: torch.Tensor) -> tuple[torch.Tensor, float]:
        """Return one channel of the change, and its l2 over all three channels."""
        grey = F.interpolate(grid[None, None], size=self.centre.shape[-2:], mode="bilinear")[0]
        length = float(grey.norm()) * self.centre.shape[0] ** 0.5
        self.reach = max(self.reach, length)
        return grey.to(self.centre.device), length

    def image(self, grid: torch.Tensor) -> torch.Tensor:
        grey, length = self._grey(grid)
        return (self.centre + grey * min(1.0, self.l2 / max(length, 1e-20))).clamp_(0, 1)

    def change(self, grid: torch.Tensor) -> torch.Tensor:
        return self.image(grid) - self.centre

    def kept(self, grid: torch.Tensor) -> torch.Tensor:
        """Return the grid scaled into the ball; steps outside the ball would have no effect."""
        return grid * min(1.0, self.l2 / max(self._grey(grid)[1], 1e-20))
