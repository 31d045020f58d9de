"""Print results as text for people; ``--json`` output is printed by `answers`."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dualshield.cli.session import is_quiet

PLAIN_WIDTH = 140


class Output(Console):
    """A console that raises BrokenPipeError for ``main`` to handle; rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console() -> Console:
    """Return a console on standard output, wide enough for tables if it is not a terminal."""
    # No markup: rich would read [neuralhash] in dualshield[neuralhash] as a style and drop it.
    return Output(markup=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)


class Bar(Progress):
    """A progress bar that prints nothing when disabled; rich before 14.3 ends it with an empty line."""

    def stop(self) -> None:
        if not self.disable:
            super().stop()


def progress() -> Progress:
    """Return a progress bar on stderr; it is hidden with --quiet, or if stderr is not a terminal."""
    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=is_quiet() or not sys.stderr.isatty(),
    )


def counted(number: int, what: str) -> str:
    """Return a number with its noun: ``1 image``, ``2 images``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Return a time in seconds, minutes or hours."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
