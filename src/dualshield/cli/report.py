"""``dualshield report``: tables, plots and a page from a run of the evaluation."""

from __future__ import annotations

from pathlib import Path

import click

from dualshield.cli.output import progress
from dualshield.evaluation.records import Run


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the report.  [default: RUN/report]")
def report(run: Path, out: Path | None) -> None:
    """Turn the results of RUN, finished or not, into tables (Markdown, CSV, LaTeX), plots and one HTML page."""
    from dualshield.evaluation.report import report as write  # matplotlib is slow to import

    opened = Run.open(run)
    with progress() as bar:
        task = bar.add_task("reading", total=None)
        page = write(opened, out or run / "report", lambda what: bar.update(task, description=what))
    click.echo(f"wrote {click.format_filename(page)}")
