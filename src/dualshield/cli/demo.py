"""``dualshield demo``: what DualShield does, on photos everybody has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from dualshield.attacks.methods import Defence, get_attack
from dualshield.attacks.result import Budget
from dualshield.attacks.victim import Against
from dualshield.cli.output import console, progress
from dualshield.errors import InputError, MissingError
from dualshield.files import write_atomically
from dualshield.hardening.harden import Hardener
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.images import CanonicalImage, load_image
from dualshield.images.preview import preview_files
from dualshield.images.samples import sample_photos
from dualshield.smoothing.matcher import MatchResult, SmoothedMatcher
from dualshield.smoothing.profile import default_config
from dualshield.transforms import Transform

# Fewer draws for the network, so that the demo ends soon; its radii are capped a little lower for it.
DEMO_HASHES = {"efflite": 1000, "pdq": 5000}
ATTACK_BUDGET = 10.0
VARIANTS = (Transform("jpeg", 60), Transform("brightness", 1.15), Transform("crop", 0.9))


@click.command()
@click.option(
    "--out",
    "-o",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default="dualshield-demo",
    show_default=True,
    help="Where the pictures go.",
)
def demo(folder: Path) -> None:
    """Show both shields on sample photos, for efflite and PDQ, and an attack that only a plain hash lets pass."""
    files = sample_photos()
    photos = [replace(load_image(file), name=file.stem) for file in files[:3]]
    out = console()
    for name, draws in DEMO_HASHES.items():
        try:
            hash_ = get_hash(name)
        except MissingError as error:
            out.print(f"{name}: skipped: {error}\n", highlight=False)
            continue
        _match(out, hash_, photos, draws)
        _harden(out, name, files[0], draws, folder)
        if hash_.is_light:
            _attack(out, name, files[0], folder)
    out.print(
        "A plain hash decides by one distance, which an attacker moves at will. The smoothed matcher decides by a\n"
        "vote over noisy comparisons: inside the certified l2 radius (512x512x3 pixels in [0,1]) no attack whatsoever\n"
        "can change its decision. The paper's radius is 0.2993; try --paper with 'dualshield match'. Hardening\n"
        "changes a photo imperceptibly before it is published, and moves it still farther from the boundary.",
        highlight=False,
    )


def _match(out: Console, hash_: PerceptualHash, photos: list[CanonicalImage], draws: int) -> None:
    config = replace(default_config(hash_.name), n=draws)
    matcher = SmoothedMatcher(hash_, config)
    photo = photos[0]
    variants = [CanonicalImage(v(photo.pixels), f"its {v.name}") for v in VARIANTS]
    queries = [photo, *variants, *photos[1:]]
    reference = matcher.enroll(photo)
    lowpass = "no low-pass" if config.lowpass is None else f"low-pass {config.lowpass}x{config.lowpass}"
    table = Table(
        "query",
        "plain distance",
        "plain hash",
        "smoothed",
        "certified radius",
        "votes",
        "seconds",
        title=f"{hash_.name} ({hash_.bits} bits), reference: {photo.name}; sigma {reference.sigma:g}, {lowpass}, "
        f"{matcher.engine.name} engine",
        title_justify="left",
    )
    with progress() as bar:
        for query in bar.track(queries, description=hash_.name):
            table.add_row(*_row(matcher.match(reference, query), photo.name, hash_.threshold))
    out.print(table)
    out.print()


def _harden(out: Console, name: str, file: Path, draws: int, folder: Path) -> None:
    hardener = Hardener([name], n=draws)
    with progress() as bar:
        task = bar.add_task("hardening", total=None)
        image = hardener.harden(
            file, progress=lambda what, done, total: bar.update(task, description=what, completed=done, total=total)
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write pictures into {folder}: {error.strerror}; give another -o") from error
    picture = folder / f"hardening-{name}.png"
    write_atomically(picture, preview_files(str(file), image.data))
    found = image.report
    out.print(
        f"{file.stem} hardened for {name} (--sigma auto): certified radius {found.radius_change}; "
        f"SSIM {found.ssim:.3f}, {found.seconds:.1f} s; see {picture}\n",
        highlight=False,
        soft_wrap=True,
    )


def _attack(out: Console, name: str, file: Path, folder: Path) -> None:
    """The strongest attack we have, with the same budget against the plain hash and against both shields."""
    verdicts = []
    variants: tuple[Against, ...] = ("original", "ours")
    for against in variants:
        defence = Defence(name, against)
        published = defence.publish(load_image(file))
        result = get_attack("eot-pgd")(defence.victim(published), published, Budget(ATTACK_BUDGET))
        verdicts.append((against, result))
        picture = folder / f"attack-{name}-{against}.png"
        write_atomically(picture, preview_files(published.to_png(), result.adversarial.to_png()))
    for against, result in verdicts:
        who = f"plain {name}" if against == "original" else f"DualShield ({name}, hardened and smoothed)"
        fate = "evades" if result.success else "is caught by"
        out.print(
            f"adaptive attack of l2 {ATTACK_BUDGET:g}: {fate} {who}; SSIM {result.ssim:.3f}, {result.seconds:.1f} s",
            highlight=False,
            soft_wrap=True,
        )
    out.print()


def _row(result: MatchResult, photo: str, plain_threshold: float) -> list[str]:
    return [
        "the same photo" if result.query == photo else result.query,
        f"{result.distance:.3f}",
        "match" if result.distance <= plain_threshold else "no match",
        result.decision.value.replace("_", " "),
        f"{result.radius:.3f}",
        f"{result.votes}/{result.draws}",
        f"{result.seconds:.2f}",
    ]
