"""``dualshield report``: make tables, plots and a page from evaluation runs."""

from __future__ import annotations

from pathlib import Path

import click

from dualshield.cli.output import progress
from dualshield.cli.paths import FilePath
from dualshield.evaluation.run.merge import merge
from dualshield.evaluation.run.records import Run


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=FilePath())
@click.option("--out", type=FilePath(), help="Folder for the report.  [default: RUN/report if one run]")
def report(runs: tuple[Path, ...], out: Path | None) -> None:
    """Turn the results of RUN, finished or not, into tables (Markdown, CSV, LaTeX), plots and one HTML page.

    Several runs with the same options on different images (evaluate --skip, or other folders) are reported as one.
    """
    from dualshield.evaluation.report.report import report as write  # matplotlib is slow to import

    if out is None and len(runs) > 1:
        raise click.UsageError("a report of several runs has no default folder: choose one with --out")
    opened = merge([Run.open(run) for run in runs])
    with progress() as bar:
        task = bar.add_task("reading", total=None)
        page = write(opened, out or runs[0] / "report", lambda what: bar.update(task, description=what))
    click.echo(f"wrote {click.format_filename(page)}")
