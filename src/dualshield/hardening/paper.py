"""The paper's hardening: Algorithm 1 with the settings of its appendix.

Where the paper leaves details open: soft bits are a tanh of the margins in units of their root mean square. The inner
attack starts at the reference and takes five sign steps of 1/255 that raise the query's soft distance, inside the same
l_inf ball as the hardening (with steps of 4/255 PDQ images come out far worse than the paper's). Two negatives are
selected anew in every step. The sixteen draws of the reference are compared with sixteen draws of the attacked query,
and with eight draws of each negative, from a bank of its noisy codes. The update descends on the objective (the hinges
are averaged over draws, in bits).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from dualshield.engines.gradients import accelerated
from dualshield.hardening.objective import soft_bits, soft_distance, too_far, too_near
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.noise_kinds import CLIPPED, CLIPPED_LIMIT, NoiseKind

STEPS = 200
STEP_SIZE = 1 / 255
LINF = 16 / 255
SIGMA = 0.10
POSITIVE_DRAWS = 16
NEGATIVE_DRAWS = 8
SELECTED_NEGATIVES = POSITIVE_DRAWS // NEGATIVE_DRAWS
NEGATIVE_BANK = 4 * NEGATIVE_DRAWS
INNER_STEPS = 5
INNER_STEP_SIZE = 1 / 255
NEGATIVE_WEIGHT = 1.0
DISTORTION_WEIGHT = 0.01
CHUNK = 4  # draws per backward pass, to limit memory


def perturb(
    pixels: torch.Tensor,
    hashes: Sequence[PerceptualHash],
    negatives: Sequence[torch.Tensor],
    *,
    strength: float = 1.0,
    steps: int = STEPS,
    inner_step: float = INNER_STEP_SIZE,
    limit: bool = False,
    source: GaussianSource,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[torch.Tensor, int]:
    """Return a perturbation of canonical pixels and the number of steps; ``strength`` scales the l_inf ball.

    ``limit`` draws the noise of linear hashes from its normal law (`smoothing.clipped_noise`), for experiments.
    """
    rng = random.Random(int(source.integers(1, 2**62)))
    ball = LINF * strength
    noisy = [
        _NoisyBits(accelerated(hash_), CLIPPED_LIMIT if limit and hash_.is_linear else CLIPPED, source)
        for hash_ in hashes
    ]
    unrelated = [_Negatives(bits, negatives, rng) for bits in noisy]
    delta = torch.zeros_like(pixels)
    for step in range(steps):
        gradient = torch.zeros_like(pixels)
        for bits, others in zip(noisy, unrelated, strict=True):
            gradient += _gradient(bits, (pixels + delta).clamp(0, 1), others.draw(), ball, inner_step)
        gradient += DISTORTION_WEIGHT * 2 * delta / delta.numel()
        delta = (delta - STEP_SIZE * gradient.sign()).clamp(-ball, ball)
        delta = (pixels + delta).clamp(0, 1) - pixels
        progress(step + 1, steps)
    return delta, steps


@dataclass(frozen=True)
class _NoisyBits:
    """Soft bits of images under the paper's noise, which is added to the pixels and clipped."""

    hash: PerceptualHash
    noise: NoiseKind
    source: GaussianSource

    def __call__(self, pixels: torch.Tensor, count: int) -> torch.Tensor:
        return soft_bits(self.noise.margins(self.hash, pixels, SIGMA, count, self.source))


class _Negatives:
    """Noisy bits of unrelated images, drawn when an image is first selected."""

    def __init__(self, bits: _NoisyBits, images: Sequence[torch.Tensor], rng: random.Random) -> None:
        self._bits, self._images, self._rng = bits, images, rng
        self._banks: dict[int, torch.Tensor] = {}

    @torch.no_grad()
    def draw(self) -> torch.Tensor | None:
        """Select negatives and return one code per draw of the reference, in equal shares; None without negatives."""
        chosen = self._rng.sample(range(len(self._images)), min(SELECTED_NEGATIVES, len(self._images)))
        for number in chosen:
            if number not in self._banks:
                parts = range(0, NEGATIVE_BANK, CHUNK)
                self._banks[number] = torch.cat([self._bits(self._images[number], CHUNK) for _ in parts])
        shares = [self._banks[n][self._rng.sample(range(NEGATIVE_BANK), POSITIVE_DRAWS // len(chosen))] for n in chosen]
        return torch.cat(shares) if shares else None


def _gradient(
    bits: _NoisyBits, reference: torch.Tensor, unrelated: torch.Tensor | None, ball: float, inner_step: float
) -> torch.Tensor:
    """Return the gradient of the positive and negative hinges with respect to the reference."""
    attack, max_distance = _inner_attack(bits, reference, ball, inner_step), bits.hash.max_distance
    total = torch.zeros_like(reference)
    chunk = POSITIVE_DRAWS if bits.noise is CLIPPED_LIMIT else CHUNK
    for first in range(0, POSITIVE_DRAWS, chunk):
        variable = reference.clone().requires_grad_()
        ours = bits(variable, chunk)
        hinges = too_far(soft_distance(ours, bits((variable + attack).clamp(0, 1), chunk)), max_distance)
        if unrelated is not None:
            distance = soft_distance(ours, unrelated[first : first + chunk])
            hinges = hinges + NEGATIVE_WEIGHT * too_near(distance, max_distance)
        if hinges.any():  # zero hinges have no gradient: skip the backward pass
            total += torch.autograd.grad(hinges.sum() / POSITIVE_DRAWS, variable)[0]
    return total


def _inner_attack(bits: _NoisyBits, reference: torch.Tensor, ball: float, step: float) -> torch.Tensor:
    """Return a query perturbation that raises the soft distance."""
    with torch.no_grad():
        target = bits(reference, 1)
    attack = torch.zeros_like(reference)
    for _ in range(INNER_STEPS):
        attack.requires_grad_()
        query = (reference + attack).clamp(0, 1)
        distance = soft_distance(bits(query, 1), target).sum()
        gradient = torch.autograd.grad(distance, attack)[0]
        attack = (attack.detach() + step * gradient.sign()).clamp(-ball, ball)
    return attack
