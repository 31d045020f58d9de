"""``dualshield hashes``: list the hashes, and what is missing to use them."""

from __future__ import annotations

import re

import click
from rich.table import Table

from dualshield.cli.answers import echo_lines
from dualshield.cli.options import json_option
from dualshield.cli.output import console
from dualshield.hashes import HashState, list_hashes


@click.command()
@json_option
def hashes(as_json: bool) -> None:
    """List the known hashes with their state."""
    states = list_hashes()
    if as_json:
        rows = [
            {
                "hash": s.name,
                "ready": s.ready,
                "state": s.state,
                "detail": s.detail,
                **(s.description or {}),
            }
            for s in states
        ]
        echo_lines(rows)
        return
    table = Table("hash", "state", "bits", "input", "threshold", "about")
    for s in states:
        if (row := s.description) is not None:
            table.add_row(s.name, s.state, str(row["bits"]), row["input"], f"{row['threshold']:g}", s.detail)
        else:
            table.add_row(s.name, s.state, "", "", "", _what_to_do(s))
    console().print(table)


def _what_to_do(state: HashState) -> str:
    """Return a short hint how to get the weights; the JSON output and the error have the full text."""
    names = re.findall(r"dualshield weights import (\S+) FILE", state.detail)
    if state.state != "needs weights" or not names:
        return state.detail
    which = " or ".join(names)
    return f"{which}: 'dualshield weights list' says where to get it, then dualshield weights import NAME FILE"
