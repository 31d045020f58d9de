"""Perturbations to publish, and how far what is published is from them."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from dualshield.images import CANONICAL_SIZE, load_image
from dualshield.images.publication import Publication
from tests.helpers.image_files import SUFFIXES

NOTHING = torch.zeros(3, CANONICAL_SIZE, CANONICAL_SIZE)
ALL_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "AVIF", "HEIF")


def smooth() -> torch.Tensor:
    """Waves of amplitude 6/255, different in every channel and direction."""
    y, x = torch.meshgrid(*2 * [torch.linspace(0, 6.2832, CANONICAL_SIZE)], indexing="ij")
    return torch.stack([torch.cos(2 * x + y), torch.sin(x + 2 * y + 1), torch.cos(3 * x - y + 2)]) * 6 / 255


def publication(folder: Path, data: bytes, kind: str = "PNG") -> Publication:
    path = folder / f"photo{SUFFIXES.get(kind, '.' + kind.lower())}"
    path.write_bytes(data)
    return Publication.open(path)


def opened(data: bytes) -> Any:
    image = Image.open(BytesIO(data))
    image.load()
    return image


def error_of(before: Publication, published: bytes, delta: torch.Tensor) -> float:
    moved = load_image(published).pixels - before.canonical.pixels
    return float((moved - delta).norm() / delta.norm())
