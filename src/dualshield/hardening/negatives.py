"""Unrelated images that a hardened image must not come near: from a folder, or built-in."""

from __future__ import annotations

from pathlib import Path

import torch

from dualshield.images import list_images, load_image
from dualshield.images.synthetic import blank_images, natural_image

BUILT_IN = 11
MAX_NEGATIVES = 64


def negatives(folder: Path | None = None) -> list[torch.Tensor]:
    """Return canonical pixels of the first images of a folder; without a folder, of blank and 1/f images."""
    if folder is not None:
        return [load_image(file).pixels for file in list_images(folder)[:MAX_NEGATIVES]]
    # Noisy images drift towards the codes of these.
    images = [*blank_images(), *(natural_image(seed) for seed in range(BUILT_IN))]
    return [image.pixels for image in images]
