"""Transformations of published images: a run that was interrupted goes on where it stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dualshield.attacks import transformations
from dualshield.attacks.transformations import TransformRate
from dualshield.smoothing.deploy import deploy
from dualshield.transforms import EXTRA_TRANSFORMS, PAPER_TRANSFORMS

FEW = (*PAPER_TRANSFORMS[:3], *EXTRA_TRANSFORMS[-2:])


@pytest.fixture
def files(photo_files: list[Path]) -> list[Path]:
    return photo_files[1:3]


def transform(files: list[Path], journal: Path | None = None) -> list[TransformRate]:
    return transformations.run(deploy("pdq"), files, ("original", "smoothing"), transforms=FEW, seed=5, journal=journal)


def lines(journal: Path) -> list[str]:
    return [line for line in journal.read_text().splitlines() if line]


def test_a_resumed_run_gives_what_an_uninterrupted_one_gives(files: list[Path], tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    rates = transform(files)
    assert transform(files, journal) == rates
    whole = lines(journal)
    assert len(whole) == 1 + 2 * len(files)
    journal.write_text("\n".join(whole[:3]) + "\n" + whole[3][:-20])  # two records, and a part of the third
    assert transform(files, journal) == rates
    assert lines(journal)[-2:] == whole[-2:]


def test_a_finished_run_asks_nothing_again(files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = transform(files, tmp_path / "journal")
    monkeypatch.setattr(transformations, "Defence", None)
    assert transform(files, tmp_path / "journal") == rates


@pytest.mark.parametrize(
    "change",
    [
        {"key": ["original"]},
        {"key": [["original"], "name"]},
        {"result": {"decisions": ["match"], "ssim": [1.0]}},
        {"result": {"decisions": ["match"] * 5, "ssim": [1.0] * 4}},
        {"result": {"decisions": ["maybe"] * 5, "ssim": [1.0] * 5}},
        {"result": {"decisions": [["match"]] * 5, "ssim": [1.0] * 5}},
        {"result": {"decisions": ["match"] * 5, "ssim": ["1"] * 5}},
        {"result": {"decisions": "match", "ssim": 1}},
        {"result": []},
    ],
    ids=str,
)
def test_a_record_that_is_not_whole_counts_as_not_done(
    change: dict[str, Any], files: list[Path], tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    rates = transform(files[:1], journal)
    header, first, second = lines(journal)
    journal.write_text("\n".join([header, json.dumps({**json.loads(first), **change}), second]) + "\n")
    assert transform(files[:1], journal) == rates
    assert lines(journal)[-1] == first
