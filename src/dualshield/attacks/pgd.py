"""The paper's white-box attack: projected sign-gradient descent on the base hash.

RGB space, focused flip-margin objective, 300 steps of 1/255, three random starts, early stop as soon as the base
hash is evaded, projection onto the l2 budget and the pixel range. Against a smoothed matcher it still follows the base
hash (behind the deployed low-pass, without noise), as in the paper, and is judged by the smoothed decision on fresh
noise: `eot` is the adaptive one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from dualshield.attacks.judge import VANISHED, judged
from dualshield.attacks.objective import flip_margin, needed_flips
from dualshield.attacks.result import AttackResult, Budget
from dualshield.attacks.space import project
from dualshield.attacks.victim import Victim
from dualshield.errors import InputError
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
    return attack_many(
        [victim], [query], budget, steps=steps, restarts=restarts, early_stop=early_stop, seed=seed, progress=progress
    )[0]


def attack_many(
    victims: Sequence[Victim],
    queries: Sequence[CanonicalImage],
    budget: Budget,
    *,
    steps: int = STEPS,
    restarts: int = RESTARTS,
    early_stop: bool = True,
    seed: int = 2026,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[AttackResult]:
    """The same on several pairs under one hash: images and restarts are one batch, which a GPU likes."""
    hash_ = victims[0].hash
    if any(victim.hash is not hash_ for victim in victims):
        raise InputError("pgd: attack one hash at a time, pairs of several cannot share a batch")
    victims[0].require_differentiable()
    images = [victim.start(query) for victim, query in zip(victims, queries, strict=True)]
    started = time.perf_counter()
    pixels = torch.stack(images).repeat_interleave(restarts, 0)
    signs = torch.stack([victim.signs for victim in victims]).repeat_interleave(restarts, 0)
    # Every image gets the same random starts, whatever it shares its batch with.
    generator = torch.Generator().manual_seed(seed)
    noise = (torch.rand(restarts, *images[0].shape, generator=generator) * 2 - 1).to(pixels.device)
    delta = project(pixels, START * noise.repeat(len(images), 1, 1, 1), budget.l2)
    flips = needed_flips(hash_.max_distance, hash_.bits)
    active = torch.ones(len(delta), dtype=torch.bool, device=pixels.device)
    taken = torch.zeros(len(delta), dtype=torch.long)
    vanished = torch.zeros(len(delta), dtype=torch.bool)
    reach = delta.flatten(1).norm(dim=1)
    for step in range(1, steps + 1):
        chosen = active.nonzero().flatten()
        moving = delta[chosen].requires_grad_()
        margins = hash_.margins(pixels[chosen] + moving)
        evaded = (margins.detach() * signs[chosen] < 0).sum(-1) > hash_.max_distance
        loss = flip_margin(margins, signs[chosen], flips)
        gradient = torch.autograd.grad(loss.sum(), moving)[0]
        vanished[chosen.cpu()] |= ((gradient.flatten(1).abs().amax(1) == 0) & (loss > 0)).cpu()
        stay = evaded if early_stop else torch.zeros_like(evaded)
        asked = moving.detach() - STEP_SIZE * gradient.sign()
        reach[chosen] = torch.where(stay, reach[chosen], reach[chosen].maximum(asked.flatten(1).norm(dim=1)))
        moved = project(pixels[chosen], asked, budget.l2)
        delta[chosen] = torch.where(stay[:, None, None, None], moving.detach(), moved)
        active[chosen[stay]] = False
        taken[chosen.cpu()] = step
        progress(step, steps)
        if not active.any():
            break
    # The paper keeps the first success; among several, the one that flips most survives rounding best.
    with torch.no_grad():
        flipped = (hash_.margins(pixels + delta) * signs < 0).sum(-1)
    results = []
    for index, (victim, image) in enumerate(zip(victims, images, strict=True)):
        mine = slice(index * restarts, (index + 1) * restarts)
        best = delta[mine][int(flipped[mine].argmax())]
        warnings = [VANISHED] * bool(vanished[mine].any()) + [NO_EOT] * bool(victim.matcher)
        result = judged("pgd", victim, image, best, budget, int(taken[mine].max()), started, tuple(warnings))
        results.append(replace(result, reach=max(result.l2, float(reach[mine].max()))))
    return results
