"""Find and measure the views of an exact matcher (docs/results/exact.md).

python -m benchmarks.exact_views search --data PHOTOS [--hash pdq] [--limit 90] --out views.json
python -m benchmarks.exact_views calibrate --data PHOTOS [--hash pdq] --views views.json
python -m benchmarks.exact_views measure --data FOLDER [--data FOLDER2 ...] [--hash pdq] [--limit N] --views views.json

``search`` adds views one by one, always the one that lets the fewest edited photos evade, and writes two presets. Edits
have levels in between those of the lists, so that views are not fitted to a few levels. ``calibrate`` finds the
thresholds with these views on all photos and adds them to the file. ``measure`` prints how many edited images evade:
the plain hash, the plain hash with the same views, the exact matcher, and the exact matcher with views.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dualshield.calibration.exact_views import exact_thresholds
from dualshield.errors import TooLittleStructureError
from dualshield.hashes import get_hash
from dualshield.hashes.linear.linear_hash import LinearHash, luma_of
from dualshield.images import list_images, load_image
from dualshield.images.eight_bit import to_8bit
from dualshield.images.views import IDENTITY, View
from dualshield.smoothing.exact.config import ExactConfig
from dualshield.smoothing.exact.matcher import ExactMatcher
from dualshield.smoothing.exact.query_views import QueryViews
from dualshield.smoothing.exact.reference_views import ReferenceViews
from dualshield.smoothing.profile import find_profile
from dualshield.smoothing.statistics import Decision
from dualshield.smoothing.views import Views
from dualshield.transforms import EVERYDAY_EDITS, Chain, Transform

SEED = 2026
Edit = Transform | Chain
Matched = npt.NDArray[np.bool_]

# What the views are for, with levels in between those of the everyday edits: `standard` covers the first list,
# `thorough` both.
STANDARD: dict[str, tuple[float, ...]] = {
    "flip": (1,),
    "turn": (90, 180, 270),
    "rotation": (-10, -8.5, -7, -5, -3.5, -2, -1, 1.5, 3, 4.5, 5, 6, 7.5, 9, 10),
    "crop": (0.97, 0.94, 0.9, 0.87, 0.84, 0.8),
    "border": (0.015, 0.02, 0.035, 0.05, 0.065, 0.08, 0.1),
    "screenshot": (0.01, 0.02, 0.035, 0.05),
    "padding": (0.05, 0.1, 0.15, 0.2, 0.25),
    "caption-bar": (0.05, 0.08, 0.11, 0.15),
}
THOROUGH: dict[str, tuple[float, ...]] = {
    "pillars": (0.1, 0.2),
    "corner-crop": (0.96, 0.93, 0.89, 0.85, 0.8),
    "corner-crop-low": (0.96, 0.93, 0.89, 0.85, 0.8),
    "crop": (0.75, 0.7),
    "perspective": (0.05,),
}
CHAINS = (
    (("flip", 1), ("border", 0.05)),
    (("flip", 1), ("crop", 0.9)),
    (("crop", 0.9), ("rotation", 3)),
    (("crop", 0.9), ("rotation", -5)),
    (("screenshot", 0.02), ("jpeg", 60)),
    (("caption-bar", 0.08), ("gamma", 0.8)),
)
MOST_VIEWS = {"standard": (64, 8), "thorough": (120, 8)}  # of the reference, of the query
QUERY_COST = 4.0  # a view of the query must help as much as so many of the reference
LEAST_GAIN = 0.02  # of the sum of evasion rates
SPARE = 0.04  # of the bits: views must do with thresholds so much lower, to have something left for other photos
SEARCHED = 2 / 3  # of the photos; the others show how well the views do on photos that they were not chosen for


def pools() -> tuple[list[View], list[View]]:
    """Return the views of references and of queries to choose from."""
    steps = (0.0125, 0.025, 0.0375, 0.05, 0.0625, 0.075, 0.0875, 0.1)
    reference = [View(mirror=True), *(View(turn=turn, mirror=m) for turn in (1, 2, 3) for m in (False, True))]
    rotations = [float(degrees) for degrees in range(-11, 12) if degrees]
    reference += [View(rotation=rotation) for rotation in rotations]
    reference += [
        View.trimmed(edge, rotation=rotation) for edge in (0.025, 0.05) for rotation in rotations if abs(rotation) < 7
    ]
    reference += [View.trimmed(edge) for edge in (*steps, 0.1125, 0.125, 0.1375, 0.15)]
    for edge in steps:
        reference += [View(top=edge, bottom=edge), View(left=edge, right=edge), View(top=edge), View(bottom=edge)]
    for edge in (0.02, 0.04, 0.055, 0.07, 0.09, 0.11, 0.13, 0.15, 0.175, 0.2):
        reference += [View(bottom=edge, right=edge), View(top=edge, left=edge)]
    reference += [View.trimmed(edge, mirror=True) for edge in (0.025, 0.05)]
    query = [View.trimmed(edge) for edge in (0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.11)]
    query += [View(top=edge, bottom=edge) for edge in (0.03, 0.05, 0.075, 0.1, 0.125)]
    query += [View(top=edge) for edge in (0.04, 0.06, 0.08, 0.1, 0.12, 0.15)]
    query += [View(top, side, side, side) for side in (0.02, 0.035, 0.05) for top in (0.08, 0.095, 0.11)]
    query += [View(left=edge, right=edge) for edge in (0.05, 0.1)]
    return [IDENTITY, *reference], [IDENTITY, *query]


def edits_of(name: str) -> list[Edit]:
    """Return the edits that a preset is for."""
    levels = [STANDARD] if name == "standard" else [STANDARD, THOROUGH]
    found: list[Edit] = [
        Transform(family, level) for listed in levels for family, all_of in listed.items() for level in all_of
    ]
    if name != "standard":
        found += [Chain(tuple(Transform(*part) for part in chain)) for chain in CHAINS]
    return found


@dataclass(frozen=True)
class Setting:
    """A hash with its exact profile."""

    linear: LinearHash
    config: ExactConfig
    threshold: float  # of the plain hash

    @staticmethod
    def of(name: str) -> Setting:
        """Return the setting of a hash by name."""
        hash_, profile = get_hash(name), find_profile(name)
        if hash_.linear is None or profile is None or profile.exact is None:
            sys.exit(f"{name} has no exact matcher")
        return Setting(hash_.linear, profile.exact.config(), hash_.threshold)


def search(setting: Setting, folders: Sequence[Path], limit: int) -> dict[str, Views]:
    """Return the views found for both presets."""
    reference, query = pools()
    edits = edits_of("thorough")
    names = [edit.name for edit in edits]
    chosen: tuple[list[int], list[int]] = ([0], [0])
    found = {}
    distances = _distances(setting, folders, limit, reference, query, edits)  # (photos, edits, query, reference)
    searched = round(SEARCHED * len(distances))
    tight, others = distances[:searched] <= -SPARE, distances[searched:] <= 0
    for preset in ("standard", "thorough"):
        wanted = np.isin(names, [edit.name for edit in edits_of(preset)])
        _grow(tight[:, wanted], chosen, MOST_VIEWS[preset])
        views = Views(tuple(reference[i] for i in chosen[0]), tuple(query[j] for j in chosen[1]))
        found[preset] = views
        both = (part[:, :, chosen[1]][..., chosen[0]].any((2, 3)).mean(0) for part in (tight, others))
        print(f"{preset}: {views}; evasion of what was searched with, and of other photos", file=sys.stderr)
        for name, first, second in zip(names, *both, strict=True):
            print(f"  {name:<30} {1 - first:6.1%} {1 - second:6.1%}", file=sys.stderr)
    return found


def _grow(matched: Matched, chosen: tuple[list[int], list[int]], most: tuple[int, int]) -> None:
    """Add views as long as they help."""
    while True:
        of_reference, of_query = chosen
        now = np.asarray(matched[:, :, of_query][..., of_reference].any((2, 3)))
        # Evasion of each edit counts more the more there is of it.
        base = _loss(now)
        by_reference = np.asarray(matched[:, :, of_query].any(2))  # (photos, edits, reference)
        by_query = np.asarray(matched[..., of_reference].any(3))
        gains = [
            (base - _loss(now | by_reference[..., i]), 0, i)
            for i in range(by_reference.shape[-1])
            if i not in of_reference and len(of_reference) < most[0]
        ]
        gains += [
            ((base - _loss(now | by_query[..., j])) / QUERY_COST, 1, j)
            for j in range(by_query.shape[-1])
            if j not in of_query and len(of_query) < most[1]
        ]
        gain, side, place = max(gains, default=(0.0, 0, 0))
        if gain < LEAST_GAIN:
            return
        chosen[side].append(place)


def _loss(matched: Matched) -> float:
    evasion = 1 - matched.mean(0)
    return float((evasion + 2 * np.maximum(evasion - 0.05, 0)).sum())


def _distances(
    setting: Setting,
    folders: Sequence[Path],
    limit: int,
    reference: Sequence[View],
    query: Sequence[View],
    edits: Sequence[Edit],
) -> npt.NDArray[np.float32]:
    """Return how far each pair of views is beyond the threshold, as a fraction of the bits, for each photo and edit."""
    matcher = ExactMatcher(setting.linear, setting.config)
    queries = QueryViews(matcher.filtered, query)
    references = ReferenceViews(matcher.filtered, reference)
    found = []
    for number, pixels in enumerate(_images(folders, limit)):
        try:
            kept = matcher.enroll_pixels(pixels.numpy())
        except TooLittleStructureError:
            continue
        soft = matcher.soft(kept.sigma)
        codes = np.array([soft.code(row) for row in references.coefficients(luma_of(pixels.numpy()))], np.float64)
        rows = []
        for edit in edits:
            luma = luma_of(to_8bit(edit(pixels, seed=SEED)).numpy())
            probability = queries.probabilities(queries.coefficients(luma), kept.sigma)
            distances = probability.sum(1)[:, None] + (1 - 2 * probability) @ codes.T
            rows.append((distances / setting.linear.bits - kept.threshold).astype(np.float32))
        found.append(rows)
        print(f"\r{number + 1} photos", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return np.array(found)


def calibrate(setting: Setting, folders: Sequence[Path], limit: int | None, views: Views) -> dict[str, Any]:
    """Return the thresholds with views on, and how many unrelated pairs match."""
    started = time.perf_counter()
    config = setting.config
    found = exact_thresholds(
        setting.linear,
        config.lowpass,
        config.sigmas,
        views,
        (pixels.numpy() for pixels in _images(folders, limit)),
        threshold=setting.threshold,
        progress=lambda what, done, total: print(f"\r{what} {done}   ", end="", file=sys.stderr, flush=True),
    )
    print(f"\n{found}, {time.perf_counter() - started:.0f} s", file=sys.stderr)
    return {
        "sigmas": list(config.sigmas),
        "exact_thresholds": list(found.thresholds),
        "pairs": found.pairs,
        "plain_matches": found.plain_matches,
        "matches": list(found.matches),
        "nearest": list(found.nearest),
        "nearest_plain": found.nearest_plain,
        "limited_by": list(found.limited_by),
    }


def measure(setting: Setting, folders: Sequence[Path], limit: int | None, skip: int, presets: dict[str, Any]) -> None:
    """Print evasion by every edit: plain, exact, and both with each preset."""
    configs = {"none": setting.config}
    for name, preset in presets.items():
        thresholds = tuple(preset["exact_thresholds"])
        configs[name] = replace(setting.config, views=Views.from_json(preset["views"]), thresholds=thresholds)
    matchers = {name: ExactMatcher(setting.linear, config) for name, config in configs.items()}
    plain = {name: _Plain(setting, config.views) for name, config in configs.items()}
    edits: list[Edit] = [*EVERYDAY_EDITS, *(edit for edit in edits_of("standard") if edit not in EVERYDAY_EDITS)]
    evaded = {
        edit: dict.fromkeys([f"{how} {name}" for how in ("plain", "exact") for name in configs], 0) for edit in edits
    }
    radii: dict[str, list[float]] = {name: [] for name in configs}
    refused = dict.fromkeys(configs, 0)
    lowered = dict.fromkeys(configs, 0)
    images = 0
    for pixels in _images(folders, limit, skip):
        images += 1
        print(f"\r{images} images", end="", file=sys.stderr, flush=True)
        kept = {}
        for name, matcher in matchers.items():
            try:
                kept[name] = matcher.enroll_pixels(pixels.numpy())
                radii[name].append(matcher.certify_exactly(kept[name], pixels.numpy()).radius)
                lowered[name] += kept[name].threshold < configs[name].threshold_at(kept[name].sigma)
            except TooLittleStructureError:
                refused[name] += 1
                radii[name].append(0.0)
        own = {name: one.references(pixels) for name, one in plain.items()}
        for edit in edits:
            changed = to_8bit(edit(pixels, seed=SEED))
            for name, matcher in matchers.items():
                evaded[edit][f"plain {name}"] += not plain[name].matches(own[name], changed)
                is_match = name in kept and matcher.decide(kept[name], changed.numpy()) is Decision.MATCH
                evaded[edit][f"exact {name}"] += not is_match
    columns = list(next(iter(evaded.values())))
    print(f"\n{images} images; edit, then evasions in %: {', '.join(columns)}")
    for edit, counts in evaded.items():
        mark = "" if edit in EVERYDAY_EDITS else "  (in between)"
        print(f"  {edit.name:<26}" + "".join(f" {100 * counts[column] / images:6.1f}" for column in columns) + mark)
    for name in configs:
        print(
            f"{name}: mean radius {fmean(radii[name]):.2f}; refused {refused[name]}, "
            f"with a lowered threshold {lowered[name]}"
        )


class _Plain:
    """The plain hash with views: any code of the query near any code of the reference."""

    def __init__(self, setting: Setting, views: Views) -> None:
        self._most = setting.threshold * setting.linear.bits
        self._linear = setting.linear
        self._queries = QueryViews(setting.linear, views.query)
        self._references = ReferenceViews(setting.linear, views.reference)

    def _codes(self, coefficients: npt.NDArray[np.float64]) -> Matched:
        return np.array([row > self._linear.boundary(row) for row in coefficients])

    def references(self, pixels: torch.Tensor) -> Matched:
        return self._codes(self._references.coefficients(luma_of(pixels.numpy())))

    def matches(self, references: Matched, pixels: torch.Tensor) -> bool:
        queries = self._codes(self._queries.coefficients(luma_of(pixels.numpy())))
        return bool(((queries[:, None] != references).sum(2) <= self._most).any())


def _images(folders: Sequence[Path], limit: int | None, skip: int = 0) -> Iterator[torch.Tensor]:
    for folder in folders:
        for file in list_images(folder)[skip:][:limit]:
            yield to_8bit(load_image(file).pixels)


def main() -> None:
    """Run one of the steps."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=["search", "calibrate", "measure"])
    parser.add_argument("--hash", default="pdq")
    parser.add_argument("--data", type=Path, action="append", required=True)
    parser.add_argument("--limit", type=int, help="images of each folder")
    parser.add_argument("--skip", type=int, default=0, help="images of each folder to leave out before that")
    parser.add_argument("--views", type=Path, help="the presets to calibrate or measure")
    parser.add_argument("--out", type=Path, help="where to write presets; the file that was read by default")
    given = parser.parse_args()
    setting = Setting.of(given.hash)
    if given.what == "search":
        found = search(setting, given.data, given.limit or 90)
        presets = {name: {"views": views.to_json()} for name, views in found.items()}
    elif given.views is None:
        parser.error("--views is needed")
    else:
        presets = json.loads(given.views.read_text())
    if given.what == "calibrate":
        for preset in presets.values():
            preset |= calibrate(setting, given.data, given.limit, Views.from_json(preset["views"]))
    if given.what == "measure":
        measure(setting, given.data, given.limit, given.skip, presets)
    else:
        (given.out or given.views).write_text(json.dumps(presets, indent=1) + "\n")


if __name__ == "__main__":
    main()
