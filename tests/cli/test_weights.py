"""``dualshield weights``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from dualshield.weights import CATALOGUE
from tests.helpers.command_line import complaint, json_lines, run
from tests.helpers.toy_weights import synthetic_state, toy_home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return toy_home(tmp_path, monkeypatch)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "mine.pt"
    torch.save(synthetic_state(), path)
    return path


def test_path(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("weights", "path") == 0
    assert capsys.readouterr() == (f"{home}\n", "")


def test_list_shows_every_file_with_address_and_licence(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("weights", "list") == 0
    out, err = capsys.readouterr()
    assert err == ""
    for weight in CATALOGUE.values():
        assert f"{weight.name}  [absent]  for hash {weight.hash}" in out
        assert weight.licence in out
        assert (weight.address or "not published") in out.split() or weight.address is None


def test_list_as_json(home: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("weights", "import", "toy-file", checkpoint, "--json") == 0
    row = json.loads(capsys.readouterr().out)
    assert run("weights", "list", "--json") == 0
    rows = {entry["weights"]: entry for entry in json_lines(capsys)}
    assert list(rows) == list(CATALOGUE)
    assert rows["toy-file"] == row
    assert (row["state"], row["hash"], row["licence"], row["problem"]) == ("imported", "toy", "MIT", None)
    assert Path(row["stored"]).read_bytes() == checkpoint.read_bytes()
    assert (rows["sscd"]["state"], rows["sscd"]["stored"]) == ("absent", None)


def test_import_hash_and_verify(
    home: Path, checkpoint: Path, photo_files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("hash", photo_files[0], "--hash", "toy") == 3
    assert "dualshield weights import toy-file FILE" in complaint(capsys)
    assert run("weights", "import", "toy-file", checkpoint) == 0
    out = capsys.readouterr().out
    assert "licence: MIT" in out
    assert "--hash toy" in out
    assert run("hash", photo_files[0], "--hash", "toy") == 0
    assert len(capsys.readouterr().out.split()[0]) == 4
    assert run("weights", "verify") == 0
    assert capsys.readouterr().out == "toy-file: unchanged since import\n"


def test_verify_with_nothing_there(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("weights", "verify") == 0
    assert capsys.readouterr() == (f"no weights in {home}\n", "")


def test_verify_finds_damage(home: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("weights", "import", "toy-file", checkpoint)
    next(home.glob("*.pt")).write_bytes(b"x")
    capsys.readouterr()
    assert run("weights", "verify") == 3
    assert "toy-file: weights toy-file: " in capsys.readouterr().out
    assert run("weights", "verify", "--json") == 3
    (row,) = json_lines(capsys)
    assert row["state"] == "damaged"
    assert "has changed since it was imported" in row["problem"]


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (["import", "nope", "x.pt"], 2, "unknown weights 'nope'"),
        (["import", "toy-file", "absent.pt"], 2, "absent.pt: no such file"),
        (["import", "toy-file"], 2, "FILE"),
        (["fetch", "nope"], 2, "unknown weights 'nope'"),
        (["fetch", "toy-file"], 3, "dualshield weights import toy-file FILE"),
        (["frobnicate"], 2, "frobnicate"),
    ],
)
def test_errors(arguments: list[str], code: int, named: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("weights", *arguments) == code
    assert named in complaint(capsys)


def test_a_checkpoint_of_another_model(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.pt"
    torch.save({**synthetic_state(), "extra": torch.ones(1)}, bad)
    assert run("weights", "import", "toy-file", bad) == 2
    assert "unexpected keys: extra" in complaint(capsys)
