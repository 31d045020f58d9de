"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from dualshield.errors import InputError
from dualshield.hashes import DEFAULT_HASH

# Where one hash is used for everything, it need not be named in every command.
HASH_VARIABLE = "DUALSHIELD_HASH"

Command = TypeVar("Command", bound=Callable[..., Any])


def hash_option(command: Command) -> Command:
    """``--hash NAME|CARD``."""
    return click.option(
        "--hash",
        "hash_name",
        default=DEFAULT_HASH,
        envvar=HASH_VARIABLE,
        show_default=True,
        metavar="NAME|CARD.yaml",
        help="A name from 'dualshield hashes', or a hash card.",
    )(command)


def hashes_option(help_: str) -> Callable[[Command], Command]:
    """``--hash``, which may be repeated."""
    return click.option(
        "--hash",
        "hashes",
        multiple=True,
        default=(DEFAULT_HASH,),
        envvar=HASH_VARIABLE,
        show_default=True,
        metavar="NAME|CARD.yaml",
        help=help_,
    )


def json_option(command: Command) -> Command:
    """``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="JSON on stdout, and nothing else there.")(command)


def strength_option(command: Command) -> Command:
    """``--strength`` of hardening."""
    return click.option(
        "--strength",
        default=1.0,
        show_default=True,
        help="Of hardening: 1 is imperceptible; up to 4, and then it is not.",
    )(command)


def engine_options(command: Command) -> Command:
    """``--engine``, ``--device`` and ``--batch-size``."""
    for option in (
        click.option("--batch-size", type=int, metavar="N", help="Draws per batch; by default what suits the hash."),
        click.option("--device", default="cpu", show_default=True, help="cpu or cuda."),
        click.option(
            "--engine", default="auto", show_default=True, metavar="auto|openvino|torch", help="Forward engine."
        ),
    ):
        command = option(command)
    return command


class Sigma(click.ParamType[float | str]):
    """A number, or ``auto``."""

    name = "sigma"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        if value == "auto":
            return "auto"
        try:
            return float(value)
        except ValueError as error:
            raise InputError(f"sigma {value!r} is neither a number nor auto") from error
