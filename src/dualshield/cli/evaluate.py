"""``dualshield evaluate``: run the paper's evaluation on your own hash and images."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from dualshield.cli.options import hashes_option, matcher_option, profile_option, views_option
from dualshield.cli.output import counted, duration, progress
from dualshield.cli.paths import FilePath
from dualshield.cli.session import hint, note
from dualshield.evaluation.evaluate import evaluate as run
from dualshield.evaluation.plan.plan import PARTS
from dualshield.evaluation.plan.protocol import PROTOCOLS
from dualshield.evaluation.run.run import Progress
from dualshield.smoothing.variants import VARIANTS

# Seconds between progress lines if stderr is not a terminal.
REPORT_EVERY = 60


@click.command()
@click.option("--data", multiple=True, required=True, type=FilePath(), help="Folder of images; may be repeated.")
@hashes_option("A hash; may be repeated. A+B is two hashes that decide together.")
@click.option(
    "--variants",
    help="Which shields are up, separated by commas: original is the plain hash, views the plain hash with views, "
    f"hardening alone is possible too.  [default: {','.join(VARIANTS)}, and views if the deployment has views]",
)
@click.option("--parts", default=",".join(PARTS), show_default=True)
@click.option("--protocol", type=click.Choice(list(PROTOCOLS)), default="default", show_default=True)
@profile_option
@views_option
@matcher_option("--method")
@click.option("--limit", type=int, help="Use the first N images of each folder.  [default: the protocol's 100]")
@click.option("--skip", default=0, show_default=True, help="Skip the first N images of each folder.")
@click.option("--attack-limit", type=int, help="Attack only the first N images of each folder.  [default: all]")
@click.option("--seed", default=2026, show_default=True)
@click.option("--out", "-o", required=True, type=FilePath(), help="Folder for the results of the run.")
@click.option("--resume", is_flag=True, help="Continue the run in that folder; the limits may be larger than before.")
@click.option(
    "--keep-images", is_flag=True, help="Keep all published and attacked images, not only a few for the report."
)
@click.option(
    "--manifest",
    type=FilePath(),
    help="A CSV file of dataset, file and sha256: measure these images only, and stop if one differs.",
)
@click.option("--jobs", "-j", type=int, help="Number of worker processes.  [default: one per core]")
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
def evaluate(
    data: tuple[Path, ...], hashes: tuple[str, ...], out: Path, resume: bool, jobs: int | None, **options: Any
) -> None:
    """Measure certificates, attacks, transformations, collisions and image quality, and keep every single result.

    The protocol 'paper' uses the paper's matcher and hardening, the default protocol the deployed ones. An interrupted
    run loses at most the result it was working on. `dualshield report RUN` makes tables and plots of the results.
    """
    variants = options.pop("variants")
    with run_progress() as show:
        summary = run(
            data,
            out,
            hash=hashes,
            variants=None if variants is None else _names(variants),
            parts=_names(options.pop("parts")),
            resume=resume,
            jobs=jobs,
            progress=show,
            method=options.pop("matcher"),
            **options,
        )
    for warning in summary.warnings:
        note(f"warning: {warning}")
    unmatched = f"; {summary.unmatched} are of pairs that did not match before the attack" if summary.unmatched else ""
    where = click.format_filename(summary.folder)
    click.echo(f"{counted(summary.images, 'image')}, {counted(summary.records, 'result')} in {where}{unmatched}")
    hint(f"next: dualshield report {where}")


def _names(text: str) -> tuple[Any, ...]:
    """Split a list at commas; the plan checks the names."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


@contextmanager
def run_progress() -> Iterator[Progress]:
    """Yield a progress function: a bar on a terminal, else a line every minute."""
    if not sys.stderr.isatty():
        yield _lines(time.monotonic)
        return
    with progress() as bar:
        task = bar.add_task("reading", total=None)

        def show(what: str, done: int, total: int, left: float | None) -> None:
            rest = "" if left is None else f"  ({duration(left)} left)"
            bar.update(task, description=what + rest, completed=done, total=total)

        yield show


def _lines(clock: Callable[[], float]) -> Progress:
    last = clock()

    def show(what: str, done: int, total: int, left: float | None) -> None:
        nonlocal last
        if clock() - last < REPORT_EVERY:
            return
        last = clock()
        rest = "" if left is None else f", about {duration(left)} left"
        note(f"{done} of {total} pieces{rest}: {what}")

    return show
