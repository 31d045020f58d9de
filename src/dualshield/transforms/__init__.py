"""Benign image transformations that a robust hash must survive."""

from __future__ import annotations

from dualshield.transforms.transform import (
    ALL_TRANSFORMS,
    EXTRA_TRANSFORMS,
    LOWEST_INTENSITY,
    PAPER_TRANSFORMS,
    Transform,
    parse,
)

__all__ = ["ALL_TRANSFORMS", "EXTRA_TRANSFORMS", "LOWEST_INTENSITY", "PAPER_TRANSFORMS", "Transform", "parse"]
