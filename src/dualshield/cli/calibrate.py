"""``dualshield calibrate``: measure a hash on photos and write its profile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from dualshield._common.rounding import up
from dualshield.calibration.calibrate import calibrate as run
from dualshield.calibration.measure import CalibrationPlan
from dualshield.cli.answers import echo_object
from dualshield.cli.options import engine_options, hash_option, json_option, outputs_of
from dualshield.cli.output import console, progress
from dualshield.cli.paths import FilePath
from dualshield.errors import InputError
from dualshield.hashes.registry import split_names
from dualshield.images import list_images
from dualshield.smoothing.deploy import as_hash
from dualshield.smoothing.exact.profile import ExactProfile
from dualshield.smoothing.preset import Preset
from dualshield.smoothing.profile import Profile
from dualshield.smoothing.profile_folder import place_for

PLAN = CalibrationPlan()


@click.command()
@hash_option
@click.option("--data", required=True, type=FilePath(), help="Folder of unrelated photos.")
@click.option(
    "--out",
    "-o",
    type=FilePath(),
    help="File of the profile; by default where every command finds it: beside a card, or in your profile folder.",
)
@click.option(
    "--grid",
    multiple=True,
    metavar="M:S,S,...",
    help="Noise levels S to try with low-pass M (or none); may be repeated.",
)
@click.option("--images", default=PLAN.images, show_default=True, help="Photos for collisions under noise.")
@click.option("--variant-images", default=PLAN.variant_images, show_default=True, help="Photos for benign variants.")
@click.option("--radius-images", default=PLAN.radius_images, show_default=True, help="Photos for certified radii.")
@click.option("--draws", default=PLAN.draws, show_default=True, help="Draws per certified radius.")
@click.option("--threshold", type=float, help="Largest bit error rate that matches; by default that of the hash.")
@click.option("--fpr", type=float, help="Choose the threshold that gives the plain hash this false-match rate.")
@click.option(
    "--views/--no-views",
    default=True,
    show_default=True,
    help="Also find the views with which edited copies are recognised (from 40 photos on).",
)
@click.option("--alpha", default=PLAN.alpha, show_default=True)
@click.option("--seed", default=PLAN.seed, show_default=True)
@engine_options
@json_option
def calibrate(hash_name: str, data: Path, as_json: bool, **options: Any) -> None:
    """Measure radii, benign variants and collisions on a grid of (low-pass, sigma), and choose the best.

    An interrupted run continues where it stopped: finished grid points are kept in OUT.journal until the profile is
    written.
    """
    hash_ = as_hash(hash_name)
    plan = _plan(options)
    fpr, threshold = options["fpr"], options["threshold"]
    if threshold is not None and fpr is not None:
        raise InputError("give either --threshold or --fpr, not both")
    out = options["out"] or place_for(hash_name)
    if not out.parent.is_dir():
        raise InputError(f"cannot write {out}: the folder {out.parent} does not exist; create it")
    if out.is_dir():
        raise InputError(f"cannot write {out}: it is a folder; give a file name")
    journal = out.with_name(out.name + ".journal")
    files = list_images(data)
    # A profile may be replaced; photos, cards and whatever is no regular file may not.
    outputs_of((*files, *split_names(hash_name)), overwrite=True).check(out, journal)
    with progress() as bar:
        task = bar.add_task("reading photos", total=min(len(files), plan.images))

        def photos() -> Iterator[Path]:
            for file in files:
                yield file
                bar.advance(task)

        profile = run(
            photos(),
            hash=hash_,
            plan=plan,
            threshold=threshold,
            fpr=fpr,
            journal=journal,
            progress=lambda what, done, total: bar.update(task, description=what, completed=done, total=total),
            unreadable=lambda error: click.echo(f"dualshield: skipped: {error}", err=True),
            **{name: options[name] for name in ("engine", "device", "batch_size", "views")},
        )
    profile.save(out)
    journal.unlink(missing_ok=True)
    if as_json:
        echo_object(profile.to_json())
    else:
        _show(profile, out)


def _plan(options: dict[str, Any]) -> CalibrationPlan:
    names = ("images", "variant_images", "radius_images", "draws", "alpha", "seed")
    changes: dict[str, Any] = {name: options[name] for name in names}
    if options["grid"]:
        changes["grid"] = tuple(_grid_row(text) for text in options["grid"])
    return CalibrationPlan(**changes)


def _grid_row(text: str) -> tuple[int | None, tuple[float, ...]]:
    lowpass, _, sigmas = text.partition(":")
    try:
        return None if lowpass == "none" else int(lowpass), tuple(float(sigma) for sigma in sigmas.split(","))
    except ValueError as error:
        raise InputError(f"grid {text!r} is not of the form M:S,S,... such as 32:0.8,1.6 or none:0.1,0.2") from error


def _show(profile: Profile, out: Path) -> None:
    table = Table(
        *("low-pass", "sigma", "threshold", "radius", "variants' radius", "variants matched"),
        *("collisions", "largest unrelated vote share"),
    )
    for point in profile.grid:
        rates = point.consensus
        chosen = (point.lowpass, point.sigma) == (profile.lowpass, profile.sigma)
        table.add_row(
            str(point.lowpass or "none"),
            f"{point.sigma:g}",
            f"{rates.threshold:.3f}",
            f"{rates.radius_identity:.3f}",
            f"{rates.radius_variants:.3f}",
            f"{rates.variants_matched:.1%}",
            f"{rates.collisions:.4%}",
            f"{rates.worst_unrelated:.2f}",
            style="bold" if chosen else None,
        )
    plain = profile.unprotected
    measured = [f"{plain.threshold:.3f}", "", "", f"{plain.variants_matched:.1%}", f"{plain.collisions:.4%}"]
    table.add_row("unprotected", "", *measured, "")
    console().print(table)
    most = up(100 * profile.measured["collisions_at_most"], 3)
    click.echo(
        f"collisions: {profile.measured['pairs']:,} pairs of unrelated images for each rate under noise; "
        f"at the chosen point the rate is at most {most} %, with 95 % confidence"
    )
    click.echo(
        f"chosen: low-pass {profile.lowpass or 'none'}, sigma up to {profile.sigma:g}, "
        f"votes within {profile.threshold:.3f}; "
        f"for bare codes low-pass {profile.external_lowpass or 'none'}, sigma {profile.external_sigma:g}"
    )
    if profile.exact is not None:
        _show_exact(profile.exact)
    for name, preset in profile.presets.items():
        _show_preset(name, preset)
    click.echo(f"written: {click.format_filename(out)}")


def _show_preset(name: str, preset: Preset) -> None:
    """Print what was found for a preset of views."""
    views = preset.views
    line = f"views {name}: {len(views.reference)} of the reference, {len(views.query)} of the query"
    if preset.threshold is not None and preset.second_threshold is not None:
        line += (
            f"; votes within {preset.threshold:.3f}, at the second sigma {preset.second_sigma:g} within "
            f"{preset.second_threshold:.3f}"
        )
    if preset.false_matches is not None:
        line += f"; collisions {preset.false_matches:.5%}"
    click.echo(line)


def _show_exact(exact: ExactProfile) -> None:
    """Print what was found for the exact matcher."""
    lowpass = exact.lowpass or "none"
    table = Table("sigma", "soft distance that matches", title="exact matcher", title_justify="left")
    for sigma, threshold in zip(exact.sigmas, exact.thresholds, strict=True):
        table.add_row(f"{sigma:g}", f"{threshold:.4f}")
    console().print(table)
    for what, rates in (("plain hash", exact.unprotected), ("exact", exact.deployed), ("bare codes", exact.external)):
        radius = "" if rates is exact.unprotected else f"mean radius {rates.radius:.2f}, "
        click.echo(
            f"{what}: {radius}{rates.variants_matched:.1%} of the transformed photos match, collisions "
            f"{rates.collisions:.5%}, nearest unrelated pair {rates.nearest:.3f}"
        )
    click.echo(
        f"exact: low-pass {lowpass}, each reference's sigma up to {max(exact.sigmas):g}; for bare codes sigma "
        f"{exact.external_sigma:g}, soft distance {exact.external_threshold:.4f}"
    )
