"""The variants of a deployment that are attacked and measured: with or without views, hardening and smoothing."""

from __future__ import annotations

from typing import Literal

Variant = Literal["original", "smoothing", "hardening", "both", "views"]
"""``original`` is the plain hash, ``both`` is smoothed matching of hardened references.

``views`` is the plain hash with the views of the deployment; it is measured on transformations only."""

VIEWS: Variant = "views"
VARIANTS: tuple[Variant, ...] = ("original", "smoothing", "both")
SMOOTHED: tuple[Variant, ...] = ("smoothing", "both")
HARDENED: tuple[Variant, ...] = ("both", "hardening")
UNHARDENED: dict[Variant, Variant] = {"both": "smoothing", "hardening": "original"}
# In the order of reports.
EXPLAINED: dict[Variant, str] = {
    "original": "plain hash",
    "views": "plain hash with views",
    "smoothing": "smoothed matching",
    "hardening": "plain hash, hardened image",
    "both": "both shields: smoothed matching, hardened image",
}
