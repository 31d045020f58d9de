"""Measure the gains and costs of hardening over folders of images; one row of docs/results/hardening.md.

python -m benchmarks.hardening --data DIR --data DIR2 --hash pdq --per-folder 12 [--preset paper] [--out FOLDER]

Radii are of identity pairs with ``--sigma auto``, on the written file. Transformation evasion is the share of the
paper's transformations at their lowest intensity for which the deployed matcher does not answer match.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from dualshield._common.files import write_atomically
from dualshield.hardening.harden import HardenedImage, Hardener
from dualshield.images import CanonicalImage, list_images, load_image
from dualshield.images.preview import preview_files
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.noise import GaussianSource
from dualshield.transforms import LOWEST_INTENSITY

RESAVED = 85
Noise = Callable[..., GaussianSource]  # returns the noise of one piece of work from its labels


@dataclass(frozen=True)
class Row:
    """The measurements of one image."""

    ssim: float
    psnr: float
    linf: float
    l2: float
    before: float
    after: float
    resaved: float
    seconds: float
    certifying: float
    plain_evaded: float
    evaded_before: float
    evaded_after: float
    default_evaded_after: float


def resaved(data: bytes) -> CanonicalImage:
    """Return the published file, saved once more as JPEG."""
    file = BytesIO()
    with Image.open(BytesIO(data)) as image:
        image.convert("RGB").save(file, "JPEG", quality=RESAVED)
    return load_image(file.getvalue())


def evasion(deciding: Deployment, image: CanonicalImage, noise: Noise) -> float:
    """Return the share of the mildest transformations that evade; abstentions count as evasions."""
    reference = deciding.enroll(image)
    decisions = [deciding.match(reference, t(image, seed=2026), noise=noise(t.name)).decision for t in LOWEST_INTENSITY]
    return float(np.mean([decision != "match" for decision in decisions]))


def plain_evasion(deployment: Deployment, image: CanonicalImage, threshold: float) -> float:
    """Return the share of the mildest transformations that evade the plain hash."""
    hash_ = deployment.hashes[0].with_threshold(threshold)
    code = hash_.code(image.pixels)
    return float(np.mean([not hash_.matches(hash_.code(t(image.pixels, seed=2026)), code) for t in LOWEST_INTENSITY]))


def measure(hardener: Hardener, file: Path, default: Deployment, noise: Noise) -> tuple[Row, HardenedImage]:
    """Harden one image and measure it."""
    deployment = hardener.deployment
    # Transformations only need a decision, which takes a few draws instead of N.
    deciding, deciding_by_default = (found.with_config(target_radius=0.0) for found in (deployment, default))
    image = hardener.harden(file, noise=noise("harden"))
    again = resaved(image.data)
    report = image.report
    result = deployment.match(deployment.enroll(again), again, noise=noise("resaved"))
    return Row(
        ssim=report.ssim,
        psnr=report.psnr,
        linf=255 * report.linf,
        l2=report.l2,
        before=report.radius_before,
        after=report.radius_after,
        resaved=result.radius if result.decision == "match" else 0.0,
        seconds=report.seconds,
        certifying=report.seconds_certifying,
        plain_evaded=plain_evasion(deployment, image.original, 0.2),
        evaded_before=evasion(deciding, image.original, partial(noise, "before")),
        evaded_after=evasion(deciding, image.hardened, partial(noise, "after")),
        default_evaded_after=evasion(deciding_by_default, image.hardened, partial(noise, "after, by default")),
    ), image


def main() -> None:
    """Print one line per image, and the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", type=Path, required=True)
    parser.add_argument("--hash", default="pdq")
    parser.add_argument("--per-folder", type=int, default=12)
    parser.add_argument("--preset", choices=["perceptual", "paper"], default="perceptual")
    parser.add_argument("--strength", type=float, default=1.0)
    parser.add_argument("--n", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--out", type=Path, help="a folder for previews")
    options = parser.parse_args()
    default = deploy(options.hash)
    deployment = deploy(options.hash, sigma="auto", n=options.n)
    hardener = Hardener(deployment, preset=options.preset, strength=options.strength)
    rows = []
    for folder in options.data:
        for file in list_images(folder)[: options.per_folder]:
            noise = partial(GaussianSource.for_work, options.seed, f"{folder.name}/{file.name}")
            row, image = measure(hardener, file, default, noise)
            rows.append(row)
            print(
                f"{folder.name}/{file.name}: SSIM {row.ssim:.4f}, l_inf {row.linf:.0f}, l2 {row.l2:.1f}, radius "
                f"{row.before:.3f} -> {row.after:.3f} (resaved {row.resaved:.3f}), evaded {row.evaded_before:.2f} -> "
                f"{row.evaded_after:.2f}, {row.seconds:.1f} s + {row.certifying:.1f} s",
                flush=True,
            )
            if options.out:
                options.out.mkdir(parents=True, exist_ok=True)
                target = options.out / f"{options.hash}-{options.preset}-{folder.name}-{file.stem}.png"
                write_atomically(target, preview_files(str(file), image.data))
    _summary(rows)


def _summary(rows: list[Row]) -> None:
    mean = {name: float(np.mean([getattr(row, name) for row in rows])) for name in Row.__dataclass_fields__}
    gain = mean["after"] - mean["before"]
    print(f"\n{len(rows)} images")
    print(
        f"mean SSIM {mean['ssim']:.4f}, PSNR {mean['psnr']:.1f} dB, l_inf {mean['linf']:.1f}/255, l2 {mean['l2']:.1f}"
    )
    print(f"mean radius {mean['before']:.4f} -> {mean['after']:.4f}, ratio {mean['after'] / mean['before']:.3f}")
    print(f"gain left after JPEG {RESAVED}: {(mean['resaved'] - mean['before']) / gain:.1%}")
    print(
        f"transformation evasion: plain hash {mean['plain_evaded']:.2%}; smoothed, --sigma auto: "
        f"{mean['evaded_before']:.2%} -> {mean['evaded_after']:.2%} hardened; default sigma, hardened "
        f"{mean['default_evaded_after']:.2%}"
    )
    print(f"seconds per image {mean['seconds']:.2f}, and {mean['certifying']:.2f} for both certificates")


if __name__ == "__main__":
    main()
