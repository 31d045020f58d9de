"""``dualshield attack``: attack one image, as an attacker would."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from dualshield.attacks.defence import Defence
from dualshield.attacks.methods import METHODS, get_attack
from dualshield.attacks.result import AttackBudget, AttackResult
from dualshield.cli.answers import echo_object
from dualshield.cli.options import (
    deployment_options,
    deployment_parameters,
    hash_option,
    json_option,
    matcher_option,
    outputs_of,
    strength_option,
)
from dualshield.cli.output import progress
from dualshield.cli.paths import FilePath
from dualshield.errors import InputError
from dualshield.hashes.registry import split_names
from dualshield.images import load_image
from dualshield.images.preview import preview_files
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.variants import Variant


@click.command()
@click.argument("reference", type=FilePath(path_type=str))
@click.argument("query", required=False, type=FilePath(path_type=str))
@click.option("--out", "-o", type=FilePath(), help="Write the adversarial image (PNG, 512x512) here.")
@click.option("--method", type=click.Choice(list(METHODS)), default="eot-pgd", show_default=True)
@click.option("--budget", default=40.0, show_default=True, help="Largest l2 change, 512x512x3 pixels in [0,1].")
@click.option("--against", type=click.Choice(get_args(Variant)), default="original", show_default=True)
@click.option("--preview", type=FilePath(), help="Write query, adversarial image and their difference as one PNG.")
@click.option("--overwrite", is_flag=True, help="Replace existing outputs, never inputs.")
@strength_option
@click.option("--seed", default=2026, show_default=True, help="Seed of the attack; the defender's noise is fresh.")
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@matcher_option()
@deployment_options
@hash_option
@json_option
def attack(reference: str, query: str | None, hash_name: str, as_json: bool, **options: Any) -> None:
    """Attack the match of QUERY (by default the published reference itself) with REFERENCE.

    With --against both the reference is hardened first, and without QUERY the attacker starts from the hardened
    image, the only one that was published. For collisions QUERY is an unrelated image. With --hash A+B an evasion must
    evade all hashes at once, and a collision with any of them counts.
    """
    budget = AttackBudget(options["budget"])
    method = options["method"]
    if method == "collision" and query is None:
        raise InputError("a collision needs a QUERY; give an unrelated image")
    out: Path | None = options["out"]
    preview: Path | None = options["preview"]
    outputs = outputs_of((reference, query, options["profile"], *split_names(hash_name)), options["overwrite"])
    outputs.check(out, preview)
    image = load_image(reference)
    start = None if query is None else load_image(query)
    deployment = deploy(hash_name, device=options["device"], **deployment_parameters(options))
    defence = Defence(deployment, options["against"], strength=options["strength"])
    with progress() as bar:
        task = bar.add_task(method, total=None)
        published = defence.publish(image)
        start = published if start is None else start
        result = get_attack(method)(
            defence.victim(published),
            start,
            budget,
            seed=options["seed"],
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    data = result.adversarial.to_png()
    if out is not None:
        outputs.write(out, data)
    if preview is not None:
        outputs.write(preview, preview_files(start.to_png(), data))
    record = {
        "reference": reference,
        "query": query or reference,
        "hash": hash_name,
        "against": options["against"],
        "output": None if out is None else str(out),
        **result.to_dict(),
        "deployment": deployment.digest,
    }
    if as_json:
        echo_object(record)
    else:
        click.echo(_explain(result, hash_name, options["against"]))


def _explain(result: AttackResult, hash_name: str, against: str) -> str:
    verdict = "SUCCEEDED" if result.success else "FAILED"
    lines = [
        f"{result.method} {verdict} against {hash_name} ({against}): the deployed matcher says {result.decision}",
        f"  l2 {result.l2:.2f} of {result.budget:g}, l_inf {255 * result.linf:.0f}/255, SSIM {result.ssim:.4f}",
        f"  {result.steps} steps, {result.queries} queries, {result.seconds:.1f} s",
    ]
    return "\n".join([*lines, *(f"  warning: {warning}" for warning in result.warnings)])
