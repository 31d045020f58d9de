"""The command line as a whole: usage, help, and how every way of failing ends."""

from __future__ import annotations

import ast
import errno
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

import dualshield
from dualshield.cli.main import COMMANDS, cli, main
from dualshield.cli.output import progress
from dualshield.cli.session import hint, note
from dualshield.errors import ImageError, InputError, MissingDependencyError, MissingWeightsError
from tests.helpers.command_line import complaint, run

REFERENCE = Path(__file__).parents[2] / "docs" / "cli.md"
SCRIPT = Path(sys.executable).with_name("dualshield")


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("dualshield.cli.hashes.list_hashes", fail)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_documented(name: str) -> None:
    assert re.search(rf"\bdualshield {name}\b", REFERENCE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_on_stdout(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(name, "-h") == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"Usage: dualshield {name}")
    assert err == ""


def test_nothing_waits_for_what_it_does_not_use() -> None:
    """Torch takes seconds to load, and so do the statistics of reports."""
    script = (
        "import sys; from dualshield.cli.main import cli; cli(['--help'], standalone_mode=False);"
        "loaded = ['torch'] * ('torch' in sys.modules); assert cli.get_command(None, 'match').name == 'match';"
        "sys.exit(loaded + [name for name in ('scipy.stats', 'matplotlib') if name in sys.modules] or None)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_menu_lists_every_command() -> None:
    """Each is the command of its file's name; other files hold what commands share."""
    folder = Path(dualshield.__file__).parent / "cli"
    names = {file.stem for file in folder.glob("*.py") if f"``dualshield {file.stem}``" in file.read_text("utf-8")}
    assert names == set(COMMANDS)


@pytest.mark.parametrize("package", ["dualshield", "dualshield.attacks"])
def test_every_public_name_is_there(package: str) -> None:
    """In a new process, where no module has been imported under a name that was meant for something else."""
    module = import_module(package)
    stub = ast.parse(Path(str(module.__file__)).with_suffix(".pyi").read_text(encoding="utf-8"))
    promised = next(ast.literal_eval(node.value) for node in stub.body if isinstance(node, ast.Assign))
    script = (
        f"import {package} as package; names = {promised!r}; assert set(names) <= set(dir(package)), dir(package);"
        "[getattr(package, name) for name in names]"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_deployed_is_public_and_what_it_is_made_of_is_not() -> None:
    assert {"Deployment", "Reference", "deploy", "evaluate", "match"} <= set(dir(dualshield))
    assert not {"EnsembleMatcher", "SmoothedMatcher", "default_config"} & set(dir(dualshield))


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert dualshield.__version__ in capsys.readouterr().out


def test_without_arguments_the_help_is_shown_readably(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Usage: dualshield ")
    lines = err.splitlines()
    for name in COMMANDS:
        assert any(line.strip().startswith(f"{name} ") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "named", "command"),
    [
        (["frobnicate"], "frobnicate", ""),
        (["--frobnicate"], "--frobnicate", ""),
        (["hash"], "IMG", "hash "),
        (["match"], "REF", "match "),
        (["match", "a.png"], "QUERY", "match "),
        (["match", "a.png", "b.png", "c.png"], "c.png", "match "),
        (["match", "a.png", "b.png", "--frobnicate"], "--frobnicate", "match "),
        (["calibrate"], "--data", "calibrate "),
        (["hashes", "extra"], "extra", "hashes "),
        (["demo", "--json"], "--json", "demo "),
    ],
)
def test_wrong_usage_is_one_line_that_points_to_the_help(
    arguments: list[str], named: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    line = complaint(capsys)
    assert named in line
    assert f"(see dualshield {command}--help)" in line


def test_an_option_without_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("match", "a.png", "b.png", "--sigma") == 2
    assert "--sigma" in complaint(capsys)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("some parameter"), 2),
        (ImageError("some image"), 2),
        (MissingDependencyError("some package"), 3),
        (MissingWeightsError("some weights"), 3),
    ],
)
def test_deliberate_errors_become_their_exit_code(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(monkeypatch, error)
    assert run("hashes") == code
    assert complaint(capsys) == f"dualshield: {error}\n"


def test_a_message_of_several_lines_is_folded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(monkeypatch, InputError("first\n  second"))
    run("hashes")
    assert complaint(capsys) == "dualshield: first second\n"


def test_interruption(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    failing(monkeypatch, KeyboardInterrupt())
    assert run("hashes") == 130
    assert complaint(capsys) == "dualshield: interrupted\n"


def test_out_of_memory(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    failing(monkeypatch, MemoryError())
    assert run("hashes") == 2
    assert "out of memory" in complaint(capsys)


def test_an_unexpected_failure_of_the_system(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(monkeypatch, OSError(errno.EIO, "Input/output error", "disk"))
    assert run("hashes") == 2
    assert "Input/output error" in complaint(capsys)


def test_a_reader_that_went_away_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(monkeypatch, BrokenPipeError())
    assert run("hashes") == 0
    assert capsys.readouterr() == ("", "")


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        main(["hashes"])


def test_a_closed_pipe_in_a_real_process() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([SCRIPT, "hashes"], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("arguments", ["hashes", "--help", "--version", "demo --help"])
def test_a_closed_output_is_one_line(arguments: str) -> None:
    done = closing(f"{arguments} >&-")
    assert done.returncode == 2
    assert done.stderr.startswith("dualshield: ")
    assert "standard output is closed" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_closed_output_is_missed_only_where_something_is_printed() -> None:
    done = closing("hash no-such-file >&-")
    assert done.returncode == 2
    assert "no-such-file" in done.stderr
    assert done.stderr.count("\n") == 1
    script = "from dualshield.cli import main; main.cli.main = lambda **_: 0; main.main()"
    done = subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -c "{script}" >&-'], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_stderr_does_not_send_errors_to_the_output() -> None:
    done = closing("hash no-such-file 2>&-")
    assert (done.returncode, done.stdout) == (2, "")


def closing(arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", f'"{SCRIPT}" {arguments}'], check=False, capture_output=True, text=True)


def test_an_interruption_while_a_command_is_loaded() -> None:
    """Imports swallow a KeyboardInterrupt in their callbacks, or say where it came; they are not asked."""
    script = (
        "import os, signal; from dualshield.cli import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs are started without
        "def loading(name):\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    except KeyboardInterrupt:\n"
        "        pass\n"
        "    raise SystemExit('went on')\n"
        "main.import_module = loading; main.main(['hashes'])"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "dualshield: interrupted\n")


def test_interruptions_are_as_they_were_when_a_command_is_loaded() -> None:
    before = signal.getsignal(signal.SIGINT)
    assert run("hashes", "--help") == 0
    assert signal.getsignal(signal.SIGINT) is before


def test_the_demo_keeps_what_exists_and_replaces_regular_files_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture, node = tmp_path / "hardening-pdq.png", tmp_path / "attack-pdq-both.png"
    picture.write_text("precious")
    assert run("demo", "-o", tmp_path) == 2
    assert f"{picture} exists already; use --overwrite, or choose another name" in complaint(capsys)
    assert picture.read_text() == "precious"
    os.mkfifo(node)
    assert run("demo", "-o", tmp_path, "--overwrite") == 2
    assert f"cannot write {node}: it is not a regular file" in complaint(capsys)
    assert node.is_fifo()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_in_a_real_process(photo_files: list[Path]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [SCRIPT, "hash", photo_files[0]], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith("dualshield: ")
    assert done.stderr.count("\n") == 1


# -- how much is said ------------------------------------------------------------------------------


def logging_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def tell() -> list[object]:
        logger = logging.getLogger("dualshield.hashes")
        logger.info("a detail")
        logger.warning("a warning")
        hint("a hint")
        note("a note")
        return []

    monkeypatch.setattr("dualshield.cli.hashes.list_hashes", tell)


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], {"a warning", "a hint", "a note"}),
        (["--quiet"], set()),
        (["-q"], set()),
        (["--verbose"], {"a detail", "a warning", "a hint", "a note"}),
        (["-v"], {"a detail", "a warning", "a hint", "a note"}),
    ],
)
def test_quiet_and_verbose_stand_before_the_command_or_behind_it(
    options: list[str],
    behind: bool,
    said: set[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    logging_command(monkeypatch)
    assert run(*([] if behind else options), "hashes", *(options if behind else [])) == 0
    out, err = capsys.readouterr()
    assert {text for text in ("a detail", "a warning", "a hint", "a note") if text in out + err} == said
    assert "a hint" not in err
    assert "threshold" in out  # the result is always there


@pytest.mark.parametrize("arguments", [["-q", "-v", "hashes"], ["hashes", "-q", "-v"], ["-q", "hashes", "--verbose"]])
def test_not_quiet_and_verbose_at_once(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    assert "either --quiet or --verbose" in complaint(capsys)


def test_one_call_does_not_silence_the_next(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logging_command(monkeypatch)
    assert run("hashes", "--quiet") == 0
    capsys.readouterr()
    assert run("hashes") == 0
    assert "a warning" in capsys.readouterr().err


def test_quiet_draws_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[bool] = []

    def remember() -> list[object]:
        shown.append(not progress().disable)
        return []

    monkeypatch.setattr("dualshield.cli.output.sys.stderr", SimpleNamespace(isatty=lambda: True, write=len, flush=int))
    monkeypatch.setattr("dualshield.cli.hashes.list_hashes", remember)
    for options in ([], ["--quiet"]):
        assert run("hashes", *options) == 0
    assert shown == [True, False]


def test_every_command_has_the_same_options_of_a_session() -> None:
    def leaves(command: click.Command) -> Iterator[click.Command]:
        if isinstance(command, click.Group):
            for each in command.commands.values():
                yield from leaves(each)
        else:
            yield command

    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        for leaf in leaves(command):
            options = [option for param in leaf.params for option in param.opts]
            for wanted in ("--threads", "-q", "--quiet", "-v", "--verbose"):
                assert options.count(wanted) == 1, (name, leaf.name, wanted)
