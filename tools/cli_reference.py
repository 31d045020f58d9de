"""Writes docs/cli.md from the commands themselves, and what commands print into the pages that show it.

    python -m tools.cli_reference

A page shows what the program prints in blocks marked ``console``: lines that begin with ``$`` are commands, the others
their output. All blocks of a page are run in one folder, in their order; `desk` says what is in it at the start. Tests
compare the reference and the output with what the program says now.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import re
import runpy
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
from PIL import Image

from dualshield.cli.main import cli, main
from dualshield.images.samples import sample_photos

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "cli.md"
HEAD = """\
# Command line

<!-- Written by tools/cli_reference.py; run `python -m tools.cli_reference` after a change of the commands. -->

Every command, every option. `dualshield COMMAND --help` prints the same. The [tutorial](tutorial.md) shows the commands
at work.

"""
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SCRIPT = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# What click adds to the help of an option.
FACTS = re.compile(r"\[((?:env var|default|required)\b[^\]]*|[^\]]*<=?x[^\]]*)\]$")
# What differs from run to run: times, and how far the votes of a run were apart.
TIMES = re.compile(r"\b\d+(\.\d+)? m?s\b")
# The noise is secret, so radii below their ceiling and distances differ a little.
VOTES = re.compile(r"\b\d+\.\d{3} -> \d+\.\d{3}")


def commands(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Yield a command and all commands below it, in the order of the menu."""
    # A wide page, so that no default is broken into two lines.
    wide = {**command.context_settings, "max_content_width": 10_000, "terminal_width": 10_000}
    context = click.Context(command, parent=parent, info_name=name.split()[-1], **wide)
    yield name, command, context
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            if not found.hidden:
                yield from commands(found, f"{name} {below}", context)


def option(parameter: click.Parameter, context: click.Context) -> str | None:
    """One line of the list; None for what help does not show."""
    record = parameter.get_help_record(context)
    if record is None or not isinstance(parameter, click.Option):
        return None
    names, text = record
    text = " ".join(text.split())
    bracket = FACTS.search(text)
    text = (text[: bracket.start()] if bracket else text).strip().rstrip(".")
    parts = [text] if text else []
    for fact in bracket[1].split("; ") if bracket else []:
        key, _, value = fact.partition(": ")
        labels = {"env var": "Environment variable", "default": "Default"}
        parts.append(f"{labels[key]}: `{value}`" if key in labels else fact.capitalize())
    return f"- `{names}`" + (f": {'. '.join(parts)}." if parts else "")


def section(name: str, command: click.Command, context: click.Context) -> str:
    """Heading, usage, help and options of one command."""
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    paragraphs = inspect.cleandoc(command.help or "").replace("\b\n", "").split("\n\n")
    help_ = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    found = [option(parameter, context) for parameter in command.get_params(context)]
    options = "\n".join(line for line in found if line is not None)
    return f"{'#' * min(3, 1 + len(name.split()))} {name}\n\n```text\n{usage}\n```\n\n{help_}\n\n{options}\n"


def reference() -> str:
    """The whole page."""
    return HEAD + "\n".join(section(*found) for found in commands(cli, "dualshield"))


def pages() -> list[Path]:
    """Those with output in them."""
    found = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]
    return [file for file in found if CONSOLE.search(file.read_text(encoding="utf-8"))]


def desk(folder: Path) -> None:
    """Two photos, and what somebody uploads: one of them at half its size, saved as JPEG 70."""
    for file in sample_photos():
        if file.name in ("coffee.png", "rocket.jpg"):
            (folder / file.name).write_bytes(file.read_bytes())
    with Image.open(folder / "coffee.png") as image:
        image.convert("RGB").resize((image.width // 2, image.height // 2)).save(folder / "upload.jpg", quality=70)


def run(line: str) -> str:
    """What a command prints, in this process; its scripts are files of the folder it is run in."""
    given = shlex.split(line)
    words = [word for one in given for word in (sorted(map(str, Path().glob(one))) if "*" in one else [one])]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        match words:
            case ["dualshield", *arguments]:
                with contextlib.suppress(SystemExit):
                    main(arguments)
            case ["python", script]:
                runpy.run_path(script, run_name="__main__")
            case _:
                raise ValueError(f"what is {line!r}?")
    return printed.getvalue()


def with_output(text: str, folder: Path) -> str:
    """The page as it should be: every command followed by what it prints, in a folder that has its scripts."""
    desk(folder)
    for name, body in SCRIPT.findall(text):
        (folder / name).write_text(body, encoding="utf-8")

    def block(found: re.Match[str]) -> str:
        lines = [line for line in found[1].splitlines() if line.startswith("$ ")]
        shown = "".join(f"{line}\n{run(line.removeprefix('$ '))}" for line in lines)
        # Blank lines at the end of the last output would look like a mistake.
        return f"```console\n{shown.rstrip()}\n```"

    before = Path.cwd()
    os.chdir(folder)
    try:
        return CONSOLE.sub(block, text)
    finally:
        os.chdir(before)


def same(text: str) -> str:
    """Without what differs from run to run."""
    return VOTES.sub("V -> V", TIMES.sub("T s", text))


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
    print(PAGE)
    only = sys.argv[1:]
    for shown_on in pages():
        if only and shown_on.name not in only:
            continue
        old = shown_on.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as scratch:
            new = with_output(old, Path(scratch))
        if same(new) != same(old):
            shown_on.write_text(new, encoding="utf-8")
            print(shown_on)
