"""Harden any differentiable hash: a smooth, masked perturbation, found by gradients through the deployed noise.

The perturbation is a low-resolution field times the visibility threshold of each pixel. So it is smooth (it survives
resizing, 8 bits and JPEG) and concentrated where the image hides it. Every step draws noise at the deployed sigma on
four positives: the image itself, a random benign variant, and two adversaries. The adversaries are offsets of the core
of the front end inside an l2 ball. They ascend with the gradient of the same backward pass with which the image
descends, so the worst case is updated at no extra cost.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from dualshield.hardening.carrier import Carrier, StraightThrough
from dualshield.hardening.objective import soft_bits, soft_distance, too_far, too_near
from dualshield.hardening.positives import random_variant
from dualshield.hardening.visibility import VisibilityBudget, noticeable
from dualshield.hashes.margins import signs
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.frontend import Expansion
from dualshield.images.space import CANONICAL_SIZE
from dualshield.smoothing.deployment import Matcher
from dualshield.smoothing.noise import GaussianSource

STEPS = 80
STEP_SIZE = 0.15  # thresholds per step of Adam
FIELD = 64
# A colour change does less to a network than a grey change of the same length to PDQ, so the norm may be larger.
SPREAD = 1.4
ADVERSARIES = 2
ATTACK_RADIUS = 8.0  # in sigmas; attacks of this size evade smoothed matchers without hardening
ATTACK_STEP = 0.3  # fraction of the radius
SHARPNESS = 4.0  # softer than the paper's: bits far from the boundary keep a gradient
PATIENCE = 8
SSIM_EVERY = 10


@dataclass(frozen=True, eq=False)
class Goal:
    """The hardening goal of one deployed matcher: its hash, noise, and the codes to keep near and far."""

    hash: PerceptualHash
    expansion: Expansion
    sigma: float
    code: torch.Tensor  # (bits,) -1 and 1: the reference's own code; keeping it avoids new collisions
    negatives: torch.Tensor  # (n, bits) -1 and 1

    @staticmethod
    def of(matcher: Matcher, pixels: torch.Tensor, negatives: Sequence[torch.Tensor]) -> Goal:
        """Make the goal for an image from its unhardened reference."""
        reference = matcher.enroll(pixels)
        hash_ = matcher.hash
        codes = [signs(hash_.code(negative)) for negative in negatives]
        return Goal(
            hash_,
            hash_.front_end.expansion().to(hash_.device),
            _next_sigma(matcher, reference.sigma),
            signs(torch.as_tensor(reference.code)).to(hash_.device),
            torch.stack(codes).to(hash_.device) if codes else torch.empty(0, hash_.bits, device=hash_.device),
        )


@dataclass(eq=False)
class _Adversaries:
    """Persistent worst-case offsets of the core."""

    radius: float
    offsets: torch.Tensor

    def climb(self, gradient: torch.Tensor) -> None:
        length = gradient.flatten(1).norm(dim=1).clamp_min(1e-20)[:, None, None, None]
        self.offsets = self.offsets.detach() + ATTACK_STEP * self.radius * gradient / length
        norms = self.offsets.flatten(1).norm(dim=1).clamp_min(1e-20)[:, None, None, None]
        self.offsets = (self.offsets * (self.radius / norms).clamp(max=1)).requires_grad_()


def perturb(
    pixels: torch.Tensor,
    goals: Sequence[Goal],
    budget: VisibilityBudget,
    *,
    steps: int = STEPS,
    opacity: torch.Tensor | None = None,
    carrier: Carrier | None = None,
    source: GaussianSource,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[torch.Tensor, int]:
    """Return a perturbation of canonical pixels for all goals at once, and the number of steps."""
    rng = random.Random(int(source.integers(1, 2**62)))
    threshold = noticeable(pixels, opacity)
    publish = StraightThrough(pixels, carrier)
    field = torch.zeros(3, FIELD, FIELD, device=pixels.device, requires_grad=True)
    optimiser = torch.optim.Adam([field], lr=STEP_SIZE)
    attackers = [_attackers(goal, source) for goal in goals]
    norm, met, step = SPREAD * budget.norm, 0, 0
    for step in range(1, steps + 1):
        published = publish(_delta(field, threshold, budget))
        variant = random_variant(published, rng)
        loss = published.new_zeros(())
        worst = 0.0
        for goal, adversaries in zip(goals, attackers, strict=True):
            distances, penalty = _positives(goal, published, variant, adversaries.offsets, source)
            loss = loss + (distances.mean() + penalty) / goal.hash.bits
            worst = max(worst, float(too_far(distances.detach(), goal.hash.max_distance).max()))
        optimiser.zero_grad()
        found = torch.autograd.grad(loss, [field, *(a.offsets for a in attackers)])
        field.grad = found[0]
        optimiser.step()
        for adversaries, gradient in zip(attackers, found[1:], strict=True):
            adversaries.climb(gradient)
        norm = _confine(field, threshold, budget, norm, pixels if step % SSIM_EVERY == 0 or step == steps else None)
        progress(step, steps)
        met = met + 1 if worst == 0 else 0
        if met == PATIENCE:
            break
    with torch.no_grad():
        _confine(field, threshold, budget, norm, pixels)
        return _delta(field, threshold, budget), step


def _positives(
    goal: Goal,
    published: torch.Tensor,
    variant: torch.Tensor,
    offsets: torch.Tensor,
    source: GaussianSource,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the soft distances of noisy positives to the reference's code, and the penalty for near negatives."""
    front_end = goal.hash.front_end
    own = front_end.core(published)
    cores = torch.cat([own[None], front_end.core(variant)[None], own + offsets])
    noise = goal.sigma * source.normal(tuple(cores.shape)).to(cores.device)
    bits = soft_bits(goal.hash.network(goal.expansion(cores + noise)), SHARPNESS)
    near = soft_distance(bits[:1], goal.negatives)
    penalty = too_near(near, goal.hash.max_distance).mean() if len(near) else published.new_zeros(())
    return soft_distance(bits, goal.code), penalty


def _delta(field: torch.Tensor, threshold: torch.Tensor, budget: VisibilityBudget) -> torch.Tensor:
    size = (CANONICAL_SIZE, CANONICAL_SIZE)
    smooth = F.interpolate(field[None], size=size, mode="bicubic")[0]
    return smooth.clamp(-budget.peak, budget.peak) * threshold


@torch.no_grad()
def _confine(
    field: torch.Tensor, threshold: torch.Tensor, budget: VisibilityBudget, norm: float, original: torch.Tensor | None
) -> float:
    """Project the field onto the norm; with ``original``, shrink both until the SSIM budget holds. Return the norm."""
    # A pixel of the field covers (CANONICAL_SIZE / FIELD)^2 image pixels; three colours share one threshold.
    length = float(field.norm()) * CANONICAL_SIZE / FIELD / 3**0.5
    if length > norm:
        field.mul_(norm / length)
    if original is not None:
        while (shrink := budget.excess(original, (original + _delta(field, threshold, budget)).clamp(0, 1))) < 1:
            field.mul_(0.98 * shrink)
            norm = min(norm, length) * 0.98 * shrink
            length = norm
    return norm


def _attackers(goal: Goal, source: GaussianSource) -> _Adversaries:
    shape = (ADVERSARIES, *goal.hash.front_end.core_shape)
    start = 1e-3 * goal.sigma * source.normal(shape).to(goal.hash.device)
    return _Adversaries(ATTACK_RADIUS * goal.sigma, start.requires_grad_())


def _next_sigma(matcher: Matcher, sigma: float) -> float:
    """Return the next larger sigma on the grid, if there is one: a hardened image tolerates more noise."""
    above = [candidate for candidate in sorted(matcher.config.sigmas) if candidate > sigma]
    return above[0] if above else sigma
