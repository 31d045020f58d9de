"""Measure certified radii of identity pairs and decisions on unrelated pairs, over folders of images.

python -m benchmarks.radii --data DIR --data DIR2 --hash pdq --sigma profile --sigma auto [--limit 30]
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from dualshield.images import CanonicalImage, list_images, load_image
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.noise import GaussianSource


def load(file: Path) -> CanonicalImage:
    """Load an image named FOLDER/FILE without the full path, so that pairs get the same noise on every machine."""
    return replace(load_image(file), name=f"{file.parent.name}/{file.name}")


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
    noise = partial(GaussianSource.for_work, options.seed)  # the noise of a pair depends on its names only
    per_folder = options.limit // len(options.data) if options.limit else None
    files = [file for folder in options.data for file in list_images(folder)[:per_folder]]
    print(f"{len(files)} images, hash {options.hash}, seed {options.seed}")
    print(
        "| sigma | mean radius | median | minimum | mean detected radius | certified matches "
        "| unrelated pairs no_match | seconds per pair |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for choice in options.sigma or ["profile", "auto"]:
        deployment = deploy(options.hash, sigma="auto" if choice == "auto" else None)
        assert deployment.members[0].profile is not None, f"no profile of {options.hash}"
        # Unrelated pairs only need a decision, which takes a few draws instead of N.
        deciding = deployment.with_config(target_radius=0.0)
        radii, detected, rejected, elapsed = [], [], [], []
        earlier = deque((load(file) for file in files[-options.unrelated :]), maxlen=options.unrelated)
        for file in files:
            image = load(file)
            started = time.perf_counter()
            reference = deployment.enroll(image)
            result = deployment.match(reference, image, noise=noise(image.name))
            elapsed.append(time.perf_counter() - started)
            matches = result.decision == "match"
            radii.append(result.radius if matches else 0.0)
            detected.append(result.radius_detected if matches else 0.0)
            rejected += [
                deciding.match(reference, other, noise=noise(image.name, other.name)).decision == "no_match"
                for other in earlier
            ]
            earlier.append(image)
        matched = sum(radius > 0 for radius in radii)
        print(
            f"| {choice} | {np.mean(radii):.4f} | {np.median(radii):.4f} | {min(radii):.4f} | {np.mean(detected):.4f} "
            f"| {matched}/{len(radii)} | {sum(rejected)}/{len(rejected)} | {np.mean(elapsed):.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
