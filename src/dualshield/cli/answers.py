"""Print ``--json`` output: one indented object for a single result, one object per line for several."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import click


def echo_object(record: Mapping[str, Any]) -> None:
    """Print a single result as an indented object."""
    click.echo(json.dumps(record, indent=1))


def echo_line(record: Mapping[str, Any]) -> None:
    """Print one of several results on one line."""
    click.echo(json.dumps(record))


def echo_lines(records: Iterable[Mapping[str, Any]]) -> None:
    """Print several results, one per line."""
    for record in records:
        echo_line(record)
