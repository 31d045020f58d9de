"""Certified radii of identity pairs and decisions on unrelated pairs, over folders of images.

python -m benchmarks.radii --data DIR --data DIR2 --hash pdq --sigma profile --sigma auto [--limit 30]
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from dataclasses import replace
from pathlib import Path

import numpy as np

from dualshield.hashes import get_hash
from dualshield.images import list_images, load_image
from dualshield.smoothing.matcher import SmoothedMatcher
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.profile import find_profile


def main() -> None:
    """Print one row per choice of sigma."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", type=Path, required=True)
    parser.add_argument("--hash", default="pdq")
    parser.add_argument("--sigma", action="append", choices=["profile", "auto"])
    parser.add_argument("--limit", type=int, help="images in all, taken evenly from the folders")
    parser.add_argument("--unrelated", type=int, default=4, help="unrelated queries per reference")
    parser.add_argument("--seed", type=int, default=2026)
    options = parser.parse_args()
    profile = find_profile(options.hash)
    assert profile is not None, f"no profile of {options.hash} in the package"
    per_folder = options.limit // len(options.data) if options.limit else None
    files = [file for folder in options.data for file in list_images(folder)[:per_folder]]
    print(f"{len(files)} images, hash {options.hash}, seed {options.seed}")
    print(
        "| sigma | mean radius | median | minimum | certified matches | unrelated pairs no_match | seconds per pair |"
    )
    print("|---|---|---|---|---|---|---|")
    for choice in options.sigma or ["profile", "auto"]:
        config = profile.widest_config() if choice == "auto" else profile.config()
        matcher = SmoothedMatcher(get_hash(options.hash), config, source=GaussianSource.from_seed(options.seed))
        # Unrelated pairs only have to be decided, which takes a few draws instead of N.
        decider = SmoothedMatcher(
            get_hash(options.hash),
            replace(config, target_radius=0.0),
            source=GaussianSource.from_seed(options.seed + 1),
        )
        radii, rejected, elapsed = [], [], []
        earlier = deque((load_image(file) for file in files[-options.unrelated :]), maxlen=options.unrelated)
        for file in files:
            image = load_image(file)
            started = time.perf_counter()
            reference = matcher.enroll(image)
            result = matcher.match(reference, image)
            elapsed.append(time.perf_counter() - started)
            radii.append(result.radius if result.decision == "match" else 0.0)
            rejected += [decider.match(reference, other).decision == "no_match" for other in earlier]
            earlier.append(image)
        matched = sum(radius > 0 for radius in radii)
        print(
            f"| {choice} | {np.mean(radii):.4f} | {np.median(radii):.4f} | {min(radii):.4f} | {matched}/{len(radii)} "
            f"| {sum(rejected)}/{len(rejected)} | {np.mean(elapsed):.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
