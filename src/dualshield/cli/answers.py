"""How ``--json`` is printed: one object where one thing was asked about, else one object per line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import click


def echo_object(record: Mapping[str, Any]) -> None:
    """One answer, as one object that is easy to read."""
    click.echo(json.dumps(record, indent=1))


def echo_line(record: Mapping[str, Any]) -> None:
    """One of many answers, as one line."""
    click.echo(json.dumps(record))


def echo_lines(records: Iterable[Mapping[str, Any]]) -> None:
    """Many answers, one per line."""
    for record in records:
        echo_line(record)
