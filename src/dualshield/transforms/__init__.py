"""Benign image transformations, the ones a robust hash has to survive."""

from __future__ import annotations

from dualshield.transforms.transform import EXTRA_TRANSFORMS, LOWEST_INTENSITY, PAPER_TRANSFORMS, Transform, parse

__all__ = ["EXTRA_TRANSFORMS", "LOWEST_INTENSITY", "PAPER_TRANSFORMS", "Transform", "parse"]
