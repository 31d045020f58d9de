"""``dualshield completion``, and what its scripts ask for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from dualshield.cli.main import COMMANDS
from tests.helpers.command_line import complaint, run

SHELLS = ("bash", "zsh", "fish")


@pytest.mark.parametrize("shell", SHELLS)
def test_it_prints_the_script_of_a_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("completion", shell) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert f"_DUALSHIELD_COMPLETE={shell}_complete" in out
    assert "_dualshield_completion" in out


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_can_read_it(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    run("completion", shell)
    script = capsys.readouterr().out
    done = subprocess.run([program, "-n"], input=script, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_another_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("completion", "tcsh") == 2
    assert "tcsh" in complaint(capsys)


def completed(words: str, loaded: str = "") -> list[str]:
    """What a shell is offered after these words; fails if the module ``loaded`` was imported for that."""
    script = (
        "import sys\nfrom dualshield.__main__ import main\n"
        f"try:\n    main()\nfinally:\n    assert {loaded!r} not in sys.modules"
    )
    asked = {"_DUALSHIELD_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True, env=os.environ | asked
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.split()]


def test_commands_are_completed_without_loading_them() -> None:
    assert completed("dualshield ", loaded="torch") == list(COMMANDS)
    assert completed("dualshield ha", loaded="torch") == ["hashes", "hash", "harden"]
    assert "--quiet" in completed("dualshield --", loaded="torch")


def test_options_are_completed() -> None:
    offered = completed("dualshield match --")
    assert {"--hash", "--engine", "--threads", "--quiet", "--verbose"} <= set(offered)
