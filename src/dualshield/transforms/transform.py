"""A transformation of images in [0,1], canonical ones as a rule: a family at a level, clipped to [0,1]."""

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
        """A float tensor (3, height, width) gives one of the same size; anything else is made canonical first.

        Tensors of other kinds (uint8, grey, with alpha) are among the latter, which types cannot tell.
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


def parse(name: str) -> Transform:
    """The transform of that name at a level of its list; the level may be written out, as in "crop-0.90"."""
    family, _, level = name.strip().lower().partition("-")
    for transform in (*PAPER_TRANSFORMS, *EXTRA_TRANSFORMS):
        if transform.family == family and _number(level) == transform.level:
            return transform
    known = ", ".join(transform.name for transform in (*PAPER_TRANSFORMS, *EXTRA_TRANSFORMS))
    raise InputError(f"unknown transform {name!r}; known are {known}")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
