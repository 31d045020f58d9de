"""``dualshield weights fit``: fit to images the part of a hash that its authors do not publish."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import torch

from dualshield.cli.output import progress
from dualshield.cli.paths import FilePath
from dualshield.errors import ImageError
from dualshield.hashes.zoo import simdino_fit
from dualshield.images import list_images, load_image


@click.command("fit")
@click.argument("name", type=click.Choice(["simdino", "simdino-v2"]))
@click.option("--images", required=True, type=FilePath(), help="Folder of many unrelated photos.")
@click.option(
    "--bits", default=simdino_fit.BITS, show_default=True, help="Length of the hash; the authors use 16, 32 and 64."
)
@click.option(
    "--seed",
    default=simdino_fit.SEED,
    show_default=True,
    type=click.IntRange(0, 2**32 - 1),
    help="Seed of the rotation.",
)
def fit(name: str, images: Path, bits: int, seed: int) -> None:
    """Fit the projection of a SimDINO hash to the photos in a folder.

    Codes from different projections cannot be compared: fit once, and keep the file.
    """
    stored = simdino_fit.fit(name, _pixels(list_images(images)), bits, seed)
    click.echo(f"{stored.weight.name} is fitted and saved: {click.format_filename(stored.path)}")
    click.echo(f"  sha256 {stored.sha256}; use it with --hash {name}")


def _pixels(files: list[Path]) -> Iterator[torch.Tensor]:
    """Yield the pixels of the readable photos, one at a time."""
    with progress() as bar:
        for file in bar.track(files, description="reading photos"):
            try:
                yield load_image(file).pixels
            except ImageError as error:
                click.echo(f"dualshield: skipped: {error}", err=True)
