"""``dualshield weights``: manage trained weights that are not shipped with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dualshield._common.folders import weights_folder
from dualshield.cli.answers import echo_lines, echo_object
from dualshield.cli.options import json_option
from dualshield.cli.output import progress
from dualshield.cli.paths import FilePath
from dualshield.cli.session import hint
from dualshield.cli.weights_fit import fit
from dualshield.errors import ExitCode
from dualshield.hashes.import_weights import fetch_weights, import_weights
from dualshield.weights import StoredWeights, WeightState, states, verify


@click.group()
def weights() -> None:
    """Get, import and verify the trained weights of hashes.

    One folder has all weights with their sha256: 'dualshield weights path' prints it, DUALSHIELD_WEIGHTS changes it.
    """


weights.add_command(fit)


@weights.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the weight files of the hashes: whether each is imported, and where its authors publish it."""
    found = states()
    if as_json:
        echo_lines(_row(state) for state in found)
        return
    for state in found:
        weight = state.weight
        size = "" if weight.megabytes is None else f", {weight.megabytes} MB"
        # No table: it would cut addresses that users copy.
        click.echo(f"{weight.name}  [{_word(state)}]  for hash {weight.hash}{size}, licence: {weight.licence}")
        click.echo(f"    {weight.file}  {weight.address or weight.command or 'not published'}")
        if weight.note:
            click.echo(f"    {weight.note}")
    hint(
        "Import a file: dualshield weights import WEIGHTS FILE; or download it, if the address is that of a file: "
        "dualshield weights fetch WEIGHTS"
    )


@weights.command()
def path() -> None:
    """Print the folder of the weights."""
    click.echo(click.format_filename(weights_folder()))


@weights.command("import")
@click.argument("name")
@click.argument("file", type=FilePath())
@json_option
def import_(name: str, file: Path, as_json: bool) -> None:
    """Check that FILE is the weights NAME (see 'weights list') and save a copy of it."""
    _tell(import_weights(name, file), as_json)


@weights.command("fetch")
@click.argument("name")
@json_option
def fetch_(name: str, as_json: bool) -> None:
    """Download the weights NAME from their authors and import them."""
    with progress() as bar:
        task = bar.add_task(name, total=None)
        stored = fetch_weights(name, lambda done, total: bar.update(task, completed=done, total=total))
    _tell(stored, as_json)


@weights.command("verify")
@json_option
def verify_(as_json: bool) -> int:
    """Compare every imported file with its sha256; the exit code is 3 if a file is changed or missing."""
    found = verify()
    if as_json:
        echo_lines(_row(state) for state in found)
    else:
        for state in found:
            click.echo(f"{state.weight.name}: {state.problem or 'unchanged since import'}")
        if not found:
            click.echo(f"no weights in {click.format_filename(weights_folder())}")
    return ExitCode.MISSING if any(state.problem for state in found) else ExitCode.DONE


def _word(state: WeightState) -> str:
    if state.problem is not None:
        return "damaged"
    return "absent" if state.stored is None else "imported"


def _row(state: WeightState) -> dict[str, Any]:
    weight, stored = state.weight, state.stored
    return {
        "weights": weight.name,
        "hash": weight.hash,
        "state": _word(state),
        "file": weight.file,
        "address": weight.address,
        "licence": weight.licence,
        "note": weight.note,
        "megabytes": weight.megabytes,
        "stored": None if stored is None else str(stored.path),
        "sha256": weight.sha256 if stored is None else stored.sha256,
        "problem": state.problem,
    }


def _tell(stored: StoredWeights, as_json: bool) -> None:
    weight = stored.weight
    if as_json:
        echo_object(_row(WeightState(weight, stored)))
        return
    click.echo(f"{weight.name} is imported: {click.format_filename(stored.path)}")
    click.echo(f"  sha256 {stored.sha256}, licence: {weight.licence}")
    click.echo(f"  use it with --hash {weight.hash}")
