"""A transformation of images in [0,1]: one family at one level, or several in a chain, clipped to [0,1]."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from dualshield.errors import InputError
from dualshield.transforms import edits, paper
from dualshield.transforms.applied import Applied

FAMILIES = {**paper.FAMILIES, **edits.FAMILIES}


@dataclass(frozen=True)
class Transform(Applied):
    """One family at one level; only noise and grain depend on the seed."""

    family: str
    level: float

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise InputError(f"unknown transform family {self.family!r}; use one of {', '.join(FAMILIES)}")
        family = FAMILIES[self.family]
        fits = family.lowest <= self.level <= family.highest
        if not fits or (family.step and (self.level - family.lowest) % family.step):
            kinds = {0: "a number", 1: "a whole number", 2: "an odd number"}
            kind = kinds.get(family.step, f"a multiple of {family.step}")
            allowed = f"{kind} in [{family.lowest:g}, {family.highest:g}]"
            raise InputError(f"{self.family} level {self.level} is out of range; give {allowed}")

    @property
    def name(self) -> str:
        return f"{self.family}-{self.level:.12g}"

    def _apply(self, pixels: torch.Tensor, seed: int) -> torch.Tensor:
        return FAMILIES[self.family].apply(pixels, self.level, seed).clamp(0, 1)


@dataclass(frozen=True)
class Chain(Applied):
    """Several transformations, one after the other; all get the same seed."""

    parts: tuple[Transform, ...]

    def __post_init__(self) -> None:
        if len(self.parts) < 2:
            raise InputError(f"a chain of {len(self.parts)} transforms is none; give two or more")

    @property
    def family(self) -> str:
        return "+".join(part.family for part in self.parts)

    @property
    def name(self) -> str:
        return "+".join(part.name for part in self.parts)

    def _apply(self, pixels: torch.Tensor, seed: int) -> torch.Tensor:
        for part in self.parts:
            pixels = part(pixels, seed=seed)
        return pixels


def _listed(levels: dict[str, tuple[float, ...]]) -> tuple[Transform, ...]:
    return tuple(Transform(family, level) for family, of_family in levels.items() for level in of_family)


_CHAINS = tuple(Chain(tuple(Transform(family, level) for family, level in parts)) for parts in edits.CHAINS)

PAPER_TRANSFORMS = _listed(paper.LEVELS)
LOWEST_INTENSITY = tuple(transform for transform in PAPER_TRANSFORMS if transform.name in paper.MILDEST)
EVERYDAY_EDITS: tuple[Transform | Chain, ...] = (*_listed(edits.LEVELS), *_CHAINS)
ALL_TRANSFORMS: tuple[Transform | Chain, ...] = tuple(
    dict.fromkeys((*PAPER_TRANSFORMS, *EVERYDAY_EDITS, *_listed(edits.OLDER)))
)
EXTRA_TRANSFORMS = tuple(transform for transform in ALL_TRANSFORMS if transform not in PAPER_TRANSFORMS)


def parse(name: str) -> Transform | Chain:
    """Return the listed transform of this name, or the chain of listed ones joined by "+".

    The level may be written with more digits, as in "crop-0.90".
    """
    parts = tuple(_find(part) for part in name.lower().split("+"))
    found = tuple(part for part in parts if part is not None)
    if len(found) < len(parts):
        known = ", ".join(transform.name for transform in ALL_TRANSFORMS)
        raise InputError(f"unknown transform {name!r}; use one of {known}")
    return found[0] if len(found) == 1 else Chain(found)


def _find(name: str) -> Transform | None:
    """Return the listed transform of this name; a family may have hyphens and a level a minus sign."""
    for transform in ALL_TRANSFORMS:
        before, family, level = name.strip().partition(f"{transform.family}-")
        if isinstance(transform, Transform) and family and not before and _number(level) == transform.level:
            return transform
    return None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
