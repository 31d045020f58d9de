"""Defaults from ``dualshield.toml`` and the environment: which goes first, and what a file may not do."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dualshield
from dualshield import deploy
from dualshield._common import settings as under_test
from dualshield._common.settings import ENGINES, MAX_BYTES, VARIABLES, load_settings
from dualshield.engines.choose import EngineName
from dualshield.errors import InputError
from dualshield.smoothing.profile import Profile
from tests.helpers.command_line import complaint, run

PROFILES = Path(dualshield.__file__).parent / "profiles"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder and a user without any settings."""
    for name in (*VARIABLES.values(), "DUALSHIELD_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(under_test, "user_config_path", lambda *_, **__: tmp_path / "user")
    (tmp_path / "user").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    threads = torch.get_num_threads()
    yield tmp_path / "here"
    torch.set_num_threads(threads)


def write(file: Path, text: str | bytes) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def used(capsys: pytest.CaptureFixture[str], photo: Path, *options: str) -> str:
    """The hash that ``dualshield hash`` uses."""
    assert run("hash", photo, "--json", *options) == 0
    return str(json.loads(capsys.readouterr().out)["hash"])


def test_an_option_goes_before_the_environment_before_this_folder_before_the_user(
    folder: Path, photo_files: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    photo = photo_files[0]
    assert used(capsys, photo) == "efflite"
    write(folder.parent / "user" / "dualshield.toml", 'hash = "pdq"')
    assert used(capsys, photo) == "pdq"
    write(folder / "dualshield.toml", 'hash = "efflite"')
    assert used(capsys, photo) == "efflite"
    monkeypatch.setenv("DUALSHIELD_HASH", "pdq")
    assert used(capsys, photo) == "pdq"
    assert used(capsys, photo, "--hash", "efflite") == "efflite"


def test_files_are_merged_value_by_value(folder: Path) -> None:
    write(folder.parent / "user" / "dualshield.toml", 'hash = "pdq"\nthreads = 3\n')
    write(folder / "dualshield.toml", "threads = 2\n")
    found = load_settings()
    assert (found["hash"].value, found["hash"].is_local) == ("pdq", False)
    assert (found["threads"].value, found["threads"].is_local) == (2, True)


def test_a_file_that_is_named_is_the_only_one(
    folder: Path, photo_files: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "dualshield.toml", "nonsense =")
    monkeypatch.setenv("DUALSHIELD_CONFIG", str(write(folder.parent / "mine.toml", 'hash = "pdq"')))
    assert used(capsys, photo_files[0]) == "pdq"
    monkeypatch.setenv("DUALSHIELD_CONFIG", "nowhere.toml")
    assert run("hash", photo_files[0]) == 2
    assert "nowhere.toml" in complaint(capsys)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hash = ", "not a valid TOML file"),
        (b"hash = '\xff'", "not a valid TOML file"),
        ("x = " + "[" * 5000, "not a valid TOML file"),
        ("x = 1" + "0" * 10_000, "not a valid TOML file"),
        ('device = "cuda"', "unknown setting 'device'; use hash, profile, engine, threads"),
        ("[match]\nn = 3", "unknown setting 'match'"),
        ("hash = 3", "hash must be text"),
        ('hash = ""', "hash must be text"),
        ('hash = ["pdq"]', "hash must be text"),
        ('profile = "a\\u0000b"', "profile must be text"),
        ("engine = true", "engine must be text"),
        ('engine = "fast"', "engine must be one of auto, openvino, torch"),
        ('threads = "2"', "threads must be a whole number"),
        ("threads = 0", "threads must be a whole number"),
        ("threads = true", "threads must be a whole number"),
        ("threads = 2.0", "threads must be a whole number"),
        ("threads = 100000", "threads must be a whole number"),
        ("#" * (MAX_BYTES + 1), "limit of 65,536 bytes"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_it(
    text: str | bytes, said: str, folder: Path, photo_files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "dualshield.toml", text)
    assert run("hash", photo_files[0]) == 2
    line = complaint(capsys)
    assert "dualshield.toml" in line
    assert said in line


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_settings_or_an_error_of_ours(data: bytes) -> None:
    Path("dualshield.toml").write_bytes(data)
    with suppress(InputError):
        assert load_settings().keys() <= VARIABLES.keys()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_is_refused_without_waiting(
    folder: Path, photo_files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(folder / "dualshield.toml")
    assert run("hash", photo_files[0]) == 2
    assert "dualshield.toml is not a regular file" in complaint(capsys)


def test_help_does_not_need_the_settings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "dualshield.toml", "nonsense")
    for arguments in (["--help"], ["hash", "--help"], ["completion", "bash"]):
        assert run(*arguments) == 0
    assert capsys.readouterr().err == ""


# -- what somebody else may have put into a folder -------------------------------------------------


def card(file: Path, ran: Path) -> Path:
    """Of a program that leaves a trace when it runs; the name of the field is disguised."""
    script = write(file.parent / "program.sh", f"#!/bin/sh\ntouch {ran}\necho 00000000\n")
    script.chmod(0o755)
    return write(file, 'name: mine\nbits: 32\n"comm\\x61nd": [./program.sh]\n')


def test_a_file_of_this_folder_runs_no_program(
    folder: Path, photo_files: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = folder.parent / "ran"
    card(folder / "card.yaml", ran)
    for hashes in ("card.yaml", "pdq+card.yaml"):
        write(folder / "dualshield.toml", f'hash = "{hashes}"')
        assert run("hash", "--quiet", photo_files[0]) == 2
        assert "dualshield.toml: the hash card card.yaml runs a program or a TorchScript model" in complaint(capsys)
        assert not ran.exists()
    write(folder / "script.yaml", "name: script\nbits: 32\nmodel: model.pt\n")
    write(folder / "dualshield.toml", 'hash = "script.yaml"')
    assert run("hash", "--quiet", photo_files[0]) == 2
    assert "runs a program or a TorchScript model" in complaint(capsys)
    write(folder / "script.yaml", "name: data\nbits: 32\ninput: {size: 8}\nmodel: none.onnx\n")
    assert run("hash", "--quiet", photo_files[0]) == 2
    assert "none.onnx" in complaint(capsys)  # it went on to load it
    # Whoever names the card, or the file, has decided to trust it.
    monkeypatch.setenv("DUALSHIELD_CONFIG", str(write(folder.parent / "own.toml", 'hash = "here/card.yaml"')))
    assert used(capsys, photo_files[0]) == "mine"
    assert ran.exists()


def test_hash_and_profile_of_this_folder_are_announced(
    folder: Path, photo_files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "dualshield.toml", 'hash = "pdq"')
    assert run("hash", photo_files[0]) == 0
    assert capsys.readouterr().err == "dualshield: hash pdq is set by dualshield.toml in this folder\n"
    assert run("hash", photo_files[0], "--quiet") == 0
    assert capsys.readouterr().err == ""


def test_the_library_reads_no_settings(folder: Path) -> None:
    write(folder / "dualshield.toml", "nonsense")
    assert deploy("pdq", n=10).name == "pdq"


# -- profile, engine, threads ----------------------------------------------------------------------


def test_a_profile_is_relative_to_the_file_and_belongs_to_the_hash_of_the_settings(
    folder: Path, photo_files: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shipped = Profile.load(PROFILES / "pdq.json")
    users = folder.parent / "user"
    replace(shipped, sigma=0.4).save(users / "mine.json")
    write(users / "dualshield.toml", 'hash = "pdq"\nprofile = "mine.json"')
    photo = photo_files[0]

    def matched(*options: str) -> tuple[float | None, str]:
        assert run("match", photo, photo, "--n", 100, "--json", *options) == 0
        out, err = capsys.readouterr()
        found = json.loads(out)
        return found.get("sigma"), err

    assert matched() == (0.4, "")
    assert matched("--hash", "pdq") == (0.4, "")
    sigma, said = matched("--hash", "efflite")
    assert sigma != 0.4
    assert "mine.json of your settings is left out, since --hash names another hash than pdq" in said
    monkeypatch.setenv("DUALSHIELD_PROFILE", str(users / "none.json"))
    assert run("match", photo, photo) == 2
    assert "none.json" in complaint(capsys)


def test_the_engine(
    network_name: str,
    folder: Path,
    photo_files: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert get_args(EngineName) == ENGINES
    write(folder / "dualshield.toml", 'engine = "torch"')
    photo = photo_files[0]

    def engine(*options: str) -> str:
        assert run("match", photo, photo, "--hash", network_name, "--n", 100, "--json", *options) == 0
        return str(json.loads(capsys.readouterr().out)["engine"])

    assert engine() == "torch"
    assert engine("--engine", "auto") == "openvino"
    monkeypatch.setenv("DUALSHIELD_ENGINE", "openvino")
    assert engine() == "openvino"
    monkeypatch.setenv("DUALSHIELD_ENGINE", "abacus")
    assert run("match", photo, photo) == 2
    assert "unknown engine 'abacus'" in complaint(capsys)


def test_threads(
    folder: Path, photo_files: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    photo = photo_files[0]

    def threads(before: list[object], after: list[object]) -> int:
        torch.set_num_threads(1)
        assert run(*before, "hash", photo, "--hash", "pdq", *after) == 0
        return torch.get_num_threads()

    write(folder / "dualshield.toml", "threads = 2")
    assert threads([], []) == 2
    monkeypatch.setenv("DUALSHIELD_THREADS", "3")
    assert threads([], []) == 3
    assert threads(["--threads", 4], []) == 4
    assert threads([], ["--threads", 5]) == 5
    assert threads(["--threads", 4], ["--threads", 5]) == 5
    capsys.readouterr()
    for wrong in ("0", "many", "9999"):
        assert run("hash", photo, "--threads", wrong) == 2
        assert "--threads" in complaint(capsys)
        monkeypatch.setenv("DUALSHIELD_THREADS", wrong)
        assert run("hash", photo) == 2
        assert "--threads" in complaint(capsys)
        monkeypatch.delenv("DUALSHIELD_THREADS")
