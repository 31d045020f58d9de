"""What holds for a whole call, whichever command it is of: how much it says, how many threads, the user's settings.

The options stand before the command or behind it: ``dualshield --quiet match ...``, ``dualshield match ... --quiet``.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource

from dualshield._common.settings import MAX_THREADS, VARIABLES, Setting, load_settings

# In the context's meta, which a command shares with the group.
QUIET, VERBOSE, THREADS, SETTINGS = (f"dualshield.{name}" for name in ("quiet", "verbose", "threads", "settings"))


class SettingOption(click.Option):
    """An option that takes what the user has set where it is not given: in the environment, then in the files."""

    def __init__(self, *arguments: Any, setting: str, **options: Any) -> None:
        super().__init__(*arguments, **{"envvar": VARIABLES[setting], "show_envvar": True, **options})
        self.setting = setting

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        value, source = super().consume_value(ctx, opts)
        if source is ParameterSource.DEFAULT and not ctx.resilient_parsing:
            found = setting_of(ctx, self.setting)
            if found is not None:
                return self.from_file(found), ParameterSource.DEFAULT_MAP
        return value, source

    def from_file(self, found: Setting) -> Any:
        """The option's value for what stands in a file."""
        return found.value


def setting_of(ctx: click.Context, name: str) -> Setting | None:
    """What the files set; they are read once, when a command first asks."""
    if SETTINGS not in ctx.meta:
        ctx.meta[SETTINGS] = load_settings()
    found: Setting | None = ctx.meta[SETTINGS].get(name)
    return found


def session_options(of_command: bool = False) -> list[click.Option]:
    """The options that the group and every command have; those of a command know the user's settings."""
    threads: dict[str, Any] = {
        "type": click.IntRange(1, MAX_THREADS),
        "metavar": "N",
        "expose_value": False,
        "callback": _threads,
        "show_default": "all cores",
        "help": "CPU threads.",
    }
    names = ["--threads"]
    return [
        SettingOption(names, setting="threads", **threads) if of_command else click.Option(names, **threads),
        _flag("-q", "--quiet", QUIET, "Only the result and errors: no progress, no hints, no warnings."),
        _flag("-v", "--verbose", VERBOSE, "Log what the library does (stderr)."),
    ]


def with_session_options(command: click.Command, *, reads_settings: bool = True) -> click.Command:
    """The command, or all commands of a group, with these options."""
    if isinstance(command, click.Group):
        for each in command.commands.values():
            with_session_options(each, reads_settings=reads_settings)
    known = {param.name for param in command.params}
    is_leaf = not isinstance(command, click.Group)
    command.params += [option for option in session_options(is_leaf and reads_settings) if option.name not in known]
    return command


def is_quiet() -> bool:
    """Whether only results and errors are wanted."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(QUIET))


def hint(text: str) -> None:
    """Something useful that is no result."""
    if not is_quiet():
        click.echo(text)


def note(text: str) -> None:
    """One line on stderr that is no error."""
    if not is_quiet():
        click.echo(f"dualshield: {text}", err=True)


def _flag(short: str, long: str, key: str, help_: str) -> click.Option:
    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            ctx.meta[key] = True
            if ctx.meta.get(QUIET) and ctx.meta.get(VERBOSE):
                raise click.UsageError("give either --quiet or --verbose, not both", ctx)
            logging.getLogger("dualshield").setLevel(logging.ERROR if key == QUIET else logging.INFO)

    # Before all others, which may have something to say.
    return click.Option([short, long], is_flag=True, is_eager=True, expose_value=False, callback=remember, help=help_)


def _threads(ctx: click.Context, param: click.Parameter, value: int | None) -> None:
    if ctx.resilient_parsing:
        return
    if isinstance(ctx.command, click.Group):
        if value is not None:
            ctx.meta[THREADS] = value
        return
    given = ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
    number = value if given else ctx.meta.get(THREADS, value)
    if number is None:
        return
    # Not every command needs torch, which is slow to load; when it is loaded, it reads the variable.
    os.environ["OMP_NUM_THREADS"] = str(number)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(number)
