"""The paper's black-box attack: natural evolution strategies on the score that the service returns.

A 64 x 64 grey perturbation, clean start, at most 500 steps and 1,500 queries, 32 antithetic directions per estimate
(16 pairs), sign steps of 2/255, scale 4/255, early stop. Every evaluation of the service is one query, however many
noisy votes it takes there. `plain_score` follows the Hamming score of the plain hash instead, as a service may leak it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

from dualshield.attacks.judge import judged
from dualshield.attacks.result import AttackResult, Budget
from dualshield.attacks.space import project
from dualshield.attacks.victim import Victim
from dualshield.images.canonical import CanonicalImage
from dualshield.smoothing.statistics import Decision

STEPS = 500
QUERIES = 1500
DIRECTIONS = 32
STEP_SIZE = 2 / 255
SCALE = 4 / 255
GRID = 64


def attack(
    victim: Victim,
    query: CanonicalImage,
    budget: Budget,
    *,
    steps: int = STEPS,
    max_queries: int = QUERIES,
    plain_score: bool = False,
    seed: int = 2026,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> AttackResult:
    """Evade by queries alone."""
    pixels = victim.start(query)
    started = time.perf_counter()
    score = victim.plain_score if plain_score else victim.score
    generator = torch.Generator().manual_seed(seed)
    grid = torch.zeros(GRID, GRID)
    step = 0
    for step in range(1, steps + 1):
        # An estimate and the look at where it leads must both fit.
        if victim.queries + DIRECTIONS + 1 > max_queries:
            step -= 1
            break
        half = torch.randn(DIRECTIONS // 2, GRID, GRID, generator=generator)
        estimate = torch.zeros_like(grid)
        for direction in half:
            gain = score(_image(pixels, grid + SCALE * direction, budget)) - score(
                _image(pixels, grid - SCALE * direction, budget)
            )
            estimate += gain * direction
        grid = grid + STEP_SIZE * estimate.sign()
        # Keep the grid itself inside the ball, or steps outside it would lead nowhere.
        grid = grid * min(1.0, budget.l2 / max(float(_upsampled(grid, pixels).norm()), 1e-20))
        progress(min(victim.queries, max_queries), max_queries)
        if victim.decide(_image(pixels, grid, budget)) != Decision.MATCH:
            break
    name = "nes-plain" if plain_score else "nes"
    return judged(name, victim, pixels, _delta(pixels, grid, budget), budget, step, started)


def _upsampled(grid: torch.Tensor, pixels: torch.Tensor) -> torch.Tensor:
    size = pixels.shape[-2:]
    return F.interpolate(grid[None, None], size=size, mode="bilinear")[0].to(pixels.device).expand(3, -1, -1)


def _delta(pixels: torch.Tensor, grid: torch.Tensor, budget: Budget) -> torch.Tensor:
    return project(pixels, _upsampled(grid, pixels), budget.l2)


def _image(pixels: torch.Tensor, grid: torch.Tensor, budget: Budget) -> torch.Tensor:
    return pixels + _delta(pixels, grid, budget)
