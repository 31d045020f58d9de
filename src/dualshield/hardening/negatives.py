"""Unrelated images that a hardened one must not come near: the user's own, or built-in ones."""

from __future__ import annotations

from pathlib import Path

import torch

from dualshield.images import list_images, load_image
from dualshield.images.synthetic import blank_images, natural_image

BUILT_IN = 11
MAX_NEGATIVES = 64


def negatives(folder: Path | None = None) -> list[torch.Tensor]:
    """Canonical pixels of the first images of a folder, or of blank and 1/f images: what noise drifts towards."""
    if folder is not None:
        return [load_image(file).pixels for file in list_images(folder)[:MAX_NEGATIVES]]
    images = [*blank_images(), *(natural_image(seed) for seed in range(BUILT_IN))]
    return [image.pixels for image in images]
