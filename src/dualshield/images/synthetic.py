"""Generated images: blank ones, and noise with the spectrum of a photo."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from dualshield.images.canonical import CanonicalImage
from dualshield.images.space import CANONICAL_SIZE


def blank_images() -> list[CanonicalImage]:
    """Return images with little or no content: flat, a ramp, faint noise."""
    size = CANONICAL_SIZE
    ramp = torch.linspace(0.3, 0.7, size).expand(3, size, size)
    faint = 0.5 + 0.01 * torch.randn(3, size, size, generator=torch.Generator().manual_seed(0))
    flat = {f"flat-{v}": torch.full((3, size, size), v) for v in (0.0, 0.5, 1.0)}
    return [CanonicalImage(p.contiguous(), n) for n, p in {**flat, "ramp": ramp, "faint-noise": faint}.items()]


@cache
def natural_image(seed: int) -> CanonicalImage:
    """Return coloured 1/f noise: the spectrum of a photo without its content."""
    size = CANONICAL_SIZE
    rng = np.random.default_rng(seed)
    frequency = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)[None, :])
    frequency[0, 0] = 1
    channels = [np.fft.irfft2(np.fft.rfft2(rng.normal(size=(size, size))) / frequency**1.2) for _ in range(3)]
    mixed = rng.dirichlet([2, 2, 2], size=3) @ np.stack(channels).reshape(3, -1)
    low, high = np.percentile(mixed, [1, 99])
    pixels = np.clip((mixed - low) / (high - low), 0, 1).reshape(3, size, size)
    return CanonicalImage(torch.tensor(pixels, dtype=torch.float32), f"natural-{seed}")
