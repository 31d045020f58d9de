"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from dualshield._common.outputs import Outputs
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


def profile_option(command: Command) -> Command:
    """``--profile FILE``."""
    return click.option(
        "--profile", type=click.Path(path_type=Path), help="A profile of 'dualshield calibrate', of one hash."
    )(command)


def deployment_options(command: Command) -> Command:
    """What a deployment has beside its hash: profile, rule, noise and draws."""
    for option in (
        click.option("--n", type=int, metavar="N", help="Draws per certificate.  [default: 5000]"),
        click.option("--sigma", type=Sigma(), metavar="S|auto", help="Noise level; auto: chosen for each reference."),
        click.option("--lowpass", metavar="M|none", help="Low-pass the canonical image to M x M first."),
        click.option("--noise", metavar="linear|clipped", help="Gaussian noise as it is, or clipped to valid pixels."),
        click.option("--reference-mode", metavar="code|bank|paired", help="What each vote compares with."),
        click.option("--rule", metavar="hamming|native", help="By bits, or as the authors do."),
        profile_option,
    ):
        command = option(command)
    return command


def deployment_parameters(options: dict[str, Any]) -> dict[str, Any]:
    """These options, as `deploy` takes them."""
    names = ("n", "sigma", "noise", "reference_mode", "rule", "profile")
    found = {name: options[name] for name in names}
    if found["noise"] not in (None, "linear", "clipped"):
        raise InputError(f"unknown noise {found['noise']!r}: use linear or clipped")
    if options["lowpass"] is not None:
        found["lowpass"] = _lowpass(options["lowpass"])
    return found


def _lowpass(text: str) -> int | None:
    if text.lower() == "none":
        return None
    try:
        return int(text)
    except ValueError as error:
        raise InputError(f"low-pass {text!r} is neither a whole number nor none") from error


def outputs_of(reads: Iterable[str | os.PathLike[str] | None], overwrite: bool) -> Outputs:
    """The rule for what a command with ``--overwrite`` writes, by the names of all that it reads."""
    return Outputs(tuple(Path(name) for name in reads if name is not None), overwrite, "use --overwrite")


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
