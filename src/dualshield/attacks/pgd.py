"""The paper's white-box attack: projected sign-gradient descent on the base hash.

RGB space, focused flip-margin objective, 300 steps of 1/255, three random starts, early stop as soon as the base
hash is evaded, projection onto the l2 budget and the pixel range. Against a smoothed matcher it still follows the base
hash (behind the deployed low-pass, without noise), as in the paper, and is judged by the smoothed decision on fresh
noise; `eot` is the adaptive attack. With several hashes it follows those not evaded yet, and stops when all are evaded.
It looks at images as they are, whatever views the matcher has.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from dualshield.attacks.base import BaseAttack
from dualshield.attacks.judge import VANISHED, judged
from dualshield.attacks.l2_ball import project
from dualshield.attacks.objective import combined_direction, flip_margin, needed_flips
from dualshield.attacks.result import AttackBudget, AttackResult
from dualshield.attacks.victim import Target
from dualshield.engines.gradients import accelerated
from dualshield.errors import InputError
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.canonical import CanonicalImage

STEPS = 300
STEP_SIZE = 1 / 255
RESTARTS = 3
START = 1 / 255
NO_EOT = "a randomised matcher was attacked without averaging over its noise; try eot-pgd"
NO_VIEWS = "a matcher with several views or sigmas was attacked in one of them; try eot-pgd"


@dataclass(frozen=True, kw_only=True)
class Pgd(BaseAttack):
    """Evades within the budget. All restarts run as one batch; each stops when it succeeds."""

    steps: int = STEPS
    restarts: int = RESTARTS
    early_stop: bool = True

    def run(self, victim: Target, query: CanonicalImage, budget: AttackBudget) -> AttackResult:
        return self.run_many([victim], [query], budget)[0]

    def run_many(
        self, victims: Sequence[Target], queries: Sequence[CanonicalImage], budget: AttackBudget
    ) -> list[AttackResult]:
        """Attack several pairs with the same hashes; images and restarts form one batch, which is fast on a GPU."""
        hashes = [member.hash for member in victims[0].members]
        if any([member.hash for member in victim.members] != hashes for victim in victims):
            raise InputError("pgd: pairs of different hashes cannot share a batch; attack one hash at a time")
        victims[0].require_differentiable()
        images = [victim.start(query) for victim, query in zip(victims, queries, strict=True)]
        started = time.perf_counter()
        pixels = torch.stack(images).repeat_interleave(self.restarts, 0)
        bases = [
            _Base(
                accelerated(hash_),
                torch.stack([victim.members[i].signs for victim in victims]).repeat_interleave(self.restarts, 0),
            )
            for i, hash_ in enumerate(hashes)
        ]
        # Every image gets the same random starts, independent of the other images in the batch.
        generator = torch.Generator().manual_seed(self.seed)
        noise = (torch.rand(self.restarts, *images[0].shape, generator=generator) * 2 - 1).to(pixels.device)
        delta = project(pixels, START * noise.repeat(len(images), 1, 1, 1), budget.l2)
        active = torch.ones(len(delta), dtype=torch.bool, device=pixels.device)
        taken = torch.zeros(len(delta), dtype=torch.long)
        vanished = torch.zeros(len(delta), dtype=torch.bool)
        reach = delta.flatten(1).norm(dim=1)
        for step in range(1, self.steps + 1):
            chosen = active.nonzero().flatten()
            here = delta[chosen]
            looks = [base.look(pixels[chosen], here, chosen) for base in bases]
            for look in looks:
                vanished[chosen.cpu()] |= ((look.gradient.flatten(1).abs().amax(1) == 0) & (look.loss > 0)).cpu()
            evaded = torch.stack([look.distance for look in looks]).amin(0) > 1
            stay = evaded if self.early_stop else torch.zeros_like(evaded)
            gradient = combined_direction([look.gradient for look in looks], [look.loss for look in looks])
            asked = here - STEP_SIZE * gradient.sign()
            reach[chosen] = torch.where(stay, reach[chosen], reach[chosen].maximum(asked.flatten(1).norm(dim=1)))
            moved = project(pixels[chosen], asked, budget.l2)
            delta[chosen] = torch.where(stay[:, None, None, None], here, moved)
            active[chosen[stay]] = False
            taken[chosen.cpu()] = step
            self.progress(step, self.steps)
            if not active.any():
                break
        # The paper keeps the first success. We keep the restart with the most flips, which survives rounding best.
        with torch.no_grad():
            distances = torch.stack([base.distance(base.hash.margins(pixels + delta)) for base in bases]).amin(0)
        results = []
        for index, (victim, image) in enumerate(zip(victims, images, strict=True)):
            mine = slice(index * self.restarts, (index + 1) * self.restarts)
            best = delta[mine][int(distances[mine].argmax())]
            noisy = any(member.matcher is not None for member in victim.members)
            warnings = [VANISHED] * bool(vanished[mine].any()) + [NO_EOT] * noisy
            warnings += [NO_VIEWS] * (len(victim.trials) > len(victim.members))
            result = judged("pgd", victim, image, best, budget, int(taken[mine].max()), started, tuple(warnings))
            results.append(replace(result, reach=max(result.l2, float(reach[mine].max()))))
        return results


attack = Pgd()


@dataclass(frozen=True, eq=False)
class _Look:
    """Loss, gradient and distance of one hash on a batch of images."""

    loss: torch.Tensor
    gradient: torch.Tensor
    distance: torch.Tensor


@dataclass(frozen=True, eq=False)
class _Base:
    """One plain hash, and the reference codes to evade, as -1 and 1."""

    hash: PerceptualHash
    signs: torch.Tensor

    def look(self, pixels: torch.Tensor, delta: torch.Tensor, rows: torch.Tensor) -> _Look:
        moving = delta.detach().requires_grad_()
        margins = self.hash.margins(pixels + moving)
        loss = flip_margin(margins, self.signs[rows], needed_flips(self.hash.max_distance, self.hash.bits))
        gradient = torch.autograd.grad(loss.sum(), moving)[0]
        return _Look(loss.detach(), gradient, self.distance(margins.detach(), rows))

    def distance(self, margins: torch.Tensor, rows: torch.Tensor | slice = slice(None)) -> torch.Tensor:
        """Return the number of flipped bits in units of the boundary."""
        return (margins * self.signs[rows] < 0).sum(-1) / self.hash.boundary
