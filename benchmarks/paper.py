"""Measure the effect of choices that the paper leaves open (docs/results/evaluation.md).

python -m benchmarks.paper noise --data FOLDER [--data FOLDER2 ...] [--limit 4]
python -m benchmarks.paper inner --data FOLDER [--data FOLDER2 ...] [--limit 4]

``noise``: how many bits of NeuralHash differ between two copies of an image under the paper's noise, for several ways
of resizing. ``inner``: how similar PDQ images hardened by Algorithm 1 are to the originals, for two step sizes of the
inner attack. Both take the first images of each folder.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import torch

from dualshield.engines.choose import make_engine
from dualshield.hardening import paper
from dualshield.hardening.negatives import negatives
from dualshield.hashes import get_hash
from dualshield.images import CanonicalImage, FrontEnd, list_images, load_image
from dualshield.images.eight_bit import to_8bit
from dualshield.images.quality import ssim
from dualshield.smoothing.config import PAPER
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.noise_kinds import CLIPPED
from dualshield.smoothing.sampler import Sampler

SEED = 2026
PAIRS = 24
HALF = (0.5, 0.5, 0.5)
SIDE = 360
RESIZINGS = {
    "bicubic (ours)": FrontEnd.identity().resize(SIDE, SIDE, "bicubic"),
    "bicubic, not antialiased": FrontEnd.identity().resize(SIDE, SIDE, "bicubic", antialias=False),
    "bilinear, not antialiased": FrontEnd.identity().resize(SIDE, SIDE, "bilinear", antialias=False),
    "nearest": FrontEnd.identity().resize(SIDE, SIDE, "box", antialias=False),
}
INNER_STEPS = (1 / 255, 4 / 255)


def noise(images: Sequence[CanonicalImage]) -> None:
    """Print the mean distance of noisy pairs for each resizing."""
    hash_ = get_hash("neuralhash")
    sigma = float(PAPER.sigma)
    for name, resizing in RESIZINGS.items():
        resized = replace(hash_, front_end=resizing.normalise(HALF, HALF))
        sampler = Sampler(resized, make_engine(resized, reads="features"), CLIPPED)
        source = GaussianSource.from_seed(SEED)
        distances = []
        for image in images:
            first, second = (torch.cat(list(sampler.codes(image.pixels, sigma, PAIRS, source))) for _ in range(2))
            distances.append(float((first ^ second).sum(-1).float().mean()))
        print(f"{name}: {fmean(distances):.2f} of {hash_.bits} bits, {min(distances):.2f} to {max(distances):.2f}")


def inner(images: Sequence[CanonicalImage]) -> None:
    """Print the SSIM of every hardened image for each step size."""
    hash_ = get_hash("pdq").with_threshold(float(PAPER.threshold or 0))
    unrelated = negatives()
    for step in INNER_STEPS:
        found = []
        for image in images:
            source = GaussianSource.for_work(SEED, image.name)
            delta, _ = paper.perturb(image.pixels, [hash_], unrelated, inner_step=step, limit=True, source=source)
            found.append(ssim(image.pixels, to_8bit(image.pixels + delta)))
            print(f"inner steps of {255 * step:.0f}/255, {image.name}: SSIM {found[-1]:.3f}", flush=True)
        print(f"inner steps of {255 * step:.0f}/255: mean SSIM {fmean(found):.3f} of {len(found)} images")


def _images(folders: Sequence[Path], limit: int) -> Iterator[CanonicalImage]:
    for folder in folders:
        for file in list_images(folder)[:limit]:
            image = load_image(file)
            yield CanonicalImage(to_8bit(image.pixels), f"{folder.name}/{file.name}")


def main() -> None:
    """Run one of the two measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["noise", "inner"])
    parser.add_argument("--data", type=Path, action="append", required=True)
    parser.add_argument("--limit", type=int, default=4)
    options = parser.parse_args()
    images = list(_images(options.data, options.limit))
    noise(images) if options.what == "noise" else inner(images)


if __name__ == "__main__":
    main()
