"""A transformation of canonical images (3, 512, 512) in [0,1]: a family at a level, clipped to [0,1]."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from dualshield.errors import InputError
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

    def __call__(self, pixels: torch.Tensor, *, seed: int = 0) -> torch.Tensor:
        if pixels.ndim != 3 or pixels.shape[0] != 3 or not pixels.is_floating_point():
            found = f"{pixels.dtype} {tuple(pixels.shape)}"
            raise InputError(f"{self.name} got {found}; give one float image (3, height, width)")
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
