"""``dualshield compare``: show what got better or worse between two runs."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table

from dualshield.cli.answers import echo_object
from dualshield.cli.explain import printable
from dualshield.cli.options import json_option
from dualshield.cli.output import console
from dualshield.cli.paths import FilePath
from dualshield.evaluation.compare import Figure, Line
from dualshield.evaluation.compare import compare as compare_runs
from dualshield.evaluation.run.records import Run


@click.command()
@click.argument("first", metavar="RUN1", type=FilePath())
@click.argument("second", metavar="RUN2", type=FilePath())
@json_option
def compare(first: Path, second: Path, as_json: bool) -> None:
    """Compare two runs of `dualshield evaluate`, metric by metric, with 95 % intervals.

    "Better" and "worse" are from the defender's point of view. Images in both runs are compared pair by pair.
    """
    found = compare_runs(Run.open(first), Run.open(second))
    if as_json:
        echo_object(found.to_dict())
        return
    for note in found.notes:
        click.echo(f"note: {printable(note)}")
    table = Table("hash", "variant", "metric", "RUN1", "RUN2", "pairs", "difference", "verdict")
    for line in found.lines:
        table.add_row(
            printable(line.hash),
            printable(line.variant),
            printable(line.metric),
            _figure(line.first),
            _figure(line.second),
            str(line.pairs),
            "-" if line.difference is None else f"{line.difference:+.4g}{_chance(line)}",
            line.verdict,
        )
    console().print(table)
    click.echo("rates: Wilson, McNemar (or Fisher); means: bootstrap over images; each line at 95 % by itself")


def _figure(figure: Figure | None) -> str:
    if figure is None:
        return "-"
    interval = "" if figure.low is None else f" [{figure.low:.3g}, {figure.high:.3g}]"
    return f"{figure.value:.4g}{interval} of {figure.images}"


def _chance(line: Line) -> str:
    if line.p is not None:
        return f" (p {line.p:.2g})"
    return "" if line.interval is None else f" [{line.interval[0]:+.3g}, {line.interval[1]:+.3g}]"
