"""``dualshield verify``: a deterministic certificate, for hashes with small networks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from dualshield._common.rounding import down
from dualshield.cli.answers import echo_object
from dualshield.cli.options import json_option
from dualshield.cli.output import progress
from dualshield.cli.paths import FilePath
from dualshield.verification import Verification
from dualshield.verification import verify as verify_image
from dualshield.verification.verify import TOLERANCE


@click.command()
@click.argument("image", metavar="IMG", type=FilePath())
@click.option("--hash", "hash_name", default="c-pdq", show_default=True, metavar="c-pdq|c-pdna", help="Hash to verify.")
@click.option("--norm", default="l2", show_default=True, metavar="l2|linf", help="Norm of the perturbations.")
@click.option(
    "--space",
    default="canonical",
    show_default=True,
    metavar="canonical|input",
    help="Whether to perturb the 512x512 pixels, or the network's own input.",
)
@click.option(
    "--rule",
    default="native",
    show_default=True,
    metavar="native|hamming",
    help="What must not change: the match by the authors' rule, or by the bit error rate.",
)
@click.option(
    "--tolerance",
    default=TOLERANCE,
    show_default=True,
    help="Find the radius up to this factor of the largest provable one.",
)
@json_option
def verify(image: Path, hash_name: str, as_json: bool, **options: Any) -> None:
    """Certify, without noise and votes, how far IMG can be changed before its plain hash stops matching.

    Computes bounds of the whole network (CROWN), for the hashes that were trained for it. Takes minutes.
    """
    with progress() as bar:
        task = bar.add_task("first bounds", total=None)
        result = verify_image(
            image,
            hash_name,
            progress=lambda done, radius, certified: bar.update(
                task,
                completed=done,
                description=f"radius {radius:.4g} {'certified' if certified else 'not certified'}",
            ),
            **options,
        )
    if as_json:
        echo_object(result.to_dict())
    else:
        click.echo(_explain(result))


def _explain(result: Verification) -> str:
    where = "512x512 pixels in [0,1]" if result.space.startswith("canonical") else "the network's own input"
    upload = "" if result.radius_upload is None else f" ({_proven(result.radius_upload)} in the upload's own pixels)"
    lines = [
        f"{click.format_filename(result.image)}  {result.hash}, {result.rule} rule: a distance below {result.limit:g}"
    ]
    if result.radius > 0:
        lines += [
            f"  certified radius     {_proven(result.radius)} in {result.norm} on {where}{upload}",
            f"                       nothing within that is farther from its hash than {result.distance_bound:g}",
        ]
    else:
        lines.append(f"  certified radius     none down to {result.next_radius:.1g}")
    lines.append(
        f"  not certified from   {result.next_radius:.4g} on; {result.evaluations} bounds, {result.seconds:.1f} s"
    )
    return "\n".join(lines)


def _proven(radius: float) -> str:
    """Return a radius with four digits, rounded down."""
    return down(radius, 3 - math.floor(math.log10(radius)))
