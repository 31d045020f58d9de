"""``dualshield hash``: print plain hashes of images."""

from __future__ import annotations

from pathlib import Path

import click

from dualshield.cli.answers import echo_line, echo_object
from dualshield.cli.explain import printable
from dualshield.cli.inputs import IMAGE_PATH, image_inputs
from dualshield.cli.options import hash_option, json_option
from dualshield.errors import ImageError
from dualshield.hashes import get_hash, to_hex


@click.command("hash")
@click.argument("images", nargs=-1, required=True, type=IMAGE_PATH, metavar="IMG|FOLDER|-...")
@hash_option
@json_option
def hash_images(images: tuple[Path, ...], hash_name: str, as_json: bool) -> int:
    """Print the plain hash of each image: files, all images in folders, or standard input (-).

    A file that cannot be read is reported on stderr and does not stop the others; the exit code is then 2. With --json
    one image gives one object; several, or a folder, give one object per line.
    """
    inputs, many = image_inputs(images)
    hash_ = get_hash(hash_name)
    failed = 0
    for image in inputs:
        try:
            code = hash_.code(image.load().pixels)
        except ImageError as error:
            failed += 1
            click.echo(f"dualshield: {error}", err=True)
            continue
        row = {"file": image.name, "hash": hash_.name, "bits": hash_.bits, "hex": to_hex(code)}
        if not as_json:
            click.echo(f"{row['hex']}  {printable(image.name)}")
        elif many:
            echo_line(row)
        else:
            echo_object(row)
    return ImageError.exit_code if failed else 0
