"""The variants of a deployment that are attacked and measured: with or without hardening and smoothing."""

from __future__ import annotations

from typing import Literal

Variant = Literal["original", "smoothing", "hardening", "both"]
"""``original`` is the plain hash; ``both`` is smoothed matching of hardened references."""

VARIANTS: tuple[Variant, ...] = ("original", "smoothing", "both")
SMOOTHED: tuple[Variant, ...] = ("smoothing", "both")
HARDENED: tuple[Variant, ...] = ("both", "hardening")
UNHARDENED: dict[Variant, Variant] = {"both": "smoothing", "hardening": "original"}
