"""Fit the projection of the hash efflite to a folder of photos (method: src/dualshield/hashes/zoo/efflite_fit.py).

python tools/fit_efflite.py --data PHOTOS --out efflite.npz [--seed 2026] [--limit N]

Codes of two projections cannot be compared, so replacing the projection of the package needs a new hash version.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import torch

from dualshield.engines.choose import make_engine
from dualshield.hashes.networks import efficientnet_lite
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.hashes.zoo import efflite
from dualshield.hashes.zoo.efflite import Projection
from dualshield.hashes.zoo.efflite_fit import FitPlan, Moments, solve, write
from dualshield.images import list_images, load_image
from dualshield.smoothing.noise import GaussianSource
from dualshield.transforms import Transform
from dualshield.transforms.paper import LEVELS

# Larger than the sigma of most references; it allows a radius of nearly three times this value.
SIGMA = 4.0
NOISE_DRAWS = 3
# Geometric changes disturb features most: two levels of each; every other family at one random level.
GEOMETRY = (("crop", 0.9), ("crop", 0.8), ("rotation", 2.0), ("rotation", 5.0))
DRAWN = {**{name: LEVELS[name] for name in ("jpeg", "brightness", "contrast", "blur", "noise")}, "resize": (0.5, 0.25)}


def variants(generator: random.Random) -> list[Transform]:
    """Return the benign variants of one photo."""
    moved = [(name, level * generator.choice((-1, 1)) if name == "rotation" else level) for name, level in GEOMETRY]
    return [Transform(*one) for one in (*moved, *((name, generator.choice(DRAWN[name])) for name in DRAWN))]


def cores(files: Sequence[Path], seed: int) -> Iterator[torch.Tensor]:
    """Yield for each photo its core, the cores of its variants, and noisy copies of its core."""
    front_end, source, generator = efflite.front_end(), GaussianSource.from_seed(seed), random.Random(seed)
    for i, file in enumerate(files):
        pixels = load_image(file).pixels
        handled = [transform(pixels, seed=seed + i) for transform in variants(generator)]
        clean = torch.stack([front_end.core(image) for image in (pixels, *handled)])
        yield torch.cat([clean, source.noisy_copies(clean[0], SIGMA, NOISE_DRAWS)])


def main() -> None:
    """Read the photos, extract features, fit the projection and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder of unrelated photos")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--limit", type=int, help="use only the first N photos")
    options = parser.parse_args()
    files = list_images(options.data)[: options.limit]
    width = efflite.feature_count()
    engine = make_engine(PerceptualHash("efflite-features", "1", width, efflite.front_end(), efflite.backbone()))
    moments = Moments(width)
    for number, batch in enumerate(cores(files, options.seed), 1):
        features = torch.cat(list(engine.run(torch.split(batch, engine.batch_size))))
        moments.add(features[0], features[1:-NOISE_DRAWS], features[-NOISE_DRAWS:])
        if number % 100 == 0:
            print(f"{number} of {len(files)} photos", flush=True)
    matrix, offset = solve(moments, FitPlan(seed=options.seed))
    date = datetime.now(UTC).date().isoformat()
    fitted = Projection(efficientnet_lite.SHA256, efflite.LAYOUT, len(files), SIGMA, options.seed, date, matrix, offset)
    write(fitted, options.out)
    Projection.read(options.out)
    print(f"written: {options.out}, {options.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
