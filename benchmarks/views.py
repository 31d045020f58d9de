"""Measure what views cost, and what they must not do.

python -m benchmarks.views speed [--hash efflite]                  a decision with views against one without, in one run
python -m benchmarks.views documents [--hash efflite] [--count 200]    generated documents that match one another
python -m benchmarks.views flat --data DIR [--limit 100]           photos that match flat images or gradients
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from dualshield.errors import TooLittleStructureError
from dualshield.images import CanonicalImage, list_images, load_image
from dualshield.images.documents import documents
from dualshield.images.samples import sample_photos
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.reference import Reference
from dualshield.smoothing.statistics import Decision

REPEATS = 7
OTHER_SEED = 31  # documents that enrollment does not know as probes


def ratios(name: str) -> dict[str, float]:
    """Return how much longer a decision takes with views, for a match and for a non-match.

    Votes are drawn for a target radius of one sigma; an exact matcher decides and certifies as always.
    """
    photo, other = (load_image(file) for file in sample_photos()[:2])
    found: dict[str, list[float]] = {}
    for views in ("none", "standard"):
        deployment = deploy(name, views=views)
        reference = deployment.enroll(photo)
        if deployment.draws_noise:
            deployment = deployment.with_config(target_radius=reference.sigma)
        for what, query in (("match", photo), ("non-match", other)):
            deployment.match(reference, query)
            times = []
            for seed in range(REPEATS):
                started = time.perf_counter()
                deployment.match(reference, query, noise=GaussianSource.from_seed(seed))
                times.append(time.perf_counter() - started)
            found.setdefault(what, []).append(sorted(times)[REPEATS // 2])
    return {what: with_views / without for what, (without, with_views) in found.items()}


def enrolled(deployment: Deployment, images: Sequence[CanonicalImage]) -> dict[str, Reference]:
    """Return the references of all images that can be enrolled."""
    found = {}
    for image in images:
        try:
            found[image.name] = deployment.enroll(image)
        except TooLittleStructureError:
            continue
    return found


def matching_documents(name: str, count: int, most_pairs: int) -> str:
    """Return how many pairs of different documents match; all pairs, or a seeded sample of them."""
    deployment = deploy(name)
    deciding = deployment.with_config(target_radius=0.0, n=1000) if deployment.draws_noise else deployment
    pages = list(documents(count, OTHER_SEED))
    references = enrolled(deciding, pages)
    pairs = [(kept, page) for kept in references for page in pages if page.name != kept]
    chosen = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(2026))[:most_pairs].tolist()
    matched = sum(
        deciding.match(references[pairs[i][0]], pairs[i][1], noise=GaussianSource.from_seed(i)).decision
        is Decision.MATCH
        for i in chosen
    )
    return (
        f"{name}: {len(references)} of {count} documents enrolled, {matched} of {len(chosen)} pairs match, of "
        f"{count * (count - 1)} ordered pairs in all"
    )


def matching_flats(name: str, folders: Sequence[Path], limit: int) -> str:
    """Return how many photos match a flat image or a gradient."""
    deployment = deploy(name)
    deciding = deployment.with_config(target_radius=0.0, n=1000) if deployment.draws_noise else deployment
    size = 512
    colours = torch.cartesian_prod(*[torch.tensor([0.1, 0.35, 0.65, 0.9])] * 3)
    flats = [CanonicalImage(colour[:, None, None].expand(3, size, size).contiguous(), "flat") for colour in colours]
    ramp = torch.linspace(0, 1, size).expand(3, size, size).contiguous()
    flats += [CanonicalImage(one.contiguous(), "ramp") for one in (ramp, ramp.mT, ramp.flip(-1), ramp.mT.flip(-2))]
    files = [file for folder in folders for file in list_images(folder)[: limit // len(folders)]]
    references = enrolled(deciding, [load_image(file) for file in files])
    matched = [
        kept
        for kept, reference in references.items()
        if any(deciding.match(reference, flat).decision is Decision.MATCH for flat in flats)
    ]
    return f"{name}: {len(references)} of {len(files)} photos enrolled, {len(matched)} match one of {len(flats)} flats"


def main() -> None:
    """Run one measurement and print its result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "documents", "flat"])
    parser.add_argument("--hash", default="efflite")
    parser.add_argument("--data", action="append", type=Path, default=[])
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=40_000)
    options = parser.parse_args()
    if options.what == "speed":
        for what, ratio in ratios(options.hash).items():
            print(f"{options.hash}: a {what} with views takes {ratio:.2f} times as long as without")
    elif options.what == "documents":
        print(matching_documents(options.hash, options.count, options.pairs))
    else:
        print(matching_flats(options.hash, options.data, options.limit))


if __name__ == "__main__":
    main()
