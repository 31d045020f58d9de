"""Benign image transformations, the ones a robust hash has to survive."""

from __future__ import annotations

from dualshield.transforms.paper import LOWEST_INTENSITY, PAPER_TRANSFORMS, Transform, parse

__all__ = ["LOWEST_INTENSITY", "PAPER_TRANSFORMS", "Transform", "parse"]
