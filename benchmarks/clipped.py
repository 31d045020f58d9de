"""Compare the normal law of the paper's noise with the noise itself at the boundary, where a difference shows most.

python -m benchmarks.clipped --data FOLDER [--data FOLDER2 ...] [--draws 1500]

Two images of each folder are blended with another image until about half of the votes match. The share of matching
votes is then measured with the law and with noise drawn pixel by pixel.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.radii import load
from dualshield.images import CanonicalImage, list_images
from dualshield.images.eight_bit import to_8bit
from dualshield.smoothing.config import PAPER, PAPER_LIMIT
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.matcher import SmoothedMatcher
from dualshield.smoothing.noise import GaussianSource

SEED = 2026
PER_FOLDER = 2
FIRST, BLENDED = 4, 20  # first index in a folder of the images, and of the images blended in
BISECTIONS = 10
LAW_DRAWS = 20_000


def share(matcher: SmoothedMatcher, image: CanonicalImage, query: CanonicalImage, draws: int, seed: int) -> float:
    """Return the share of votes that match."""
    noise = GaussianSource.for_work(seed, image.name)
    return matcher.count(matcher.enroll(image.pixels), query.pixels, draws, noise) / draws


def at_the_boundary(matcher: SmoothedMatcher, image: CanonicalImage, other: CanonicalImage) -> CanonicalImage:
    """Return a blend of two images for which about half of the votes match the first."""
    low, high = 0.0, 1.0
    query = image
    for _ in range(BISECTIONS):
        weight = (low + high) / 2
        query = replace(image, pixels=to_8bit((1 - weight) * image.pixels + weight * other.pixels))
        low, high = (weight, high) if share(matcher, image, query, 1000, SEED) > 0.5 else (low, weight)
    return query


def main() -> None:
    """Print both shares of every pair, and their difference in standard errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, action="append", required=True)
    parser.add_argument("--draws", type=int, default=1500)
    options = parser.parse_args()
    (law,), (drawn,) = (deploy("pdq", config=config).matchers for config in (PAPER_LIMIT, PAPER))
    assert isinstance(law, SmoothedMatcher)
    assert isinstance(drawn, SmoothedMatcher)
    scores, ratios = [], []
    for folder in options.data:
        files = list_images(folder)
        for index in range(PER_FOLDER):
            image, other = (load(files[(start + index) % len(files)]) for start in (FIRST, BLENDED))
            image = replace(image, pixels=to_8bit(image.pixels))
            query = at_the_boundary(law, image, other)
            started = time.perf_counter()
            limit = share(law, image, query, LAW_DRAWS, SEED + 1)
            middle = time.perf_counter()
            literal = share(drawn, image, query, options.draws, SEED + 2)
            ended = time.perf_counter()
            error = (limit * (1 - limit) * (1 / options.draws + 1 / LAW_DRAWS)) ** 0.5
            scores.append((literal - limit) / error)
            ratios.append((ended - middle) / options.draws / (middle - started) * LAW_DRAWS)
            name = f"{folder.name} {index + 1}"
            print(f"{name}: law {limit:.4f}, drawn {literal:.4f}, {scores[-1]:+.2f} standard errors", flush=True)
    print(f"quadratic mean of the differences: {np.sqrt(np.mean(np.square(scores))):.2f} standard errors (expected: 1)")
    print(f"a vote with the law takes 1/{np.median(ratios):.0f} of the time")


if __name__ == "__main__":
    main()
