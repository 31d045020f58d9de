"""``dualshield redteam``: measure how well the deployed defence resists attacks on your own images."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import click
from rich.table import Table

from dualshield.attacks.budgets import BUDGETS, COST_BUDGETS
from dualshield.attacks.methods import METHODS
from dualshield.attacks.pgd import NO_EOT
from dualshield.cli.answers import echo_lines
from dualshield.cli.evaluate import run_progress
from dualshield.cli.options import (
    deployment_options,
    deployment_parameters,
    hash_option,
    json_option,
    matcher_option,
    strength_option,
)
from dualshield.cli.output import console, counted
from dualshield.cli.paths import FilePath
from dualshield.cli.session import note
from dualshield.errors import InputError
from dualshield.evaluation.plan.interface import label
from dualshield.evaluation.plan.redteam import RedTeamPlan
from dualshield.evaluation.plan.variants import TRANSFORMS, usual_variants
from dualshield.evaluation.rates import Rate, TransformRate, attack_rates, cost_of_evasion, transform_rates
from dualshield.evaluation.run.records import Run
from dualshield.evaluation.run.run import run_plan
from dualshield.evaluation.transform_names import in_order, is_edit
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.variants import EXPLAINED, VIEWS, Variant


@click.command()
@click.argument("images", metavar="FOLDER|IMG...", nargs=-1, required=True, type=FilePath())
@click.option(
    "--method",
    "methods",
    multiple=True,
    type=click.Choice(list(METHODS)),
    help="Attack method; may be repeated.  [default: pgd and eot-pgd]",
)
@click.option(
    "--budget", "budgets", multiple=True, type=float, help="Largest l2; may be repeated.  [default: 40, 90, 180]"
)
@click.option(
    "--against",
    "variants",
    multiple=True,
    type=click.Choice(get_args(Variant)),
    help="Variant to attack; may be repeated. views is the plain hash with views, for --transforms only.  "
    "[default: original, smoothing and both; with --transforms also views, if the deployment has views]",
)
@click.option("--limit", type=int, help="Use only the first N images of each folder.")
@click.option(
    "--cost", is_flag=True, help="Find the cost of evasion by bisection over the budgets (by default 1 to 180)."
)
@click.option("--transforms", is_flag=True, help="Apply transformations instead of attacks.")
@click.option(
    "--out",
    "-o",
    type=FilePath(),
    help="Folder for the results of the run.  [default: redteam-HASH, or redteam-HASH-transforms]",
)
@click.option("--resume", is_flag=True, help="Continue the run in that folder; images may be added.")
@click.option("--jobs", "-j", default=1, show_default=True, help="Number of worker processes.")
@strength_option
@click.option("--seed", default=2026, show_default=True)
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@matcher_option()
@deployment_options
@hash_option
@json_option
def redteam(images: tuple[Path, ...], hash_name: str, as_json: bool, **options: Any) -> None:
    """Attack every image as published, and print success rates by variant, method and budget.

    With --hash A+B a pair matches if any of the hashes matches, so an evasion must evade all of them. The folder of the
    run keeps every single result; 'dualshield report' and 'dualshield compare' can read it.
    """
    plan = _plan(hash_name, options)
    default = f"redteam-{label(plan.deployment)}{'-transforms' if plan.transforms else ''}"
    out = options["out"] or Path(default)
    with run_progress() as show:
        summary = run_plan(plan, images, out, resume=options["resume"], jobs=options["jobs"], progress=show)
    run = Run.open(out)
    if plan.transforms:
        _show_transforms(plan, transform_rates(plan, run), as_json)
    else:
        _show_attacks(plan, attack_rates(plan, run), as_json)
    for warning in summary.warnings:
        note(f"warning: {warning}")
    if not as_json:
        click.echo(f"{counted(summary.images, 'image')}; every single result is in {click.format_filename(out)}")


def _plan(hash_name: str, options: dict[str, Any]) -> RedTeamPlan:
    methods, budgets = options["methods"], tuple(sorted(set(options["budgets"])))
    if options["transforms"] and (methods or budgets or options["cost"]):
        raise InputError("--transforms takes no --method, --budget or --cost; leave these out")
    deployment = deploy(hash_name, device=options["device"], **deployment_parameters(options))
    parts = (TRANSFORMS,) if options["transforms"] else ()
    return RedTeamPlan(
        deployment,
        methods=() if options["transforms"] else methods or ("pgd", "eot-pgd"),
        budgets=budgets or (COST_BUDGETS if options["cost"] else BUDGETS),
        variants=options["variants"] or usual_variants((deployment,), parts),
        search=options["cost"],
        strength=options["strength"],
        seed=options["seed"],
        transforms=options["transforms"],
        limit=options["limit"],
    )


def _show_attacks(plan: RedTeamPlan, rates: list[Rate], as_json: bool) -> None:
    if as_json:
        echo_lines(asdict(rate) for rate in rates)
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
    if plan.search:
        for variant in plan.variants:
            for method in plan.methods:
                curve = [rate for rate in rates if (rate.variant, rate.method) == (variant, method)]
                if curve:
                    click.echo(f"cost of evasion, {variant}, {method}: {_cost(curve)}")
    warnings = {warning for rate in rates for warning in rate.warnings}
    if "eot-pgd" in plan.methods:
        warnings.discard(NO_EOT)  # the warning asks for eot-pgd, which was run
    for warning in sorted(warnings):
        click.echo(f"warning: {warning}")


def _show_transforms(plan: RedTeamPlan, rates: list[TransformRate], as_json: bool) -> None:
    if as_json:
        echo_lines(asdict(rate) for rate in rates)
        return
    by_name: dict[str, dict[str, TransformRate]] = {}
    for rate in rates:
        by_name.setdefault(rate.transform, {})[rate.variant] = rate
    published = {rate.transform: rate.paper for rate in rates}
    for title, names in (
        ("The paper's transformations", [name for name, paper in published.items() if paper]),
        ("Everyday edits", in_order(name for name, paper in published.items() if is_edit(name, paper))),
    ):
        table = Table("transformation", *(f"evades {variant}" for variant in plan.variants), "SSIM")
        for name in names:
            found = by_name[name]
            shares = (f"{found[variant].success:.1%}" if variant in found else "-" for variant in plan.variants)
            table.add_row(name, *shares, f"{next(iter(found.values())).ssim:.3f}")
        if names:
            click.echo(title)
            console().print(table)
    if VIEWS in plan.variants:
        click.echo(f"original is the {EXPLAINED['original']}, views the {EXPLAINED[VIEWS]}")
    click.echo("abstentions count as evasions")


def _cost(curve: list[Rate]) -> str:
    cost = cost_of_evasion(curve)
    if cost is None:
        return f"above {curve[-1].budget:g} (less than half of the images evade)"
    return f"{'at most ' if cost == curve[0].budget else ''}{cost:.2f}"


def _numbers(rate: Rate) -> list[tuple[float | None, str]]:
    return [(rate.l2, ".2f"), (rate.ssim, ".3f"), (rate.queries, ".0f"), (rate.seconds, ".1f")]
