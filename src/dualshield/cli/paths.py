"""Paths on the command line. An empty one is refused: it usually comes from a shell variable that is not set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dualshield.errors import InputError


class FilePath(click.Path):
    """A path as a `Path`. Whether it exists and can be read is found out by whoever opens it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"path_type": Path, "readable": False, **options})

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; raise an error for an empty one."""
        if not str(value):
            what = param.human_readable_name if param is not None else "a path"
            raise InputError(f"{what} is an empty path; give the name of a file or a folder")
        return super().convert(value, param, ctx)
