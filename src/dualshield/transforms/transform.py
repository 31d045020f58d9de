"""A transformation of images in [0,1]: one family at one level, clipped to [0,1]."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import overload

import torch

from dualshield.errors import InputError
from dualshield.images.accept import ImageLike, NotTensor, as_image
from dualshield.images.canonical import CanonicalImage
from dualshield.transforms import extras, paper

FAMILIES = {**paper.FAMILIES, **extras.FAMILIES}


@dataclass(frozen=True)
class Transform:
    """One family at one level; only noise depends on the seed."""

    family: str
    level: float

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise InputError(f"unknown transform family {self.family!r}; use one of {', '.join(FAMILIES)}")
        family = FAMILIES[self.family]
        fits = family.lowest <= self.level <= family.highest
        if not fits or (family.step and (self.level - family.lowest) % family.step):
            kind = {0: "a number", 1: "a whole number", 2: "an odd number"}[family.step]
            allowed = f"{kind} in [{family.lowest:g}, {family.highest:g}]"
            raise InputError(f"{self.family} level {self.level} is out of range; give {allowed}")

    @property
    def name(self) -> str:
        return f"{self.family}-{self.level:.12g}"

    @overload
    def __call__(self, image: torch.Tensor, *, seed: int = 0) -> torch.Tensor: ...

    @overload
    def __call__(self, image: NotTensor, *, seed: int = 0) -> CanonicalImage: ...

    def __call__(self, image: ImageLike, *, seed: int = 0) -> torch.Tensor | CanonicalImage:
        """Return the transformed image: of the same size for a float tensor (3, height, width), else canonical.

        Other tensors (uint8, grey, with alpha) also give a canonical image, which the overloads cannot express.
        """
        if isinstance(image, torch.Tensor) and image.ndim == 3 and image.shape[0] == 3 and image.is_floating_point():
            return self._apply(image, seed)
        canonical = as_image(image)
        return CanonicalImage(self._apply(canonical.pixels, seed), f"{canonical.name} {self.name}")

    def _apply(self, pixels: torch.Tensor, seed: int) -> torch.Tensor:
        return FAMILIES[self.family].apply(pixels, self.level, seed).clamp(0, 1)


PAPER_TRANSFORMS = tuple(Transform(family, level) for family, levels in paper.LEVELS.items() for level in levels)
LOWEST_INTENSITY = tuple(transform for transform in PAPER_TRANSFORMS if transform.name in paper.MILDEST)
EXTRA_TRANSFORMS = tuple(Transform(family, level) for family, levels in extras.LEVELS.items() for level in levels)
ALL_TRANSFORMS = (*PAPER_TRANSFORMS, *EXTRA_TRANSFORMS)


def parse(name: str) -> Transform:
    """Return the listed transform of this name; the level may be written with more digits, as in "crop-0.90"."""
    family, _, level = name.strip().lower().partition("-")
    for transform in ALL_TRANSFORMS:
        if transform.family == family and _number(level) == transform.level:
            return transform
    known = ", ".join(transform.name for transform in ALL_TRANSFORMS)
    raise InputError(f"unknown transform {name!r}; use one of {known}")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
