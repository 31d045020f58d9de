"""The figures of the paper's tables, cell by cell, for its eight hashes under our names. Rates are in per cent.

A cell is None where the paper has a dash. All figures are copied from the paper, without rounding or averaging.
"""

from __future__ import annotations

Cell = float | None

VARIANTS = ("original", "smoothing", "both")
BUDGETS = (40.0, 90.0, 180.0)
CNER_RADII = (0.1, 0.2)
FAMILIES = ("brightness", "contrast", "crop", "blur", "noise", "jpeg", "rotation")
DATASETS = ("imagenet", "coco", "stable_diffusion")
QUALITIES = ("ssim", "lpips", "fid")
SUMMARY = ("whitebox", "blackbox", "transforms", "collisions", "certified")

# Overall summary: per column of SUMMARY, original and ours.
_OVERALL: dict[str, tuple[tuple[Cell, Cell], ...]] = {
    "neuralhash": ((100.0, 20.6), (35.2, 4.4), (0.0, 7.7), (0.0, 0.0), (None, 0.2987)),
    "dinohash": ((100.0, 14.0), (15.6, 0.0), (0.5, 2.8), (0.0, 0.0), (None, 0.2993)),
    "hybridhash": ((100.0, 1.0), (22.0, 0.0), (0.0, 0.5), (0.1, 0.3), (None, 0.2993)),
    "sscd": ((100.0, 3.3), (73.1, 5.9), (0.5, 23.6), (0.0, 0.0), (None, 0.2993)),
    "simdino": ((100.0, 43.7), (16.6, 0.0), (0.1, 8.9), (0.0, 0.0), (None, 0.2993)),
    "vit2hash": ((100.0, 12.0), (2.3, 0.0), (0.1, 3.9), (0.1, 0.0), (None, 0.2993)),
    "c-pdna": ((94.2, 0.0), (0.0, 0.0), (0.8, 0.3), (5.9, 5.7), (0.2968, 0.2993)),
    "c-pdq": ((94.7, 0.0), (0.0, 0.0), (0.0, 0.0), (100.0, 100.0), (0.1282, 0.2993)),
}
# Certified robustness: mean radius, CNER at 0.1, CNER at 0.2; each original, smoothing, ours.
_CERTIFIED: dict[str, tuple[tuple[Cell, ...], ...]] = {
    "neuralhash": ((None, 0.1685, 0.2987), (None, 63.7, 100.0), (None, 51.3, 100.0)),
    "dinohash": ((None, 0.2688, 0.2993), (None, 93.3, 100.0), (None, 88.7, 100.0)),
    "hybridhash": ((None, 0.2773, 0.2993), (None, 97.7, 100.0), (None, 92.7, 100.0)),
    "sscd": ((None, 0.2151, 0.2993), (None, 75.3, 100.0), (None, 69.0, 100.0)),
    "simdino": ((None, 0.2182, 0.2993), (None, 78.3, 100.0), (None, 69.0, 100.0)),
    "vit2hash": ((None, 0.2655, 0.2993), (None, 92.7, 100.0), (None, 86.3, 100.0)),
    "c-pdna": ((0.2968, 0.2993, 0.2993), (99.7, 100.0, 100.0), (98.3, 100.0, 100.0)),
    "c-pdq": ((0.1282, 0.2993, 0.2993), (90.7, 100.0, 100.0), (0.0, 100.0, 100.0)),
}
# Attack success at 40, 90 and 180; each original, smoothing, ours.
_ATTACKS: dict[str, dict[str, tuple[tuple[Cell, ...], ...]]] = {
    "whitebox": {
        "neuralhash": ((100.0, 43.7, 0.0), (100.0, 76.0, 1.7), (100.0, 94.3, 60.0)),
        "dinohash": ((100.0, 23.3, 0.0), (100.0, 54.7, 2.7), (100.0, 81.3, 39.3)),
        "hybridhash": ((100.0, 3.3, 0.0), (100.0, 21.7, 0.0), (100.0, 40.7, 3.0)),
        "sscd": ((100.0, 56.0, 0.0), (100.0, 85.0, 0.0), (100.0, 98.7, 10.0)),
        "simdino": ((100.0, 64.7, 0.7), (100.0, 86.7, 32.0), (100.0, 99.3, 98.3)),
        "vit2hash": ((100.0, 13.0, 0.0), (100.0, 37.0, 0.3), (100.0, 72.0, 35.7)),
        "c-pdna": ((82.7, 0.0, 0.0), (100.0, 0.0, 0.0), (100.0, 0.0, 0.0)),
        "c-pdq": ((84.7, 0.0, 0.0), (99.3, 0.0, 0.0), (100.0, 0.0, 0.0)),
    },
    "blackbox": {
        "neuralhash": ((16.3, 13.7, 0.0), (28.0, 25.0, 0.0), (61.3, 57.0, 13.3)),
        "dinohash": ((3.7, 3.0, 0.0), (8.7, 6.7, 0.0), (34.3, 31.0, 0.0)),
        "hybridhash": ((16.7, 1.0, 0.0), (18.7, 6.0, 0.0), (30.7, 19.7, 0.0)),
        "sscd": ((49.3, 43.7, 0.0), (71.7, 71.0, 0.0), (98.3, 98.3, 17.7)),
        "simdino": ((3.0, 2.7, 0.0), (9.3, 9.3, 0.0), (37.3, 37.0, 0.0)),
        "vit2hash": ((0.0, 0.0, 0.0), (1.0, 0.3, 0.0), (6.0, 5.7, 0.0)),
        "c-pdna": ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
        "c-pdq": ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
    },
}
# Transformation evasion at the lowest intensity, in the order of FAMILIES; each original, smoothing, ours.
_TRANSFORMS: dict[str, tuple[tuple[Cell, ...], ...]] = {
    "neuralhash": (
        (0.0, 15.5, 4.2),
        (0.0, 18.2, 4.2),
        (0.0, 24.5, 26.7),
        (0.0, 8.2, 5.0),
        (0.0, 0.0, 0.0),
        (0.0, 0.9, 0.0),
        (0.0, 21.8, 14.2),
    ),
    "dinohash": (
        (0.0, 2.0, 0.0),
        (0.0, 2.0, 0.0),
        (1.3, 9.5, 6.4),
        (0.0, 0.7, 0.9),
        (0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0),
        (2.0, 12.2, 11.9),
    ),
    "hybridhash": (
        (0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0),
        (0.0, 3.4, 2.0),
        (0.0, 0.7, 0.0),
        (0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0),
        (0.0, 1.3, 1.4),
    ),
    "sscd": (
        (0.0, 13.3, 0.0),
        (0.0, 10.8, 0.0),
        (2.0, 35.0, 79.3),
        (0.0, 0.8, 17.2),
        (0.0, 1.7, 0.0),
        (0.0, 0.8, 0.0),
        (1.3, 31.7, 69.0),
    ),
    "simdino": (
        (0.0, 6.1, 4.2),
        (0.0, 6.8, 6.2),
        (0.7, 8.3, 22.9),
        (0.0, 3.0, 10.4),
        (0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0),
        (0.0, 6.1, 18.8),
    ),
    "vit2hash": (
        (0.0, 4.1, 2.6),
        (0.0, 2.1, 3.5),
        (0.7, 4.8, 12.2),
        (0.0, 0.7, 5.2),
        (0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0),
        (0.0, 3.4, 3.5),
    ),
    "c-pdna": (
        (0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0),
        (0.7, 0.7, 1.3),
        (0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0),
        (4.7, 0.0, 0.7),
    ),
    "c-pdq": (
        (0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0),
    ),
}
_COLLISIONS: dict[str, tuple[Cell, ...]] = {
    "neuralhash": (0.00, 0.00, 0.00),
    "dinohash": (0.00, 0.00, 0.00),
    "hybridhash": (0.05, 0.05, 0.30),
    "sscd": (0.00, 0.00, 0.00),
    "simdino": (0.00, 0.00, 0.00),
    "vit2hash": (0.15, 0.10, 0.00),
    "c-pdna": (5.90, 6.05, 5.65),
    "c-pdq": (100.00, 100.00, 100.00),
}
# Hardened against original images, in the order of DATASETS; each SSIM, LPIPS, FID.
_HARDENING: dict[str, tuple[tuple[Cell, ...], ...]] = {
    "neuralhash": ((0.742, 0.262, 26.8), (0.713, 0.270, 75.7), (0.756, 0.176, 47.6)),
    "dinohash": ((0.699, 0.301, 29.6), (0.678, 0.307, 85.7), (0.724, 0.206, 57.7)),
    "hybridhash": ((0.734, 0.258, 24.9), (0.703, 0.267, 70.3), (0.749, 0.175, 46.1)),
    "sscd": ((0.685, 0.321, 56.2), (0.651, 0.340, 156.9), (0.698, 0.234, 82.5)),
    "simdino": ((0.639, 0.274, 23.2), (0.608, 0.285, 68.7), (0.660, 0.182, 43.7)),
    "vit2hash": ((0.628, 0.280, 11.8), (0.605, 0.295, 38.5), (0.655, 0.213, 26.1)),
    "c-pdna": ((0.923, 0.090, 5.7), (0.911, 0.095, 21.2), (0.933, 0.053, 12.7)),
    "c-pdq": ((0.989, 0.037, 1.7), (0.980, 0.036, 8.3), (0.991, 0.014, 3.9)),
}
# The same, averaged over the datasets, for the four hashes of the main text.
_HARDENING_MEAN: dict[str, tuple[Cell, ...]] = {
    "dinohash": (0.700, 0.271, 57.7),
    "hybridhash": (0.729, 0.233, 47.1),
    "c-pdna": (0.922, 0.079, 13.2),
    "c-pdq": (0.987, 0.029, 4.6),
}
# White-box attacked images against their starting images, at 40, 90 and 180; each SSIM, LPIPS, FID.
_DISTORTION: dict[tuple[str, str], tuple[tuple[Cell, ...], ...]] = {
    ("neuralhash", "original"): ((0.625, 0.209, 22.3), (0.330, 0.545, 56.6), (0.171, 0.919, 103.3)),
    ("neuralhash", "both"): ((0.737, 0.075, 8.3), (0.397, 0.324, 30.2), (0.196, 0.701, 70.5)),
    ("dinohash", "original"): ((0.625, 0.209, 22.9), (0.330, 0.545, 57.5), (0.171, 0.919, 104.1)),
    ("dinohash", "both"): ((0.751, 0.077, 10.5), (0.413, 0.314, 29.7), (0.205, 0.691, 71.7)),
    ("hybridhash", "original"): ((0.625, 0.209, 22.0), (0.330, 0.545, 56.7), (0.171, 0.919, 103.3)),
    ("hybridhash", "both"): ((0.742, 0.069, 8.1), (0.401, 0.309, 29.0), (0.198, 0.686, 72.2)),
    ("sscd", "original"): ((0.625, 0.209, 23.1), (0.330, 0.545, 57.0), (0.171, 0.919, 103.3)),
    ("sscd", "both"): ((0.755, 0.084, 15.0), (0.417, 0.374, 44.6), (0.206, 0.783, 82.7)),
    ("simdino", "original"): ((0.624, 0.209, 22.8), (0.330, 0.545, 57.0), (0.171, 0.919, 103.3)),
    ("simdino", "both"): ((0.779, 0.065, 8.5), (0.433, 0.293, 29.2), (0.214, 0.663, 71.8)),
    ("vit2hash", "original"): ((0.624, 0.209, 21.2), (0.330, 0.545, 56.3), (0.171, 0.919, 103.3)),
    ("vit2hash", "both"): ((0.788, 0.057, 7.9), (0.445, 0.281, 33.9), (0.218, 0.650, 82.3)),
    ("c-pdna", "original"): ((0.616, 0.224, 25.6), (0.329, 0.549, 57.9), (0.171, 0.920, 103.7)),
    ("c-pdna", "both"): ((0.636, 0.142, 13.5), (0.337, 0.460, 43.1), (0.173, 0.846, 91.5)),
    ("c-pdq", "original"): ((0.624, 0.211, 22.0), (0.330, 0.546, 56.8), (0.171, 0.919, 103.4)),
    ("c-pdq", "both"): ((0.626, 0.195, 18.4), (0.329, 0.531, 52.4), (0.170, 0.907, 98.3)),
}
# The ablation, averaged over the eight hashes: white-box, black-box, mean radius.
_ABLATION: dict[str, tuple[Cell, ...]] = {
    "original": (98.6, 20.6, None),
    "smoothing": (43.8, 18.0, 0.252),
    "both": (11.8, 1.3, 0.299),
}
HASHES = tuple(_OVERALL)


def overall(hash_name: str, column: str, variant: str) -> Cell:
    """Return a cell of the overall summary (original and ours only)."""
    return _at(_OVERALL.get(hash_name), SUMMARY, column, ("original", "both"), variant)


def certified_radius(hash_name: str, variant: str) -> Cell:
    """Return the mean certified radius."""
    rows = _CERTIFIED.get(hash_name)
    return _at(rows and rows[:1], ("radius",), "radius", VARIANTS, variant)


def cner(hash_name: str, radius: float, variant: str) -> Cell:
    """Return the certified non-evasion rate at a radius of CNER_RADII."""
    rows = _CERTIFIED.get(hash_name)
    return _at(rows and rows[1:], CNER_RADII, radius, VARIANTS, variant)


def attack(part: str, hash_name: str, budget: float, variant: str) -> Cell:
    """Return the success rate of white-box or black-box attacks at one budget."""
    return _at(_ATTACKS.get(part, {}).get(hash_name), BUDGETS, budget, VARIANTS, variant)


def transformation(hash_name: str, family: str, variant: str) -> Cell:
    """Return the evasion rate of one family of transformations at the lowest intensity."""
    return _at(_TRANSFORMS.get(hash_name), FAMILIES, family, VARIANTS, variant)


def collisions(hash_name: str, variant: str) -> Cell:
    """Return the collision rate of unrelated pairs."""
    return _at((_COLLISIONS.get(hash_name, ()),), ("rate",), "rate", VARIANTS, variant)


def hardening(hash_name: str, dataset: str, quality: str) -> Cell:
    """Return the quality of hardened images of one dataset; ``all`` is the main text's average, for four hashes."""
    if dataset == "all":
        return _at((_HARDENING_MEAN.get(hash_name, ()),), ("all",), "all", QUALITIES, quality)
    return _at(_HARDENING.get(hash_name), DATASETS, dataset, QUALITIES, quality)


def distortion(hash_name: str, variant: str, budget: float, quality: str) -> Cell:
    """Return the quality of white-box attacked images at one budget (original and ours only)."""
    return _at(_DISTORTION.get((hash_name, variant)), BUDGETS, budget, QUALITIES, quality)


def ablation(column: str, variant: str) -> Cell:
    """Return a cell of the ablation: whitebox, blackbox or certified, averaged over the paper's eight hashes."""
    return _at((_ABLATION.get(variant, ()),), (variant,), variant, ("whitebox", "blackbox", "certified"), column)


def _at(
    cells: tuple[tuple[Cell, ...], ...] | None,
    rows: tuple[str | float, ...],
    row: str | float,
    columns: tuple[str, ...],
    column: str,
) -> Cell:
    if not cells or row not in rows or column not in columns:
        return None
    found = cells[rows.index(row)]
    return found[columns.index(column)] if found else None
