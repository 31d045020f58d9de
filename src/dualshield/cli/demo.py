"""``dualshield demo``: show what DualShield does, on sample photos."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from dualshield._common.outputs import Outputs
from dualshield._common.rounding import down
from dualshield.attacks.defence import Defence
from dualshield.attacks.methods import get_attack
from dualshield.attacks.result import AttackBudget
from dualshield.cli.options import outputs_of
from dualshield.cli.output import console, progress
from dualshield.cli.paths import FilePath
from dualshield.cli.session import hint
from dualshield.errors import InputError, MissingError
from dualshield.hardening.harden import Hardener
from dualshield.images import CanonicalImage, load_image
from dualshield.images.preview import preview_files
from dualshield.images.samples import sample_photos
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.exact_matcher import DeployedExactMatcher
from dualshield.smoothing.result import AS_IT_IS, MatchResult
from dualshield.smoothing.statistics import Decision
from dualshield.smoothing.variants import Variant
from dualshield.transforms import parse

# Fewer draws for the network keep the demo short, but limit its radii a little. None: exact, without draws.
DEMO_HASHES: dict[str, int | None] = {"efflite": 1000, "pdq": None}
ATTACK_BUDGET = 10.0
ATTACKED: tuple[Variant, ...] = ("original", "both")
EDITS = ("jpeg-60", "border-0.08", "flip-1", "crop-0.8", "caption-bar-0.15")


@click.command()
@click.option(
    "--out",
    "-o",
    "folder",
    type=FilePath(file_okay=False),
    default="dualshield-demo",
    show_default=True,
    help="Folder for the pictures.",
)
@click.option("--overwrite", is_flag=True, help="Replace the pictures of an earlier demo.")
@click.option(
    "--hash", "only", type=click.Choice(list(DEMO_HASHES)), help="Only this hash; pdq is quick.  [default: both]"
)
def demo(folder: Path, overwrite: bool, only: str | None) -> None:
    """Show both shields on sample photos, for efflite and PDQ, and an attack that evades only the plain hash."""
    files = sample_photos()
    outputs = outputs_of(files, overwrite)
    hashes = {name: draws for name, draws in DEMO_HASHES.items() if only in (None, name)}
    _check(outputs, folder, hashes)
    photos = [replace(load_image(file), name=file.stem) for file in files[:3]]
    out = console()
    for name, draws in hashes.items():
        try:
            deployment = deploy(name, n=draws)
        except MissingError as error:
            out.print(f"{name}: skipped: {error}\n", highlight=False)
            continue
        _match(out, deployment, photos)
        # At the largest sigma for this photo, where hardening makes a visible difference to the certificate.
        hardened = deployment if draws is None else deploy(name, n=draws, sigma="auto")
        _harden(out, hardened, files[0], folder, outputs)
        if deployment.members[0].hash.has_small_network:
            _attack(out, deployment, files[0], folder, outputs)
    hint(
        "A plain hash decides by one distance, which an attacker moves at will. The smoothed matcher decides by what\n"
        "the hash says under noise. Both radii are l2 lengths on 512x512x3 pixels in [0,1]. For pdq this is computed\n"
        "exactly: no shorter change alters the decision, whatever the attacker knows. For a network it is a vote over\n"
        "noisy comparisons: inside the certified radius no attack turns the majority of votes to the other side, at\n"
        "most into an abstention; inside the detected radius this very matcher still gives the same answer, with\n"
        "probability 0.999. The paper's radius is 0.2993. Hardening changes a photo imperceptibly before it is\n"
        "published, and moves it still farther from the boundary."
    )


def _check(outputs: Outputs, folder: Path, hashes: Iterable[str]) -> None:
    """Raise an error before any work if a picture cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write pictures into {folder}: {error.strerror}; choose another folder") from error
    for name in hashes:
        outputs.check(_hardening(folder, name), *(_attacked(folder, name, against) for against in ATTACKED))


def _hardening(folder: Path, name: str) -> Path:
    return folder / f"hardening-{name}.png"


def _attacked(folder: Path, name: str, against: Variant) -> Path:
    return folder / f"attack-{name}-{against}.png"


def _match(out: Console, deployment: Deployment, photos: list[CanonicalImage]) -> None:
    photo = photos[0]
    variants = [CanonicalImage(parse(name)(photo.pixels), f"its {name}") for name in EDITS]
    queries = [photo, *variants, *photos[1:]]
    reference = deployment.enroll(photo)
    (matcher,) = deployment.matchers
    hash_, lowpass = matcher.hash, matcher.hash.lowpass
    shown = "no low-pass" if lowpass is None else f"low-pass {lowpass}x{lowpass}"
    table = Table(
        "query",
        "plain distance",
        "plain hash",
        "smoothed",
        "certified radius",
        "detected radius",
        "votes",
        "views that matched",
        "seconds",
        title=f"{hash_.name} ({hash_.bits} bits), reference: {photo.name}; sigma {reference.sigma:g}, {shown}, "
        f"{'exact' if isinstance(matcher, DeployedExactMatcher) else f'{matcher.engine.name} engine'}",
        title_justify="left",
    )
    with progress() as bar:
        for query in bar.track(queries, description=hash_.name):
            threshold = deployment.members[0].hash.threshold
            table.add_row(*_row(deployment.match(reference, query), photo.name, threshold))
    out.print(table)
    out.print()


def _harden(out: Console, deployment: Deployment, file: Path, folder: Path, outputs: Outputs) -> None:
    hardener, name = Hardener(deployment), deployment.name
    with progress() as bar:
        task = bar.add_task("hardening", total=None)
        image = hardener.harden(
            file, progress=lambda what, done, total: bar.update(task, description=what, completed=done, total=total)
        )
    picture = _hardening(folder, name)
    outputs.write(picture, preview_files(str(file), image.data))
    found = image.report
    how = " (--sigma auto)" if deployment.draws_noise else ""
    out.print(
        f"{file.stem} hardened for {name}{how}: certified radius {found.radius_change}; "
        f"SSIM {found.ssim:.3f}, {found.seconds:.1f} s; see {picture}\n",
        highlight=False,
        soft_wrap=True,
    )


def _attack(out: Console, deployment: Deployment, file: Path, folder: Path, outputs: Outputs) -> None:
    """Run our strongest attack, with the same budget, against the plain hash and against both shields."""
    name, verdicts = deployment.name, []
    for against in ATTACKED:
        defence = Defence(deployment, against)
        published = defence.publish(load_image(file))
        result = get_attack("eot-pgd")(defence.victim(published), published, AttackBudget(ATTACK_BUDGET))
        verdicts.append((against, result))
        outputs.write(_attacked(folder, name, against), preview_files(published.to_png(), result.adversarial.to_png()))
    for against, result in verdicts:
        target = f"plain {name}" if against == "original" else f"DualShield ({name}, hardened and smoothed)"
        fate = "evades" if result.success else "is caught by"
        out.print(
            f"adaptive attack of l2 {ATTACK_BUDGET:g}: {fate} {target}; SSIM {result.ssim:.3f}, {result.seconds:.1f} s",
            highlight=False,
            soft_wrap=True,
        )
    out.print()


def _views(result: MatchResult) -> str:
    """Return how query and reference were looked at where they matched."""
    if result.decision is not Decision.MATCH:
        return ""
    views = (("query", result.member.query_view), ("reference", result.member.reference_view))
    return "; ".join(f"{side} {view}" for side, view in views if view != AS_IT_IS)


def _row(result: MatchResult, photo: str, plain_threshold: float) -> list[str]:
    return [
        "the same photo" if result.query == photo else result.query,
        f"{result.member.distance:.3f}",
        "match" if result.member.distance <= plain_threshold else "no match",
        result.decision.value.replace("_", " "),
        down(result.radius, 3),
        down(result.radius_detected, 3),
        "exact" if result.member.soft_distance is not None else f"{result.member.votes}/{result.member.draws}",
        _views(result),
        f"{result.seconds:.2f}",
    ]
