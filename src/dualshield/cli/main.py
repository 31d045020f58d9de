"""``dualshield``: the group of commands, and the one place where errors become exit codes."""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from io import TextIOWrapper
from typing import Any, TextIO

import click
from click.shell_completion import CompletionItem

from dualshield._common.allocator import keep_freed_memory
from dualshield._version import __version__
from dualshield.cli.session import QUIET, VERBOSE, session_options, with_session_options
from dualshield.errors import DualShieldError, ExitCode

INTERRUPTED = 130
# What the menu says; each command is in the file of its name and says the rest.
COMMANDS = {
    "hashes": "List the known hashes with their state.",
    "hash": "Print the plain hash of each image.",
    "match": "Decide whether two images match, and certify the decision.",
    "harden": "Make images hard to evade before they are published.",
    "attack": "Attack one match.",
    "redteam": "Attack every image of folders, and print success rates.",
    "evaluate": "Measure a hash and its shields on your images, as the paper does.",
    "report": "Turn a measured run into tables, plots and a page.",
    "compare": "Compare two measured runs.",
    "calibrate": "Find the best noise for a hash on your images.",
    "verify": "Certify without noise and votes, where the network allows it.",
    "weights": "Get, import and verify the trained weights of hashes.",
    "demo": "Show both shields on sample photos.",
    "doctor": "Check this installation, and say what is missing.",
    "completion": "Print the script that completes commands in your shell.",
}
# These have to work where the user's settings do not.
WITHOUT_SETTINGS = ("doctor", "completion")


class ErrorOutput(logging.Handler):
    """Log lines on what is stderr at that moment; only ours, other libraries' stay silent."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"dualshield: {record.getMessage()}", file=sys.stderr)


class ClosedOutput(TextIOWrapper):
    """Stands in for a stdout that is closed: a stream that cannot be written."""


class Commands(click.Group):
    """Loads a command when it is called: torch takes seconds, and so do the statistics of reports.

    Interruptions are left to ``main``; click would add a blank line, or exit with 1.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        with _interrupted_at_once():
            found = vars(import_module(f"dualshield.cli.{cmd_name}")).values()
        command = next(value for value in found if isinstance(value, click.Command) and value.name == cmd_name)
        return with_session_options(command, reads_settings=cmd_name not in WITHOUT_SETTINGS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Without loading all commands for what the menu says of them."""
        names = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise click.Abort from error
        except BrokenPipeError as error:
            # The reader of our output went away (`| head`): nothing left to say.
            _drop_output()
            raise click.exceptions.Exit(ExitCode.DONE) from error


@click.group(
    cls=Commands,
    params=list(session_options()),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="dualshield")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Perceptual-hash matching that is hard to evade, with certified l2 radii.

    Exit codes: 0 done, 1 the condition asked for with --fail-on-..., 2 bad input or usage, 3 missing weights or
    dependency. Defaults for hash, profile, engine and threads can be set in a file dualshield.toml ('dualshield doctor'
    says where) or in the environment.
    """
    logger = logging.getLogger("dualshield")
    level = logging.ERROR if ctx.meta.get(QUIET) else logging.INFO if ctx.meta.get(VERBOSE) else logging.WARNING
    logger.setLevel(level)
    logger.handlers[:] = [ErrorOutput()]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit; every expected error is one line on stderr."""
    try:
        _replace_closed_streams()
        keep_freed_memory()
        code = cli.main(args=arguments, prog_name="dualshield", standalone_mode=False)
        sys.stdout.flush()
    except DualShieldError as error:
        sys.exit(_fail(str(error), error.exit_code))
    except click.exceptions.Abort:
        sys.exit(_fail("interrupted", INTERRUPTED))
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(ExitCode.BAD_INPUT)
    except click.ClickException as error:
        hint = f" (see dualshield {_command(error)}--help)" if isinstance(error, click.UsageError) else ""
        sys.exit(_fail(error.format_message() + hint, ExitCode.BAD_INPUT))
    except KeyboardInterrupt:
        sys.exit(_fail("interrupted", INTERRUPTED))
    except MemoryError:
        sys.exit(_fail("out of memory; try a smaller --batch-size or image", ExitCode.BAD_INPUT))
    except BrokenPipeError:
        _drop_output()
        sys.exit(ExitCode.DONE)
    except OSError as error:
        closed = isinstance(sys.stdout, ClosedOutput) and error.errno == errno.EBADF
        _drop_output()
        what = "standard output is closed, and there is something to print; open it" if closed else str(error)
        sys.exit(_fail(f"cannot read or write: {what}", ExitCode.BAD_INPUT))
    sys.exit(code if isinstance(code, int) else ExitCode.DONE)


def _fail(message: str, code: int) -> int:
    line = " ".join(message.split())
    # Names from outside may hold what a terminal acts on.
    print("dualshield: " + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line), file=sys.stderr)
    return code


def _replace_closed_streams() -> None:
    """Python has no stream where the shell closed one (``>&-``), and the next file to be opened would take its number.

    A closed stderr swallows what it is told; a closed stdout fails as soon as something is printed.
    """
    # Typed as never missing, which they are only where nobody closed them.
    streams: dict[str, TextIO | None] = {"stdout": sys.stdout, "stderr": sys.stderr}
    if streams["stdout"] is None:
        sys.stdout = ClosedOutput(os.fdopen(os.open(os.devnull, os.O_RDONLY), "wb"))
    if streams["stderr"] is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


@contextmanager
def _interrupted_at_once() -> Iterator[None]:
    """For imports, which may swallow a KeyboardInterrupt and go on, and have nothing to clean up."""
    before = signal.getsignal(signal.SIGINT)
    # Others may have chosen to ignore interruptions (nohup), and only the main thread can be told.
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(_fail("interrupted", INTERRUPTED)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _drop_output() -> None:
    """What is still buffered for a stdout that takes no more goes nowhere, also at shutdown."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _command(error: click.UsageError) -> str:
    context = error.ctx
    return f"{context.command.name} " if context is not None and context.parent is not None else ""
