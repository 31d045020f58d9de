"""``dualshield redteam``: how well the deployed defence holds on one's own images."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

import click
from rich.table import Table

from dualshield.attacks import transformations
from dualshield.attacks.budgets import COST_BUDGETS
from dualshield.attacks.methods import METHODS
from dualshield.attacks.pgd import NO_EOT
from dualshield.attacks.redteam import Plan, Rate, cost_of_evasion, run
from dualshield.attacks.transformations import TransformRate
from dualshield.cli.options import (
    deployment_options,
    deployment_parameters,
    hash_option,
    json_option,
    strength_option,
)
from dualshield.cli.output import console, progress
from dualshield.errors import ImageError, InputError
from dualshield.evaluation.plan.plan import label
from dualshield.images import list_images
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.variants import Variant


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--method", "methods", multiple=True, type=click.Choice(list(METHODS)), help="Repeat it.")
@click.option("--budget", "budgets", multiple=True, type=float, help="Repeat it; by default 40, 90 and 180.")
@click.option(
    "--against",
    "variants",
    multiple=True,
    type=click.Choice(get_args(Variant)),
    help="Repeat it.  [default: all but hardening]",
)
@click.option("--limit", type=int, help="Only the first images of each folder.")
@click.option(
    "--cost", is_flag=True, help="Find the cost of evasion by bisection over the budgets (by default 1 to 180)."
)
@click.option(
    "--journal",
    type=click.Path(path_type=Path),
    help="What is finished is kept here, and not repeated.  "
    "[default: redteam-HASH.journal, or redteam-HASH-transforms.journal]",
)
@click.option("--transforms", "only_transforms", is_flag=True, help="Transformations instead of attacks.")
@strength_option
@click.option("--seed", default=2026, show_default=True)
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@deployment_options
@hash_option
@json_option
def redteam(folders: tuple[Path, ...], hash_name: str, as_json: bool, **options: Any) -> None:
    """Attack every image of FOLDERS as published, and print success rates by variant, method and budget.

    With --hash A+B a match by any of the hashes is one: only what evades all of them counts.
    """
    if options["limit"] is not None and options["limit"] < 1:
        raise InputError(f"limit {options['limit']} is below 1")
    defaults = Plan(deploy(hash_name, device=options["device"], **deployment_parameters(options)))
    plan = replace(
        defaults,
        methods=options["methods"] or defaults.methods,
        budgets=tuple(sorted(set(options["budgets"]))) or (COST_BUDGETS if options["cost"] else defaults.budgets),
        variants=options["variants"] or defaults.variants,
        search=options["cost"],
        strength=options["strength"],
        seed=options["seed"],
    )
    files = [file for folder in folders for file in list_images(folder)[: options["limit"]]]
    if options["only_transforms"]:
        if options["methods"] or options["budgets"] or options["cost"]:
            raise InputError("--transforms has neither methods nor budgets")
        _transforms(plan, files, options["journal"], as_json)
        return
    journal = options["journal"] or Path(f"redteam-{label(plan.deployment)}.journal")
    skipped = _Skipped()
    with progress() as bar:
        task = bar.add_task("attacking", total=None)
        rates = run(
            plan,
            files,
            journal,
            lambda what, done, total: bar.update(task, description=what, completed=done, total=total),
            skipped,
        )
    if as_json:
        click.echo(json.dumps([asdict(rate) for rate in rates], indent=1))
        skipped.say()
        return
    table = Table("variant", "method", "budget", "images", "success", "abstained", "mean l2", "SSIM", "queries", "s")
    for rate in rates:
        table.add_row(
            rate.variant,
            rate.method,
            f"{rate.budget:g}",
            str(rate.images),
            f"{rate.success:.1%}",
            f"{rate.abstained:.1%}",
            *("-" if value is None else f"{value:{form}}" for value, form in _numbers(rate)),
        )
    console().print(table)
    if options["cost"]:
        for variant in plan.variants:
            for method in plan.methods:
                curve = [rate for rate in rates if (rate.variant, rate.method) == (variant, method)]
                click.echo(f"cost of evasion, {variant}, {method}: {_cost(curve)}")
    warnings = {warning for rate in rates for warning in rate.warnings}
    if "eot-pgd" in plan.methods:
        warnings.discard(NO_EOT)  # it was tried
    for warning in sorted(warnings):
        click.echo(f"warning: {warning}")
    click.echo(f"{_images(len(files) - skipped.count)}; finished attacks are in {click.format_filename(journal)}")
    skipped.say()


def _transforms(plan: Plan, files: list[Path], journal: Path | None, as_json: bool) -> None:
    journal = journal or Path(f"redteam-{label(plan.deployment)}-transforms.journal")
    skipped = _Skipped()
    with progress() as bar:
        task = bar.add_task("transforming", total=None)
        rates = transformations.run(
            plan.deployment,
            files,
            plan.variants,
            strength=plan.strength,
            seed=plan.seed,
            journal=journal,
            progress=lambda what, done, total: bar.update(task, description=what, completed=done, total=total),
            unreadable=skipped,
        )
    if as_json:
        click.echo(json.dumps([asdict(rate) for rate in rates], indent=1))
        skipped.say()
        return
    table = Table("transformation", *(f"evades {variant}" for variant in plan.variants), "SSIM")
    by_name: dict[str, list[TransformRate]] = {}
    for rate in rates:
        by_name.setdefault(rate.transform, []).append(rate)
    for name, found in by_name.items():
        shown = name if found[0].paper else f"{name} (extra)"
        table.add_row(shown, *(f"{rate.success:.1%}" for rate in found), f"{found[0].ssim:.3f}")
    console().print(table)
    click.echo(
        f"{_images(len(files) - skipped.count)}; abstentions count as evasions; "
        f"what is finished is in {click.format_filename(journal)}"
    )
    skipped.say()


class _Skipped:
    """Tells of files that cannot be read, and at the end how many they were."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, error: ImageError) -> None:
        self.count += 1
        click.echo(f"dualshield: skipped: {error}", err=True)

    def say(self) -> None:
        if self.count:
            click.echo(f"dualshield: {_images(self.count)} skipped", err=True)


def _images(count: int) -> str:
    return "1 image" if count == 1 else f"{count} images"


def _cost(curve: list[Rate]) -> str:
    cost = cost_of_evasion(curve)
    if cost is None:
        return f"above {curve[-1].budget:g} (less than half of the images evade)"
    return f"{'at most ' if cost == curve[0].budget else ''}{cost:.2f}"


def _numbers(rate: Rate) -> list[tuple[float | None, str]]:
    return [(rate.l2, ".2f"), (rate.ssim, ".3f"), (rate.queries, ".0f"), (rate.seconds, ".1f")]
