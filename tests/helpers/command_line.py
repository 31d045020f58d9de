"""Running the command line inside a test."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dualshield.cli.main import main


def run(*arguments: object) -> int:
    """The exit code of ``dualshield ARGUMENTS``."""
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)


def complaint(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr, with nothing on stdout."""
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("dualshield: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    return err


def json_lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The objects on stdout, one per line."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]
