"""The paper's white-box attack: projected sign-gradient descent on the base hash.

RGB space, focused flip-margin objective, 300 steps of 1/255, three random starts, early stop as soon as the base
hash is evaded, projection onto the l2 budget and the pixel range. Against a smoothed matcher it still follows the base
hash (behind the deployed low-pass, without noise), as in the paper, and is judged by the smoothed decision on fresh
noise: `eot` is the adaptive one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from dualshield.attacks.judge import VANISHED, judged
from dualshield.attacks.objective import flip_margin, needed_flips
from dualshield.attacks.result import AttackResult, Budget
from dualshield.attacks.space import project
from dualshield.attacks.victim import Victim
from dualshield.images.canonical import CanonicalImage

STEPS = 300
STEP_SIZE = 1 / 255
RESTARTS = 3
START = 1 / 255
NO_EOT = "a randomised matcher was attacked without averaging over its noise; try eot-pgd"


def attack(
    victim: Victim,
    query: CanonicalImage,
    budget: Budget,
    *,
    steps: int = STEPS,
    restarts: int = RESTARTS,
    early_stop: bool = True,
    seed: int = 2026,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> AttackResult:
    """Evade; all restarts run as one batch, and each that succeeds is left where it is."""
    victim.require_differentiable()
    pixels = victim.start(query)
    started = time.perf_counter()
    hash_, signs = victim.hash, victim.signs
    generator = torch.Generator().manual_seed(seed)
    noise = (torch.rand(restarts, *pixels.shape, generator=generator) * 2 - 1).to(pixels.device)
    delta = project(pixels, START * noise, budget.l2)
    flips = needed_flips(hash_.max_distance, hash_.bits)
    active = torch.ones(restarts, dtype=torch.bool, device=pixels.device)
    zero_gradients = step = 0
    for step in range(1, steps + 1):
        chosen = active.nonzero().flatten()
        moving = delta[chosen].requires_grad_()
        margins = hash_.margins(pixels + moving)
        evaded = (margins.detach() * signs < 0).sum(-1) > hash_.max_distance
        gradient = torch.autograd.grad(flip_margin(margins, signs, flips).sum(), moving)[0]
        zero_gradients += int((gradient.flatten(1).abs().amax(1) == 0).sum())
        stay = evaded if early_stop else torch.zeros_like(evaded)
        moved = project(pixels, moving.detach() - STEP_SIZE * gradient.sign(), budget.l2)
        delta[chosen] = torch.where(stay[:, None, None, None], moving.detach(), moved)
        active[chosen[stay]] = False
        progress(step, steps)
        if not active.any():
            break
    warnings = [VANISHED] * bool(zero_gradients) + [NO_EOT] * bool(victim.matcher)
    # The paper keeps the first success; among several, the one that flips most survives rounding best.
    with torch.no_grad():
        flipped = (hash_.margins(pixels + delta) * signs < 0).sum(-1)
    best = delta[int(flipped.argmax())]
    return judged("pgd", victim, pixels, best, budget, step, started, tuple(warnings))
