"""Random benign variants of an image: the paper's transformation families at random levels, differentiable.

JPEG uses real compression; its gradient is that of the identity.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
import torch.nn.functional as F

from dualshield.transforms import Transform

Level = Callable[[random.Random], float]

# Up to the middle of the paper's ranges; at higher levels most hashes fail with or without hardening.
_LEVELS: dict[str, Level] = {
    "jpeg": lambda rng: rng.randint(60, 95),
    "brightness": lambda rng: rng.uniform(0.85, 1.15),
    "contrast": lambda rng: rng.uniform(0.85, 1.15),
    "crop": lambda rng: rng.uniform(0.85, 0.98),
    "blur": lambda rng: rng.choice((3, 5)),
    "noise": lambda rng: rng.uniform(0.01, 0.03),
    "rotation": lambda rng: rng.uniform(-3, 3),
}


def random_variant(pixels: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """Return one random benign variant of canonical pixels."""
    family = rng.choice((*_LEVELS, "resize"))
    if family == "resize":
        return _resized(pixels, rng.randint(192, 448))
    variant = Transform(family, _LEVELS[family](rng))(pixels, seed=rng.getrandbits(31))
    return pixels + (variant - pixels).detach() if family == "jpeg" else variant


def _resized(pixels: torch.Tensor, side: int) -> torch.Tensor:
    small = F.interpolate(pixels[None], size=(side, side), mode="bilinear", antialias=True)
    return F.interpolate(small, size=pixels.shape[-2:], mode="bilinear")[0]
