"""``dualshield hash``: plain hashes of images."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dualshield.cli.options import hash_option, json_option
from dualshield.errors import ImageError
from dualshield.hashes import get_hash, to_hex
from dualshield.images import load_image


@click.command("hash")
@click.argument("images", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="IMG...")
@hash_option
@json_option
def hash_images(images: tuple[Path, ...], hash_name: str, as_json: bool) -> int:
    """Print the plain hash of each image.

    A file that cannot be read is reported on stderr and does not stop the others; the exit code is then 2.
    """
    hash_ = get_hash(hash_name)
    rows = []
    failed = 0
    for file in images:
        try:
            code = hash_.code(load_image(file).pixels)
        except ImageError as error:
            failed += 1
            click.echo(f"dualshield: {error}", err=True)
            continue
        row = {"file": str(file), "hash": hash_.name, "bits": hash_.bits, "hex": to_hex(code)}
        rows.append(row)
        if not as_json:
            click.echo(f"{row['hex']}  {click.format_filename(file)}")
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    return ImageError.exit_code if failed else 0
