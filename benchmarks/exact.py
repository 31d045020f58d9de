"""Measure exact certificates (docs/results/exact.md).

python -m benchmarks.exact radii --hash pdq --data FOLDER [--data FOLDER2 ...] [--limit N] [--attacked K]
python -m benchmarks.exact pairs --hash pdq --data FOLDER [...]
python -m benchmarks.exact edits --hash pdq --data FOLDER [...] [--limit N]
python -m benchmarks.exact speed

``radii``: the proven radius of each image with itself, and for the first K of each folder the l2 of the cheapest
evasion found, as an 8-bit file. ``pairs``: how many unrelated pairs match, plain and exact, over all pairs of all
folders. ``edits``: how many transformed images no longer match, plain and exact. ``speed``: an exact certificate and a
decision as multiples of plain PDQ. Images are rounded to 8 bits first, as published.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean, median

import numpy as np
import torch

from dualshield.attacks import AttackBudget, Defence, get_attack
from dualshield.errors import TooLittleStructureError
from dualshield.hashes import get_hash
from dualshield.images import CanonicalImage, list_images, load_image
from dualshield.images.eight_bit import to_8bit
from dualshield.images.synthetic import natural_image
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.exact.reference import ExactReference
from dualshield.smoothing.exact_matcher import DeployedExactMatcher
from dualshield.smoothing.statistics import Decision
from dualshield.transforms import ALL_TRANSFORMS, LOWEST_INTENSITY

SEED = 2026
FAR = 200.0
REPEATS = 60


def radii(name: str, folders: Sequence[Path], limit: int | None, attacked: int) -> None:
    """Print radii, and how near the cheapest evasion comes to them."""
    deployment = deploy(name, method="exact")
    defence = Defence(deployment, "smoothing")
    found: list[float] = []
    ratios: list[float] = []
    costs: list[float] = []
    refused = 0
    for place, image in _images(folders, limit):
        try:
            reference = deployment.enroll(image)
        except TooLittleStructureError:
            refused += 1
            found.append(0.0)
            continue
        radius = deployment.match(reference, image).radius
        found.append(radius)
        if place < attacked:
            result = get_attack("optimal")(defence.victim(image), image, AttackBudget(FAR))
            costs.append(result.l2)
            ratios.append(radius / result.l2)
            if not result.success or radius >= result.l2:
                print(
                    f"{image.name}: radius {radius:.4f}, attack {result.l2:.4f}, success {result.success}", flush=True
                )
    print(
        f"{name}: {len(found)} images, {refused} refused; mean radius {fmean(found):.2f}, median {median(found):.2f}, "
    )
    low, high = np.quantile(found, [0.1, 0.9])
    print(f"  a tenth is below {low:.2f}, a tenth above {high:.2f}, the largest is {max(found):.2f}")
    if ratios:
        print(f"  cheapest evasion of {len(costs)}: mean {fmean(costs):.2f}, median {median(costs):.2f}")
        print(f"  radius / cheapest evasion: median {median(ratios):.3f}, smallest {min(ratios):.3f}, ", end="")
        print(f"largest {max(ratios):.4f} (above 1 would be a broken guarantee)")


def pairs(name: str, folders: Sequence[Path]) -> None:
    """Print how many ordered pairs of different images match."""
    deployment, matcher = _exact(name)
    hash_ = get_hash(name)
    plain, coefficients = [], []
    references: list[ExactReference | None] = []
    for _, image in _images(folders, None):
        pixels = image.pixels.numpy()
        plain.append(hash_.code(image.pixels).numpy())
        coefficients.append(matcher.coefficients(pixels))
        try:
            (kept,) = deployment.enroll(image).members
            assert isinstance(kept, ExactReference)
            references.append(kept)
        except TooLittleStructureError:
            references.append(None)
    codes = np.array(plain, dtype=np.float64)
    hamming = codes @ (1 - codes.T) + (1 - codes) @ codes.T
    matched = np.zeros_like(hamming, dtype=bool)
    by_sigma = {kept.sigma for kept in references if kept is not None}
    for sigma in sorted(by_sigma):
        probability = np.array([matcher.soft(sigma).probabilities(row) for row in coefficients])
        rows = [i for i, kept in enumerate(references) if kept is not None and kept.sigma == sigma]
        kept_codes = np.array([references[i].code for i in rows], dtype=np.float64)  # type: ignore[union-attr]
        limits = np.array([references[i].threshold for i in rows]) * hash_.bits  # type: ignore[union-attr]
        distances = probability.sum(1)[None] + kept_codes @ (1 - 2 * probability).T
        matched[rows] = distances <= limits[:, None]
    others = ~np.eye(len(codes), dtype=bool)
    plainly = int((hamming[others] <= hash_.max_distance).sum())
    print(
        f"{name}: {int(others.sum()):,} ordered pairs (reference, query): plain matches {plainly}, exact matches ",
        end="",
    )
    print(f"{int(matched[others].sum())}; nearest plain pair {int(hamming[others].min())} bits")
    forced = []
    for reference, query in zip(references, coefficients[1:], strict=False):
        if reference is not None:
            limit = reference.threshold * hash_.bits
            found = matcher.soft(reference.sigma).certify(query, reference.code, limit)
            forced += [] if found.matched else [found.radius]
    print(f"  each image against the next: {len(forced)} proven non-matches, mean radius {fmean(forced):.2f}, ", end="")
    print(f"smallest {min(forced):.2f}")


def edits(name: str, folders: Sequence[Path], limit: int | None) -> None:
    """Print how many transformed images evade, plain and exact."""
    deployment, matcher = _exact(name)
    hash_ = get_hash(name)
    evaded = {transform: [0, 0] for transform in ALL_TRANSFORMS}
    images = 0
    for _, image in _images(folders, limit):
        try:
            (kept,) = deployment.enroll(image).members
        except TooLittleStructureError:
            continue
        assert isinstance(kept, ExactReference)
        images += 1
        own = hash_.code(image.pixels)
        for transform, counts in evaded.items():
            changed = to_8bit(transform(image.pixels, seed=SEED))
            counts[0] += not bool(hash_.matches(hash_.code(changed), own))
            counts[1] += matcher.decide(kept, changed.numpy()) is not Decision.MATCH
    print(f"{name}, {images} images: transformation, plain evasions, exact evasions")
    for transform, (before, after) in evaded.items():
        print(f"  {transform.name:<20} {before:4d} {after:4d}{'  (mildest)' if transform in LOWEST_INTENSITY else ''}")
    for what, chosen in (("mildest", LOWEST_INTENSITY), ("all", ALL_TRANSFORMS)):
        plainly, exactly = (sum(evaded[t][side] for t in chosen) / len(chosen) / images for side in (0, 1))
        print(f"  {what}: plain {plainly:.2%}, exact {exactly:.2%}")


def speed() -> dict[str, float]:
    """Print and return times, also as multiples of plain PDQ, on one thread, without reading files."""
    torch.set_num_threads(1)
    deployment, matcher = _exact("pdq")
    image = natural_image(3)
    pixels = image.pixels.numpy()
    (kept,) = deployment.enroll(image).members
    assert isinstance(kept, ExactReference)
    samples = (pixels.transpose(1, 2, 0) * 255).round().astype(np.uint8)
    base = _seconds(lambda: matcher.linear.code(pixels))
    rows = {
        "plain PDQ (numpy)": base,
        "plain PDQ (torch)": _seconds(lambda: matcher.plain_hash.code(image.pixels)),
        "decision": _seconds(lambda: matcher.decide(kept, pixels)),
        "certificate": _seconds(lambda: matcher.certify_exactly(kept, pixels)),
        "enrollment": _seconds(lambda: matcher.enroll_pixels(pixels), 5),
    }
    try:
        import pdqhash

        rows["pdqhash (C++)"] = _seconds(lambda: pdqhash.compute(samples))
    except ImportError:
        pass
    for what, seconds in rows.items():
        print(f"{what:<20} {1000 * seconds:7.2f} ms  {seconds / base:6.2f} x plain PDQ", flush=True)
    return rows


def _seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    work()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return median(times)


def _exact(name: str) -> tuple[Deployment, DeployedExactMatcher]:
    deployment = deploy(name, method="exact")
    (matcher,) = deployment.matchers
    assert isinstance(matcher, DeployedExactMatcher)
    return deployment, matcher


def _images(folders: Sequence[Path], limit: int | None) -> Iterator[tuple[int, CanonicalImage]]:
    for folder in folders:
        for place, file in enumerate(list_images(folder)[:limit]):
            yield place, CanonicalImage(to_8bit(load_image(file).pixels), f"{folder.name}/{file.name}")


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=["radii", "pairs", "edits", "speed"])
    parser.add_argument("--hash", default="pdq")
    parser.add_argument("--data", type=Path, action="append", default=[])
    parser.add_argument("--limit", type=int)
    parser.add_argument("--attacked", type=int, default=0)
    given = parser.parse_args()
    if given.what == "speed":
        speed()
    elif not given.data:
        parser.error("--data is needed")
    elif given.what == "radii":
        radii(given.hash, given.data, given.limit, given.attacked)
    elif given.what == "pairs":
        pairs(given.hash, given.data)
    else:
        edits(given.hash, given.data, given.limit)


if __name__ == "__main__":
    main()
