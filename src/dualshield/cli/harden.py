"""``dualshield harden``: make images that are harder to evade, and print the gain."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dualshield._common.rounding import down
from dualshield.cli.answers import echo_line, echo_object
from dualshield.cli.explain import printable
from dualshield.cli.options import (
    deployment_options,
    deployment_parameters,
    engine_options,
    hashes_option,
    json_option,
    matcher_option,
    strength_option,
)
from dualshield.cli.output import counted, duration, progress
from dualshield.cli.paths import FilePath
from dualshield.errors import ExitCode, InputError
from dualshield.hardening import gradient, paper
from dualshield.hardening.batch import Destination, Outcome, expand, harden_files
from dualshield.hardening.harden import DIRECT, Hardener
from dualshield.hashes.registry import split_names
from dualshield.images.publication import Publication
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.exact_matcher import DeployedExactMatcher
from dualshield.smoothing.noise import GaussianSource

DRY_RUN_STEPS = 2
DRY_RUN_DRAWS = 200


@click.command()
@click.argument("inputs", nargs=-1, required=True, metavar="IMG...", type=FilePath())
@click.option("--out", "-o", type=FilePath(path_type=str), help="Output file, or a folder for several images.")
@hashes_option("A hash; A+B, or repeat the option, to harden for several hashes at once.")
@click.option("--preset", type=click.Choice(["perceptual", "paper"]), default="perceptual", show_default=True)
@strength_option
@click.option("--format", "format_", type=click.Choice(["keep", "png", "jpeg"]), default="keep", show_default=True)
@click.option(
    "--quality", type=int, metavar="Q", help="Quality of lossy formats, 1 to 100; by default that of the original."
)
@click.option(
    "--negatives",
    type=FilePath(),
    help="Folder of unrelated images whose hashes the hardened image must not come near.",
)
@click.option("--preview", type=FilePath(), help="Write original, hardened image and their difference as one PNG.")
@click.option("--in-place", is_flag=True, help="Replace the originals; each is kept as NAME.original.")
@click.option("--overwrite", is_flag=True, help="Replace existing outputs, never inputs.")
@click.option("--dry-run", is_flag=True, help="Only estimate the time; write nothing.")
@click.option("--steps", type=int, help="Number of optimisation steps; by default that of the preset.")
@click.option(
    "--reference", "keep_references", is_flag=True, help="Write the reference of OUT beside it, as OUT.dsref."
)
@matcher_option("--method")
@deployment_options
@click.option("--seed", type=int, help="Reproducible noise, for experiments only.")
@engine_options
@json_option
def harden(inputs: tuple[Path, ...], hashes: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Add an imperceptible perturbation that moves images far from the matching boundary.

    The published file keeps size, format, metadata and colour profile; with another --format, give OUT its suffix. The
    radii are those of the original and of the written file, each matched with itself as the reference by the matcher
    that 'dualshield match' uses with the same options; --reference saves the reference of the file. With --json one
    image gives one object; several, or a folder, give one object per line. An interrupted run into a folder continues
    where it stopped.
    """
    out = options["out"]
    # A trailing slash means a folder; a Path would drop the slash.
    folder = out is not None and out.endswith("/")
    files = expand(inputs)
    many = len(inputs) > 1 or inputs[0].is_dir()
    if options["preview"] is not None and len(files) > 1:
        raise InputError("--preview shows one image; give a single image")
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
            bar.stop()  # printed lines must not mix with the bar
            _show(outcome, as_json, many)
            bar.start()
        bar.update(task, visible=False)
    if failures and len(files) > 1:
        click.echo(f"dualshield: {failures} of {len(files)} images failed", err=True)
    return ExitCode.BAD_INPUT if failures else ExitCode.DONE


def _read_besides(hashes: tuple[str, ...], profile: Path | None, negatives: Path | None) -> list[Path]:
    """Return the other files that are read, which must not be overwritten either."""
    cards = [Path(part) for name in hashes for part in split_names(name)]
    others = list(negatives.iterdir()) if negatives is not None and negatives.is_dir() else []
    return [*cards, *([] if profile is None else [profile]), *others]


def _show(outcome: Outcome, as_json: bool, many: bool) -> None:
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
        (echo_line if many else echo_object)(report.to_dict())
        return
    already = "  (finished earlier)" if outcome.skipped else ""
    click.echo(f"{click.format_filename(report.output or report.file)}{already}")
    click.echo(f"  certified radius     {report.radius_change}  ({report.hash})")
    if len(report.radii) > 1:
        for name, radii in report.radii.items():
            click.echo(f"    by {name:<17} {down(radii.before, 3)} -> {down(radii.after, 3)}")
    if report.noise_source is not None:  # an exact matcher has one radius
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


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _estimate(hardener: Hardener, files: list[Path], as_json: bool) -> None:
    """Print the estimated time, scaled up from a few steps and draws on the first image."""
    image = Publication.open(files[0]).canonical
    optimising = _seconds(lambda: hardener.perturb(image, steps=1))
    if hardener.strategy not in DIRECT:
        # The first call compiled the network, once for all images; a step takes the difference of two later calls.
        total = hardener.steps or (paper.STEPS if hardener.strategy == "paper" else gradient.STEPS)
        one, several = (_seconds(lambda n=steps: hardener.perturb(image, steps=n)) for steps in (1, 1 + DRY_RUN_STEPS))  # type: ignore[misc]
        optimising = one + (total - 1) * max(0.0, several - one) / DRY_RUN_STEPS
    certifying = 0.0
    for matcher in hardener.deployment.matchers:
        reference = matcher.enroll(image.pixels)
        enrolling = _seconds(lambda m=matcher: m.enroll(image.pixels))  # type: ignore[misc]
        if isinstance(matcher, DeployedExactMatcher):
            certifying += 2 * enrolling
            continue
        drawing = _seconds(
            lambda m=matcher, r=reference: m.count(r, image.pixels, DRY_RUN_DRAWS, GaussianSource.secret())  # type: ignore[misc]
        )
        certifying += 2 * (enrolling + drawing * matcher.config.most_votes / DRY_RUN_DRAWS)
    each = optimising + certifying
    found = {
        "images": len(files),
        "seconds_per_image": each,
        "seconds_certifying": certifying,
        "seconds": each * len(files),
    }
    if as_json:
        echo_object(found)
    else:
        click.echo(
            f"{counted(len(files), 'image')}, about {duration(each)} each ({duration(certifying)} of it for "
            f"certificates), {duration(each * len(files))} in all; nothing was written"
        )
