"""``dualshield demo``: what DualShield does, on photos everybody has."""

from __future__ import annotations

from dataclasses import replace

import click
from rich.console import Console
from rich.table import Table

from dualshield.cli.output import console, progress
from dualshield.errors import MissingError
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.images import CanonicalImage, load_image
from dualshield.images.samples import sample_photos
from dualshield.smoothing.matcher import MatchResult, SmoothedMatcher
from dualshield.smoothing.profile import default_config
from dualshield.transforms import Transform

# Fewer draws for the network, so that the demo ends soon; its radii are capped a little lower for it.
DEMO_HASHES = {"pdq": 5000, "neuralhash": 1000}
VARIANTS = (Transform("jpeg", 60), Transform("brightness", 1.15), Transform("crop", 0.9))


@click.command()
def demo() -> None:
    """Compare plain and smoothed matching on sample photos, for PDQ and NeuralHash."""
    photos = [replace(load_image(file), name=file.stem) for file in sample_photos()[:3]]
    out = console()
    for name, draws in DEMO_HASHES.items():
        try:
            hash_ = get_hash(name)
        except MissingError as error:
            out.print(f"{name}: skipped: {error}\n", highlight=False)
            continue
        _demo(out, hash_, photos, draws)
    out.print(
        "A plain hash decides by one distance, which an attacker moves at will. The smoothed matcher decides by a\n"
        "vote over noisy comparisons: inside the certified l2 radius (512x512x3 pixels in [0,1]) no attack whatsoever\n"
        "can change its decision. The paper's radius is 0.2993; try --paper with 'dualshield match'.",
        highlight=False,
    )


def _demo(out: Console, hash_: PerceptualHash, photos: list[CanonicalImage], draws: int) -> None:
    config = replace(default_config(hash_.name), n=draws)
    matcher = SmoothedMatcher(hash_, config)
    photo = photos[0]
    variants = [CanonicalImage(v(photo.pixels), f"its {v.name}") for v in VARIANTS]
    queries = [photo, *variants, *photos[1:]]
    reference = matcher.enroll(photo)
    lowpass = "no low-pass" if config.lowpass is None else f"low-pass {config.lowpass}x{config.lowpass}"
    table = Table(
        "query",
        "plain distance",
        "plain hash",
        "smoothed",
        "certified radius",
        "votes",
        "seconds",
        title=f"{hash_.name} ({hash_.bits} bits), reference: {photo.name}; sigma {reference.sigma:g}, {lowpass}, "
        f"{matcher.engine.name} engine",
        title_justify="left",
    )
    with progress() as bar:
        for query in bar.track(queries, description=hash_.name):
            table.add_row(*_row(matcher.match(reference, query), photo.name, hash_.threshold))
    out.print(table)
    out.print()


def _row(result: MatchResult, photo: str, plain_threshold: float) -> list[str]:
    return [
        "the same photo" if result.query == photo else result.query,
        f"{result.distance:.3f}",
        "match" if result.distance <= plain_threshold else "no match",
        result.decision.value.replace("_", " "),
        f"{result.radius:.3f}",
        f"{result.votes}/{result.draws}",
        f"{result.seconds:.2f}",
    ]
