"""What newcomers stumbled over, each as they met it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from dualshield.cli.output import counted, duration
from dualshield.cli.waiting import waiting
from dualshield.images import CanonicalImage
from dualshield.smoothing.deploy import deploy
from tests.helpers.command_line import complaint, run


@pytest.fixture
def black(tmp_path: Path) -> Path:
    file = tmp_path / "black.png"
    Image.new("RGB", (64, 64)).save(file)
    return file


def test_an_image_that_drowns_in_the_noise_is_told_why(black: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("match", black, black, "--hash", "pdq", "--method", "votes") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "NO MATCH" in text
    assert "pdq sees no structure in the query, as in a flat colour" in text


def test_a_plain_non_match_needs_no_such_word(photo_files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("match", photo_files[0], photo_files[1], "--hash", "pdq") == 0
    assert "little detail" not in capsys.readouterr().out


def test_a_query_on_standard_input(photo_files: list[Path]) -> None:
    command = [sys.executable, "-m", "dualshield", "match", str(photo_files[0]), "-", "--hash", "pdq", "--json"]
    found = subprocess.run(command, input=photo_files[0].read_bytes(), capture_output=True, check=True)
    result = json.loads(found.stdout)
    assert (result["decision"], result["query"]) == ("match", "<standard input>")


def test_reference_and_query_cannot_both_be_standard_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("match", "-", "-") == 2
    assert "cannot both be standard input" in complaint(capsys)


def test_an_empty_folder_of_negatives_is_refused_even_where_none_are_needed(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "none"
    empty.mkdir()
    assert run("harden", photo_files[0], "-o", tmp_path / "out.png", "--hash", "pdq", "--negatives", empty) == 2
    assert "holds no images" in complaint(capsys)


def test_a_card_cannot_take_the_name_of_an_installed_hash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card = tmp_path / "mine.yaml"
    card.write_text(f"name: pdq\nbits: 8\ncommand: [{sys.executable}, -c, 'print(\"ff\")']\n")
    assert run("hash", "x.png", "--hash", card) == 2
    assert "another installed hash has the name pdq" in complaint(capsys)


def test_votes_are_counted_while_they_come_in(photos: list[CanonicalImage]) -> None:
    told: list[tuple[int, int]] = []
    deployment = deploy("pdq", n=1000)
    deployment.match(deployment.enroll(photos[0]), photos[0], progress=lambda *seen: told.append(seen))
    assert told[-1] == (1100, 1100)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_bar_appears_only_where_an_answer_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("dualshield.cli.waiting.time.monotonic", lambda: now)
    started: list[float] = []
    with waiting("votes") as tell:
        bar = _bar_of(tell)
        monkeypatch.setattr(bar, "start", lambda: started.append(now))
        tell(1, 10)
        assert started == []
        now = 1.5
        tell(2, 10)
    assert started == [1.5]


def _bar_of(tell: Callable[[int, int], None]) -> object:
    assert tell.__closure__ is not None
    return next(cell.cell_contents for cell in tell.__closure__ if hasattr(cell.cell_contents, "add_task"))


def test_numbers_of_things_and_times_read_naturally() -> None:
    assert [counted(n, "image") for n in (0, 1, 2)] == ["0 images", "1 image", "2 images"]
    assert [duration(s) for s in (0.2, 45, 100, 3600, 7500)] == ["1 s", "45 s", "2 min", "1 h 00 min", "2 h 05 min"]


def test_an_estimate_of_one_image_says_so(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("harden", photo_files[0], "-o", tmp_path / "out.png", "--hash", "pdq", "--dry-run") == 0
    out = capsys.readouterr().out
    assert out.startswith("1 image, about ")
    assert "0 minutes" not in out
