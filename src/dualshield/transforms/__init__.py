"""Benign image transformations that a robust hash must survive."""

from __future__ import annotations

from dualshield.transforms.transform import (
    ALL_TRANSFORMS,
    EVERYDAY_EDITS,
    EXTRA_TRANSFORMS,
    LOWEST_INTENSITY,
    PAPER_TRANSFORMS,
    Chain,
    Transform,
    parse,
)

__all__ = [
    "ALL_TRANSFORMS",
    "EVERYDAY_EDITS",
    "EXTRA_TRANSFORMS",
    "LOWEST_INTENSITY",
    "PAPER_TRANSFORMS",
    "Chain",
    "Transform",
    "parse",
]
