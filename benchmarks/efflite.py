"""Measure whether the embedded deep hash is good enough as default: variants, collisions, look-alikes, time.

    python -m benchmarks.efflite --data DIR --data DIR2 [--hash efflite] [--limit 300]

Certified radii: ``python -m benchmarks.radii --hash efflite --sigma profile --limit 30 --data DIR ...``.

Two kinds of look-alikes are built, since folders do not say which photos show the same scene. *Neighbours*: each image
with the image most similar to it for EfficientNet-Lite0 as a classifier. *Two views*: windows of 70 % of the sides at
opposite corners of one photo, as if the camera had moved; they share a third of their area.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F

from benchmarks.__main__ import certificate_seconds, deployed
from benchmarks.radii import load
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.hashes.networks import efficientnet_lite
from dualshield.images import CanonicalImage, FrontEnd, list_images, load_image
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.noise import GaussianSource
from dualshield.transforms import LOWEST_INTENSITY, Transform

PAIRS = 2000
CROPS = (Transform("crop", 0.7), Transform("crop", 0.6), Transform("crop", 0.5))
VIEW = 0.7
TIMED = 3


def two_views(pixels: torch.Tensor) -> list[torch.Tensor]:
    """Return the upper left and the lower right part of a photo, each enlarged to full size."""
    side = pixels.shape[-1]
    kept = round(VIEW * side)
    windows = torch.stack([pixels[:, :kept, :kept], pixels[:, side - kept :, side - kept :]])
    return list(F.interpolate(windows, size=(side, side), mode="bilinear", antialias=True))


def classifier() -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function from a canonical image to class scores of unit length."""
    network = efficientnet_lite.build(efficientnet_lite.weights_file())
    front_end = FrontEnd.identity().resize(224, 224).normalise((0.5,) * 3, (0.5,) * 3)
    return lambda pixels: F.normalize(network(front_end(pixels)[None])[0], dim=0)


def describe(name: str, distances: list[float] | torch.Tensor, threshold: float) -> None:
    """Print one row: how many distances are within the threshold, and their quantiles."""
    values = torch.as_tensor(distances, dtype=torch.float64)
    # Bit error rates are rounded fractions; the tolerance keeps rounding out of the comparison.
    within = int((values <= threshold + 1e-9).sum())
    low, middle, high = (float(values.quantile(q)) for q in (0.0, 0.5, 1.0))
    print(f"| {name} | {within}/{len(values)} | {within / len(values):.3%} | {low:.3f} | {middle:.3f} | {high:.3f} |")


@torch.no_grad()
def measure(hash_: PerceptualHash, files: list[Path], seed: int) -> list[tuple[int, int]]:
    """Print the rates of the plain hash; return the nearest neighbours."""
    codes, scores, views = [], [], []
    handled: dict[str, list[float]] = {t.name: [] for t in (*LOWEST_INTENSITY, *CROPS)}
    score = classifier()

    def rate(one: torch.Tensor, two: torch.Tensor) -> float:
        return float((one ^ two).float().mean())

    for number, file in enumerate(files):
        pixels = load_image(file).pixels
        codes.append(hash_.code(pixels))
        scores.append(score(pixels))
        views.append(rate(*(hash_.code(view) for view in two_views(pixels))))
        for transform in (*LOWEST_INTENSITY, *CROPS):
            handled[transform.name].append(rate(codes[-1], hash_.code(transform(pixels, seed=seed + number))))
    print("| pairs | match | share | smallest BER | median | largest |")
    print("|---|---|---|---|---|---|")
    mildest = [value for transform in LOWEST_INTENSITY for value in handled[transform.name]]
    describe("lowest intensity, all", mildest, hash_.threshold)
    for name, values in handled.items():
        describe(name, values, hash_.threshold)
    generator = torch.Generator().manual_seed(seed)
    all_pairs = torch.combinations(torch.arange(len(codes)))
    chosen = all_pairs[torch.randperm(len(all_pairs), generator=generator)[:PAIRS]]
    for name, pairs in (("unrelated, drawn", chosen), ("unrelated, all", all_pairs)):
        describe(name, [rate(codes[i], codes[j]) for i, j in pairs.tolist()], hash_.threshold)
    similarity = torch.stack(scores) @ torch.stack(scores).T
    nearest = list(enumerate(similarity.fill_diagonal_(-1).argmax(1).tolist()))
    describe("look-alikes: neighbours", [rate(codes[i], codes[j]) for i, j in nearest], hash_.threshold)
    describe("look-alikes: two views", views, hash_.threshold)
    return nearest


def smoothed_matches(hash_: PerceptualHash, pairs: list[tuple[CanonicalImage, CanonicalImage]], seed: int) -> int:
    """Return how many of these pairs match in the deployed matcher."""
    deployment = deploy(hash_, target_radius=0.0)
    results = (
        deployment.match(deployment.enroll(one), two, noise=GaussianSource.for_work(seed, one.name, two.name))
        for one, two in pairs
    )
    return sum(result.decision == "match" for result in results)


def main() -> None:
    """Print all measurements, one table row or line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", type=Path, required=True)
    parser.add_argument("--hash", default="efflite")
    parser.add_argument("--limit", type=int, help="images in all, taken evenly from the folders")
    parser.add_argument("--smoothed", type=int, default=60, help="neighbours that the deployed matcher decides")
    parser.add_argument("--seed", type=int, default=2026)
    options = parser.parse_args()
    per_folder = options.limit // len(options.data) if options.limit else None
    files = [file for folder in options.data for file in list_images(folder)[:per_folder]]
    hash_ = get_hash(options.hash)
    print(f"{len(files)} images, hash {options.hash}, threshold {hash_.threshold:g}, seed {options.seed}\n")
    nearest = measure(hash_, files, options.seed)
    step = max(1, len(nearest) // max(1, options.smoothed))
    pairs = [(load(files[i]), load(files[j])) for i, j in nearest[::step]]
    print(f"\nneighbours that match when smoothed: {smoothed_matches(hash_, pairs, options.seed)} of {len(pairs)}")
    for file in files[:: max(1, len(files) // TIMED)][:TIMED]:
        photo = load_image(file)
        config, enrollment = deployed(hash_, photo, n=5000)
        assert isinstance(config.sigma, float)
        target = certificate_seconds(hash_, photo, replace(config, target_radius=config.sigma), repeats=3)
        print(
            f"sigma {config.sigma:g}: radius of one sigma in {target:.3f} s, enrollment {enrollment:.3f} s", flush=True
        )


if __name__ == "__main__":
    main()
