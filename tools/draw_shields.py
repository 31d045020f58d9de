"""Draws docs/images/shields.png: one photo, the two shields at work, and what an attack does to each.

    python -m tools.draw_shields

The photo is `chelsea` of scikit-image, by Stefan van der Walt, released under CC0.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from PIL import Image

import dualshield as ds
from dualshield.images.samples import sample_photos

OUT = Path(__file__).parent.parent / "docs" / "images" / "shields.png"
PHOTO = "chelsea.png"
BUDGET = 10.0
SEED = 2026
COLOURS = {"match": "#1a7f37", "no_match": "#b42318", "abstain": "#9a6700"}


@dataclass(frozen=True)
class Panel:
    """One picture and the lines below it."""

    title: str
    image: ds.CanonicalImage
    note: str
    result: ds.MatchResult  # against the reference of what was published
    threshold: float  # of the plain hash
    has_shields: bool


def panels() -> list[Panel]:
    """The photo and its attacked copy, without shields and with both."""
    file = next(file for file in sample_photos() if file.name == PHOTO)
    deployment = ds.deploy("pdq")
    original = ds.load_image(file)
    evading = ds.attacks.attack(original, hash=deployment, budget=BUDGET, against="original", seed=SEED)
    hardened = ds.Hardener(deployment).harden(file)
    caught = ds.attacks.attack(
        hardened.hardened, hardened.hardened, hash=deployment, budget=BUDGET, against="smoothing", seed=SEED
    )
    plain, shielded = deployment.enroll(original), hardened.reference
    assert shielded is not None

    def panel(title: str, image: ds.CanonicalImage, note: str, reference: ds.Reference) -> Panel:
        result = deployment.match(reference, image, noise=ds.GaussianSource.from_seed(SEED))
        return Panel(title, image, note, result, deployment.hashes[0].threshold, reference is shielded)

    return [
        panel("the photo", original, "published as it is", plain),
        panel(f"attacked, l2 {evading.l2:.1f}", evading.adversarial, f"SSIM {evading.ssim:.3f} to the photo", plain),
        panel("hardened", hardened.hardened, f"SSIM {hardened.report.ssim:.3f} to the photo", shielded),
        panel(f"attacked, l2 {caught.l2:.1f}", caught.adversarial, f"SSIM {caught.ssim:.3f} to hardened", shielded),
    ]


def lines(panel: Panel) -> list[tuple[str, str]]:
    """What stands below a picture, with its colour."""
    distance = panel.result.member.distance
    plain = "match" if distance <= panel.threshold else "no_match"
    found = [(panel.note, "#444444"), (f"plain PDQ: {word(plain)}", COLOURS[plain])]
    if panel.has_shields:
        decision = panel.result.decision.value
        # Cut off, not rounded: what is printed is proven.
        radius = int(panel.result.radius * 100) / 100
        found += [(f"DualShield: {word(decision)}", COLOURS[decision]), (f"certified radius {radius:.2f}", "#444444")]
    return found


def word(decision: str) -> str:
    """As the command line writes it."""
    return decision.replace("_", " ").upper()


def draw(found: list[Panel], out: Path) -> None:
    """Four pictures in a row, saved with few colours so that the file stays small."""
    mpl.use("Agg")
    figure, axes = plt.subplots(1, len(found), figsize=(11, 4.0), dpi=100)
    for axis, panel in zip(axes, found, strict=True):
        axis.imshow(panel.image.to_8bit())
        axis.set_title(panel.title, fontsize=12)
        axis.set_xticks([])
        axis.set_yticks([])
        for index, (text, colour) in enumerate(lines(panel)):
            bold = "bold" if ":" in text else "normal"
            axis.text(0.5, -0.09 - 0.11 * index, text, ha="center", color=colour, weight=bold, transform=axis.transAxes)
    figure.subplots_adjust(left=0.01, right=0.99, top=0.92, bottom=0.28, wspace=0.05)
    figure.savefig(out)
    plt.close(figure)
    with Image.open(out) as picture:
        small = picture.convert("RGB").quantize(128, dither=Image.Dither.FLOYDSTEINBERG)
    small.save(out, optimize=True)


if __name__ == "__main__":
    OUT.parent.mkdir(exist_ok=True)
    shown = panels()
    draw(shown, OUT)
    for one in shown:
        print(one.title, "|", " | ".join(text for text, _ in lines(one)))
    print(OUT, f"{OUT.stat().st_size / 1000:.0f} kB")
