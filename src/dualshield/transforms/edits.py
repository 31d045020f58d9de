"""Everyday edits beyond the paper's list, and levels of the paper's families beyond the paper's levels."""

from __future__ import annotations

from dualshield.transforms import colours, detail, frames, geometry, overlays

FAMILIES = {
    **frames.FAMILIES,
    **overlays.FAMILIES,
    **colours.FAMILIES,
    **geometry.FAMILIES,
    **detail.FAMILIES,
}

LEVELS: dict[str, tuple[float, ...]] = {
    "border": (0.02, 0.05, 0.08, 0.10),
    "padding": (0.1, 0.2, 0.25),
    "pillars": (0.2,),
    "caption-bar": (0.08, 0.15),
    "screenshot": (0.02, 0.05),
    "caption": (0.1, 0.2),
    "logo": (0.05, 0.15),
    "gamma": (0.6, 0.8, 1.25, 1.6),
    "contrast": (0.6, 1.4),
    "hue": (30, 90),
    "saturation": (0.5, 1.5, 2),
    "grey": (1,),
    "flip": (1,),
    "turn": (90, 180, 270),
    "rotation": (-10, -5, 3, 5, 10),
    "perspective": (0.05, 0.1),
    "crop": (0.9, 0.8, 0.7),
    "corner-crop": (0.93, 0.85, 0.8),
    "corner-crop-low": (0.85, 0.8),
    "resize": (0.25,),
    "sharpen": (1, 2),
    "grain": (0.05, 0.1),
    "jpeg": (30,),
}

# Two at once, in the order in which they are applied.
CHAINS: tuple[tuple[tuple[str, float], ...], ...] = (
    (("flip", 1), ("border", 0.05)),
    (("crop", 0.9), ("rotation", 3)),
    (("screenshot", 0.02), ("jpeg", 60)),
    (("caption-bar", 0.08), ("gamma", 0.8)),
)

# Measured in runs before there was a list of edits, which must stay readable.
OLDER: dict[str, tuple[float, ...]] = {"resize": (0.5,)}
