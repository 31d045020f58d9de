"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click
from click.core import ParameterSource

from dualshield._common.outputs import Outputs
from dualshield._common.settings import VARIABLES, Setting
from dualshield.cli.paths import FilePath
from dualshield.cli.session import SettingOption, note, setting_of
from dualshield.errors import InputError
from dualshield.hashes.registry import CARD_SUFFIXES, DEFAULT_HASH, split_names
from dualshield.smoothing.names import Method

Command = TypeVar("Command", bound=Callable[..., Any])


class HashOption(SettingOption):
    """``--hash``; a card in a settings file is relative to that file."""

    def from_file(self, found: Setting) -> Any:
        return (hash_setting(found),) if self.multiple else hash_setting(found)


class ProfileOption(SettingOption):
    """``--profile``; one from the settings belongs to the hash of the settings, and to no other."""

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        value, source = super().consume_value(ctx, opts)
        if source not in (ParameterSource.ENVIRONMENT, ParameterSource.DEFAULT_MAP) or ctx.resilient_parsing:
            return value, source
        given = opts.get("hash_name") or opts.get("hashes")
        usual = default_hash(ctx)
        if given is None or given in (usual, [usual], (usual,)):
            return value, source
        note(f"the profile {value} of your settings is left out, since --hash names another hash than {usual}")
        return None, ParameterSource.DEFAULT

    def from_file(self, found: Setting) -> Any:
        _tell_if_local("profile", found)
        return found.beside(str(found.value))


def default_hash(ctx: click.Context) -> str:
    """The hash of a call that names none."""
    found = os.environ.get(VARIABLES["hash"])
    if found:
        return found
    setting = setting_of(ctx, "hash")
    return DEFAULT_HASH if setting is None else hash_setting(setting, tell=False)


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # too long, or with a zero byte
        return False


def hash_setting(found: Setting, *, tell: bool = True) -> str:
    """The hash or hashes that a settings file names."""
    from dualshield.hashes.external.card import runs_code

    value = str(found.value)
    if tell:
        _tell_if_local("hash", found)
    parts = [value] if _is_file(found.beside(value)) else split_names(value)
    cards = {part: found.beside(part) for part in parts if part.lower().endswith(CARD_SUFFIXES)}
    # Whoever gives us a folder of images must not have us run what lies beside them.
    for card in cards.values() if found.is_local else ():
        if runs_code(Path(card)):
            raise InputError(
                f"{found.file}: the hash card {card} runs a program or a TorchScript model, which settings in the "
                "current folder may not do; if you trust it, use --hash or your own settings"
            )
    return "+".join(cards.get(part, part) for part in parts)


def _tell_if_local(name: str, found: Setting) -> None:
    """What results mean depends on it, and the user may not know of the file."""
    if found.is_local:
        note(f"{name} {found.value} is set by {found.file} in this folder")


def hash_option(command: Command) -> Command:
    """``--hash NAME|CARD``."""
    return click.option(
        "--hash",
        "hash_name",
        cls=HashOption,
        setting="hash",
        default=DEFAULT_HASH,
        show_default=True,
        metavar="NAME|CARD.yaml",
        help="A name from 'dualshield hashes', or a hash card.",
    )(command)


def hashes_option(help_: str) -> Callable[[Command], Command]:
    """``--hash``, which may be repeated."""
    return click.option(
        "--hash",
        "hashes",
        cls=HashOption,
        setting="hash",
        multiple=True,
        default=(DEFAULT_HASH,),
        show_default=True,
        metavar="NAME|CARD.yaml",
        help=help_,
    )


def json_option(command: Command) -> Command:
    """``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout and nothing else.")(command)


def strength_option(command: Command) -> Command:
    """``--strength`` of hardening."""
    return click.option(
        "--strength",
        default=1.0,
        show_default=True,
        help="Strength of hardening, up to 4; 1 is meant to be imperceptible, more is visible.",
    )(command)


def engine_options(command: Command) -> Command:
    """``--engine``, ``--device`` and ``--batch-size``."""
    for option in (
        click.option(
            "--batch-size", type=int, metavar="N", help="Votes computed at once; by default what suits the hash."
        ),
        click.option("--device", default="cpu", show_default=True, help="cpu or cuda."),
        click.option(
            "--engine",
            cls=SettingOption,
            setting="engine",
            default="auto",
            show_default=True,
            metavar="auto|openvino|torch",
            help="What runs the network: OpenVINO or torch; auto takes the faster one.",
        ),
    ):
        command = option(command)
    return command


def profile_option(command: Command) -> Command:
    """``--profile FILE``."""
    return click.option(
        "--profile",
        cls=ProfileOption,
        setting="profile",
        type=FilePath(),
        help="A profile written by 'dualshield calibrate' for this hash.",
    )(command)


def matcher_option(*names: str) -> Callable[[Command], Command]:
    """``--matcher exact|votes``; ``names`` are further names of it."""
    return click.option(
        "--matcher",
        *names,
        "matcher",
        type=click.Choice(get_args(Method)),
        help="How queries are decided: exact (the default of pdq and other hashes that are linear up to a threshold) "
        "or by votes. Options of votes, such as --n, select votes.",
    )


def deployment_options(command: Command) -> Command:
    """What a deployment has beside its hash: profile, rule, noise and draws."""
    for option in (
        click.option("--n", type=int, metavar="N", help="Votes per certificate.  [default: 5000]"),
        click.option(
            "--sigma",
            type=Sigma(),
            metavar="S|auto",
            help="Standard deviation of the noise; auto chooses the best one for each reference.",
        ),
        click.option(
            "--lowpass",
            metavar="M|none",
            help="Resize the canonical image to M x M and back first; none switches the profile's low-pass off.",
        ),
        click.option(
            "--noise",
            metavar="linear|clipped",
            help="Gaussian noise as it is, or clipped to valid pixel values (the paper).",
        ),
        click.option(
            "--reference-mode",
            metavar="code|bank|paired",
            help="What each vote compares with: one code, a bank of noisy codes, or a fresh noisy code (the paper).",
        ),
        click.option(
            "--rule",
            metavar="hamming|native",
            help="How codes are compared: hamming counts differing bits, native uses the rule of the hash's authors.",
        ),
        views_option,
        profile_option,
    ):
        command = option(command)
    return command


def views_option(command: Command) -> Command:
    """``--views none|standard|thorough|FILE``."""
    return click.option(
        "--views",
        metavar="none|standard|thorough|FILE.json",
        help="In how many ways images are looked at, so that framed, cropped, mirrored or turned copies are found.  "
        "[default: standard, where the profile has it]",
    )(command)


def deployment_parameters(options: dict[str, Any]) -> dict[str, Any]:
    """These options, as `deploy` takes them."""
    names = ("n", "sigma", "noise", "reference_mode", "rule", "profile", "views")
    found = {name: options[name] for name in names} | {"method": options["matcher"]}
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


if TYPE_CHECKING:
    _SigmaType = click.ParamType[float | str]
else:
    _SigmaType = click.ParamType  # which takes no type before click 8.4


class Sigma(_SigmaType):
    """A number, or ``auto``."""

    name = "sigma"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        if value == "auto":
            return "auto"
        try:
            return float(value)
        except ValueError as error:
            raise InputError(f"sigma {value!r} is neither a number nor auto") from error
