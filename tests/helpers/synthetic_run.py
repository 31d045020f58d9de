"""A run folder of invented numbers, in the form that ``dualshield evaluate`` leaves behind. Nothing was measured."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from dualshield.evaluation.plan.plan import PARTS
from dualshield.evaluation.run.records import CONFIG, RESULTS
from dualshield.transforms import EXTRA_TRANSFORMS, LOWEST_INTENSITY, PAPER_TRANSFORMS

DATASETS = ("coco", "imagenet", "stable_diffusion")
VARIANTS = ("original", "smoothing", "both")
BUDGETS = (40, 90, 180)
COST_BUDGETS = (1, 2, 5, 10, 20, 40, 90, 180)
STRENGTH = {"original": 1.0, "views": 1.0, "smoothing": 3.0, "hardening": 2.0, "both": 7.0}

Line = tuple[list[str], dict[str, Any]]


def write(
    folder: Path,
    *,
    hashes: Sequence[str] = ("neuralhash",),
    variants: Sequence[str] = VARIANTS,
    parts: Sequence[str] = PARTS,
    datasets: Sequence[str] = DATASETS,
    images: int = 4,
    gallery: int = 0,
    side: int = 64,
    metrics: bool = True,
    config: dict[str, Any] | None = None,
) -> Path:
    """Write the run and return its folder; ``gallery`` images of each dataset get pictures of ``side`` pixels."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"synthetic-{index:03}.jpg" for index in range(images)]
    lines: list[Line] = []
    for name in hashes:
        for variant in variants:
            dice = random.Random(f"{name} {variant}")
            for dataset in datasets:
                for image in names:
                    for part in parts:
                        lines += _records(dice, part, name, variant, dataset, image, metrics)
            if "quality" in parts and variant != "views":
                lines += _distances(dice, name, variant, datasets, images, metrics)
    text = "".join(json.dumps({"key": key, "result": result}) + "\n" for key, result in lines)
    (folder / RESULTS).write_text(text, encoding="utf-8")
    settings = {
        "format": 1,
        "note": "synthetic: invented numbers",
        "protocol": "default",
        "hashes": list(hashes),
        "variants": list(variants),
        "parts": list(parts),
        "seed": 2026,
        "date": "2026-11-16",
        "expected": _expected(lines),
    }
    (folder / CONFIG).write_text(json.dumps({**settings, **(config or {})}), encoding="utf-8")
    for dataset in datasets if gallery else ():
        for index, image in enumerate(names[:gallery]):
            _pictures(folder, hashes, variants, dataset, image, side, index)
    return folder


def _expected(lines: Sequence[Line]) -> dict[str, dict[str, dict[str, int]]]:
    """Records by part, hash and variant, as a run counts them before it begins."""
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for (part, name, variant, *_), _ in lines:
        of = counts.setdefault(part, {}).setdefault(name, {})
        of[variant] = of.get(variant, 0) + 1
    return counts


def _records(
    dice: random.Random, part: str, name: str, variant: str, dataset: str, image: str, metrics: bool
) -> Iterator[Line]:
    def line(detail: object, result: dict[str, Any]) -> Line:
        return [part, name, variant, dataset, image, str(detail)], result

    if variant == "views" and part != "transforms":
        return
    strength = STRENGTH[variant]
    smoothed = variant in ("smoothing", "both")
    if part == "certified" and smoothed:
        for detail in ("identity", dice.choice(LOWEST_INTENSITY).name):
            radius = max(0.0, dice.gauss(0.09 * strength, 0.12))
            yield line(
                detail,
                {
                    "decision": "match" if radius else "abstain",
                    "radius": radius,
                    "p_lower": 0.9,
                    "sigma": 0.8,
                    "n": 5000,
                    "matching_votes": 4900,
                    "seconds": 0.1,
                    "method": "smoothing",
                },
            )
    elif part in ("whitebox", "blackbox"):
        if dice.random() < 0.03:
            yield from (line(budget, {"unmatched": True}) for budget in BUDGETS)
            return
        cost = dice.lognormvariate(math.log((15 if part == "whitebox" else 60) * strength), 0.8)
        yield from (line(b, _attack(dice, b, cost <= b, metrics)) for b in BUDGETS)
    elif part == "adaptive":
        cost = dice.lognormvariate(math.log(2.5 * strength), 0.7)
        yield from (line(b, _attack(dice, b, cost <= b, metrics) | {"inferred": b < 5}) for b in COST_BUDGETS)
    elif part == "transforms":
        for transform in (*PAPER_TRANSFORMS, *EXTRA_TRANSFORMS):
            hard = {"crop": 0.35, "rotation": 0.4, "flip": 0.97, "border": 0.3, "blur": 0.08}.get(
                transform.family, 0.02
            )
            evaded = dice.random() < hard * (1.5 if smoothed else 0.5)
            published = transform in PAPER_TRANSFORMS
            decision = "no_match" if evaded else "match"
            yield line(transform.name, {"decision": decision, "evaded": evaded, "paper": published})
    elif part == "collisions":
        for other in range(12):
            collided = dice.random() < 0.004
            yield line(
                f"{dataset}/other-{other}", {"decision": "match" if collided else "no_match", "collided": collided}
            )
    elif part == "quality" and variant in ("both", "hardening"):
        yield line(
            "",
            {
                "ssim": dice.gauss(0.93, 0.02),
                "lpips": dice.gauss(0.08, 0.02) if metrics else None,
                "psnr": dice.gauss(34, 2),
                "l2": dice.gauss(16, 2),
                "linf": dice.gauss(0.12, 0.01),
                "seconds": 5.0,
            },
        )


def _attack(dice: random.Random, budget: float, success: bool, metrics: bool) -> dict[str, Any]:
    return {
        "success": success,
        "success_float": success,
        "decision": "no_match" if success else "match",
        "budget": budget,
        "l2": 0.99 * budget,
        "linf": 0.1,
        "ssim": min(1.0, max(0.0, dice.gauss(1 - 0.14 * math.log1p(budget / 8), 0.02))),
        "lpips": dice.gauss(0.02 + budget / 220, 0.01) if metrics else None,
        "queries": 500,
        "steps": 300,
        "seconds": 1.0,
        "warnings": [],
    }


def _distances(
    dice: random.Random, name: str, variant: str, datasets: Sequence[str], images: int, metrics: bool
) -> Iterator[Line]:
    details = [*(["hardened"] if variant in ("both", "hardening") else []), *map(str, BUDGETS)]
    for dataset in (*datasets, "all"):
        for detail in details:
            value = dice.gauss(20 if detail == "hardened" else float(detail) / 2, 2) if metrics else None
            yield ["fid", name, variant, dataset, "", detail], {"fid": value, "images": images}


def _pictures(
    folder: Path, hashes: Sequence[str], variants: Sequence[str], dataset: str, image: str, side: int, index: int
) -> None:
    noise = np.random.default_rng(index)
    rows, columns = np.mgrid[0:side, 0:side] / side
    phase = 2.0 * index + len(dataset)
    original = np.stack(
        [0.5 + 0.4 * np.sin(7 * columns + phase + tint) * np.cos(5 * rows - phase * tint) for tint in (0.0, 0.7, 1.4)],
        -1,
    )

    def save(pixels: Any, *path: str) -> None:
        file = folder.joinpath("images", *path[:-1], f"{path[-1]}.png")
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((np.clip(pixels, 0, 1) * 255).round().astype(np.uint8)).save(file)

    save(original, "original", dataset, image)
    for name in hashes:
        for variant in variants:
            ripple = 0.02 * np.sin(40 * (rows + columns))[..., None] if variant == "both" else 0.0
            save(original + ripple, "published", name, variant, dataset, image)
            for part in ("whitebox", "adaptive"):
                for budget in BUDGETS:
                    attacked = original + ripple + noise.normal(0, budget / 700, original.shape)
                    save(attacked, "attacked", part, name, variant, dataset, image, str(budget))
