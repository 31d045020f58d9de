"""The paper's hardening, to the letter: Algorithm 1 with the settings of its appendix.

Where the text is silent: bits are soft by a tanh of the margins in units of their root mean square; the inner
attack takes five sign steps of 1/255 that push the query's soft distance up, from the reference, inside the same
l_inf ball as the hardening; two negatives are selected anew in every step; the update is a descent on the objective
(the hinges are averaged over draws, in bits).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import torch

from dualshield.hardening.objective import soft_bits, soft_distance, too_far, too_near
from dualshield.hashes.contract import PerceptualHash
from dualshield.smoothing.noise import GaussianSource

STEPS = 200
STEP_SIZE = 1 / 255
LINF = 16 / 255
SIGMA = 0.10
POSITIVE_DRAWS = 16
NEGATIVE_DRAWS = 8
SELECTED_NEGATIVES = 2
INNER_STEPS = 5
NEGATIVE_WEIGHT = 1.0
DISTORTION_WEIGHT = 0.01
CHUNK = 4  # draws whose graphs are in memory at once


def perturb(
    pixels: torch.Tensor,
    hashes: Sequence[PerceptualHash],
    negatives: Sequence[torch.Tensor],
    *,
    strength: float = 1.0,
    steps: int = STEPS,
    source: GaussianSource,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[torch.Tensor, int]:
    """The perturbation of canonical pixels, and the steps it took; ``strength`` scales the l_inf ball."""
    rng = random.Random(int(source.integers(1, 2**62)))
    limit = LINF * strength
    delta = torch.zeros_like(pixels)
    for step in range(steps):
        gradient = torch.zeros_like(pixels)
        for hash_ in hashes:
            chosen = rng.sample(list(negatives), min(SELECTED_NEGATIVES, len(negatives)))
            gradient += _gradient(hash_, pixels, delta, chosen, limit, source)
        gradient += DISTORTION_WEIGHT * 2 * delta / delta.numel()
        delta = (delta - STEP_SIZE * gradient.sign()).clamp(-limit, limit)
        delta = (pixels + delta).clamp(0, 1) - pixels
        progress(step + 1, steps)
    return delta, steps


def _gradient(
    hash_: PerceptualHash,
    pixels: torch.Tensor,
    delta: torch.Tensor,
    negatives: Sequence[torch.Tensor],
    limit: float,
    source: GaussianSource,
) -> torch.Tensor:
    """Of the positive and negative hinges, with respect to the reference."""
    reference = (pixels + delta).clamp(0, 1)
    attack = _inner_attack(hash_, reference, limit, source)
    total = torch.zeros_like(pixels)
    for _ in range(POSITIVE_DRAWS // CHUNK):
        variable = reference.clone().requires_grad_()
        query = (variable + attack).clamp(0, 1)
        distance = soft_distance(_noisy_bits(hash_, variable, CHUNK, source), _noisy_bits(hash_, query, CHUNK, source))
        loss = too_far(distance, hash_.max_distance).sum() / POSITIVE_DRAWS
        total += _gradient_of(loss, variable)
    for negative in negatives:
        variable = reference.clone().requires_grad_()
        with torch.no_grad():
            theirs = _noisy_bits(hash_, negative, NEGATIVE_DRAWS, source)
        distance = soft_distance(_noisy_bits(hash_, variable, NEGATIVE_DRAWS, source), theirs)
        loss = NEGATIVE_WEIGHT * too_near(distance, hash_.max_distance).mean() / len(negatives)
        total += _gradient_of(loss, variable)
    return total


def _gradient_of(loss: torch.Tensor, variable: torch.Tensor) -> torch.Tensor:
    """A hinge that is met has no gradient: the backward pass is saved."""
    return torch.autograd.grad(loss, variable)[0] if loss > 0 else torch.zeros_like(variable)


def _inner_attack(hash_: PerceptualHash, reference: torch.Tensor, limit: float, source: GaussianSource) -> torch.Tensor:
    """A query perturbation that moves the soft distance up."""
    with torch.no_grad():
        target = _noisy_bits(hash_, reference, 1, source)
    attack = torch.zeros_like(reference)
    for _ in range(INNER_STEPS):
        attack.requires_grad_()
        query = (reference + attack).clamp(0, 1)
        distance = soft_distance(_noisy_bits(hash_, query, 1, source), target).sum()
        gradient = torch.autograd.grad(distance, attack)[0]
        attack = (attack.detach() + STEP_SIZE * gradient.sign()).clamp(-limit, limit)
    return attack


def _noisy_bits(hash_: PerceptualHash, pixels: torch.Tensor, count: int, source: GaussianSource) -> torch.Tensor:
    """Soft bits of the image under the paper's noise: on its pixels, then clipped."""
    noise = SIGMA * source.normal((count, *pixels.shape)).to(pixels.device)
    return soft_bits(hash_.margins((pixels + noise).clamp(0, 1)))
