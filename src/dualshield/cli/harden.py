"""``dualshield harden``: publish images that are harder to evade, and say what that gained."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from dualshield._common.rounding import down
from dualshield.cli.options import (
    deployment_options,
    deployment_parameters,
    engine_options,
    hashes_option,
    json_option,
    strength_option,
)
from dualshield.cli.output import printable, progress
from dualshield.errors import ExitCode, InputError
from dualshield.hardening import gradient, paper
from dualshield.hardening.batch import Destination, Outcome, expand, harden_files
from dualshield.hardening.harden import Hardener
from dualshield.hashes.registry import split_names
from dualshield.images.publication import Publication
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.noise import GaussianSource

DRY_RUN_STEPS = 2
DRY_RUN_DRAWS = 200


@click.command()
@click.argument("inputs", nargs=-1, required=True, metavar="IMG...", type=click.Path(path_type=Path))
@click.option("--out", "-o", type=click.Path(path_type=str), help="A file, or a folder for many.")
@hashes_option("A+B, or repeat it, to harden for several hashes at once.")
@click.option("--preset", type=click.Choice(["perceptual", "paper"]), default="perceptual", show_default=True)
@strength_option
@click.option("--format", "format_", type=click.Choice(["keep", "png", "jpeg"]), default="keep", show_default=True)
@click.option("--quality", type=int, metavar="Q", help="Of lossy formats, 1 to 100; by default as in the original.")
@click.option("--negatives", type=click.Path(path_type=Path), help="A folder of unrelated images to keep away from.")
@click.option("--preview", type=click.Path(path_type=Path), help="Original, hardened and difference, as one PNG.")
@click.option("--in-place", is_flag=True, help="Replace the originals; each stays beside as NAME.original.")
@click.option("--overwrite", is_flag=True, help="Replace outputs that exist, never inputs.")
@click.option("--dry-run", is_flag=True, help="Estimate the time, write nothing.")
@click.option("--steps", type=int, help="Optimisation steps; by default the preset's.")
@click.option(
    "--reference", "keep_references", is_flag=True, help="Write the reference of OUT beside it, as OUT.dsref."
)
@deployment_options
@click.option("--seed", type=int, help="Reproducible noise, for experiments only.")
@engine_options
@json_option
def harden(inputs: tuple[Path, ...], hashes: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Add an imperceptible perturbation that moves images far from the matching boundary.

    The published file keeps size, format, metadata and colour profile; with another --format, name OUT after it. The
    radii are those of the original and of the file as written, each as its own reference, for the matcher that
    'dualshield match' has with the same options; with --reference that of the file is kept for it. With --json, one
    object per image and line. An interrupted run into a folder continues where it stopped.
    """
    out = options["out"]
    # A trailing slash says "folder", which a Path would forget.
    folder = out is not None and out.endswith("/")
    files = expand(inputs)
    if options["preview"] is not None and len(files) > 1:
        raise InputError("--preview shows one image; give a single one")
    destination = Destination(
        None if out is None else Path(out), options["in_place"], options["overwrite"], folder, "use --overwrite"
    )
    if (out is None) != options["in_place"]:
        raise InputError("give either -o OUT or --in-place")
    deployment = deploy(
        hashes,
        **deployment_parameters(options),
        **{name: options[name] for name in ("engine", "device", "batch_size")},
    )
    hardener = Hardener(
        deployment,
        preset=options["preset"],
        strength=options["strength"],
        steps=options["steps"],
        negatives_folder=options["negatives"],
    )
    if options["dry_run"]:
        _estimate(hardener, files, as_json)
        return ExitCode.DONE
    failures = 0
    with progress() as bar:
        whole = bar.add_task("images", total=len(files), visible=len(files) > 1)
        task = bar.add_task("hardening", total=None)
        for outcome in harden_files(
            hardener,
            files,
            destination,
            format=options["format_"],
            quality=options["quality"],
            preview=options["preview"],
            keep_references=options["keep_references"],
            reads=_read_besides(hashes, options["profile"], options["negatives"]),
            seed=options["seed"],
            progress=lambda what, done, total: bar.update(task, description=what, completed=done, total=total),
        ):
            bar.advance(whole)
            failures += outcome.error is not None
            _show(outcome, as_json)
    if failures and len(files) > 1:
        click.echo(f"dualshield: {failures} of {len(files)} images failed", err=True)
    return ExitCode.BAD_INPUT if failures else ExitCode.DONE


def _read_besides(hashes: tuple[str, ...], profile: Path | None, negatives: Path | None) -> list[Path]:
    """What is read but not hardened, and must not be overwritten either."""
    cards = [Path(part) for name in hashes for part in split_names(name)]
    others = list(negatives.iterdir()) if negatives is not None and negatives.is_dir() else []
    return [*cards, *([] if profile is None else [profile]), *others]


def _show(outcome: Outcome, as_json: bool) -> None:
    if outcome.error is not None:
        click.echo("dualshield: " + " ".join(outcome.error.split()), err=True)
        return
    report = outcome.report
    assert report is not None
    if report.radius_after <= 0:
        click.echo(
            f"dualshield: {printable(report.output or report.file)} does not certifiably match itself, so its "
            "reference would not be found: too little information for this noise, or too few draws; try a smaller "
            "--sigma, a larger --n, or another image",
            err=True,
        )
    if as_json:
        click.echo(json.dumps(report.to_dict()))
        return
    already = "  (finished earlier)" if outcome.skipped else ""
    click.echo(f"{click.format_filename(report.output or report.file)}{already}")
    click.echo(f"  certified radius     {report.radius_change}  ({report.hash})")
    if len(report.radii) > 1:
        for name, radii in report.radii.items():
            click.echo(f"    by {name:<17} {down(radii.before, 3)} -> {down(radii.after, 3)}")
    click.echo(f"  detected radius      {down(report.radius_detected, 3)}")
    if report.noise_source == "seeded":
        click.echo("  noise                SEEDED, for experiments: do not quote these radii for a deployment")
    if report.reference is not None:
        fingerprint = (report.reference_fingerprint or "")[:16]
        click.echo(f"  reference            {click.format_filename(report.reference)}  ({fingerprint})")
    click.echo(
        f"  SSIM {report.ssim:.4f}, PSNR {report.psnr:.1f} dB, l2 {report.l2:.2f}, l_inf {255 * report.linf:.0f}/255\n"
        f"  {report.steps} step{'' if report.steps == 1 else 's'} of preset {report.preset}, {report.seconds:.1f} s, "
        f"and {report.seconds_certifying:.1f} s to certify"
    )


def _estimate(hardener: Hardener, files: list[Path], as_json: bool) -> None:
    """Two steps and a few draws of the first image, scaled up."""
    image = Publication.open(files[0]).canonical
    started = time.perf_counter()
    _, taken = hardener.perturb(image, steps=DRY_RUN_STEPS)
    optimising = time.perf_counter() - started
    if hardener.strategy != "linear":
        total = hardener.steps or (paper.STEPS if hardener.strategy == "paper" else gradient.STEPS)
        optimising *= total / taken
    certifying = 0.0
    for matcher in hardener.deployment.matchers:
        started = time.perf_counter()
        reference = matcher.enroll(image.pixels)
        enrolling = time.perf_counter() - started
        started = time.perf_counter()
        matcher.count(reference, image.pixels, DRY_RUN_DRAWS, GaussianSource.secret())
        draws = matcher.config.n0 + matcher.config.n
        certifying += 2 * (enrolling + (time.perf_counter() - started) * draws / DRY_RUN_DRAWS)
    each = optimising + certifying
    found = {
        "images": len(files),
        "seconds_per_image": each,
        "seconds_certifying": certifying,
        "seconds": each * len(files),
    }
    if as_json:
        click.echo(json.dumps(found))
    else:
        click.echo(
            f"{len(files)} images, about {each:.0f} s each ({certifying:.0f} s of it for certificates), "
            f"{each * len(files) / 60:.0f} minutes in all; nothing was written"
        )
