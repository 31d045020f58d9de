"""``dualshield match``: references that last, as kept files and as bare codes."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dualshield.hashes import get_hash, to_hex
from dualshield.images import load_image
from dualshield.smoothing.deploy import deploy
from tests.helpers.command_line import complaint, run
from tests.helpers.match_command import CHEAP, Match


def test_the_same_command_twice_names_the_same_reference(photo_files: list[Path], match: Match) -> None:
    first, again = (match(photo_files[0], photo_files[1], *CHEAP) for _ in range(2))
    for name in ("reference_fingerprint", "sigma", "deployment"):
        assert first[name] == again[name]
    assert match(photo_files[1], photo_files[1], *CHEAP)["reference_fingerprint"] != first["reference_fingerprint"]


def test_a_kept_reference_in_place_of_the_image(
    photo_files: list[Path], tmp_path: Path, match: Match, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kept.dsref"
    first = match(photo_files[0], photo_files[0], *CHEAP, "--save-reference", file)
    again = match(file, photo_files[0], *CHEAP)
    assert (again["decision"], again["reference"]) == ("match", photo_files[0].name)
    assert again["reference_fingerprint"] == first["reference_fingerprint"]
    monkeypatch.setenv("DUALSHIELD_HASH", "neuralhash")  # the reference knows its own
    assert match(file, photo_files[1], *CHEAP)["hash"] == "pdq"


def test_a_kept_bare_code(photo_files: list[Path], tmp_path: Path, match: Match) -> None:
    code, file = to_hex(get_hash("pdq").code(load_image(photo_files[0]).pixels)), tmp_path / "kept.dsref"
    first = match(f"code:{code}", photo_files[0], *CHEAP, "--save-reference", file)
    again = match(file, photo_files[0], *CHEAP)
    assert (again["sigma"], again["reference_fingerprint"]) == (first["sigma"], first["reference_fingerprint"])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--hash", "neuralhash"), "enrolled for hash pdq, not for neuralhash"),
        (("--sigma", "0.2"), "sigmas"),
        (("--lowpass", "none", "--sigma", "0.2"), "lowpass 64, here null"),
        (("--paper",), "noise"),
    ],
)
def test_a_kept_reference_is_refused_by_another_matcher(
    options: tuple[str, ...], named: str, photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kept.dsref"
    deploy("pdq", method="votes").enroll(photo_files[0]).save(file)
    assert run("match", file, photo_files[0], *CHEAP, *options) == 2
    assert named in complaint(capsys)


def test_an_exact_reference_and_one_of_votes_are_told_apart(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for method, other in (("exact", "votes"), ("votes", "exact")):
        file = tmp_path / f"{method}.dsref"
        deploy("pdq", method=method).enroll(photo_files[0]).save(file)  # type: ignore[arg-type]
        assert run("match", file, photo_files[0], "--json") == 0
        assert f'"method": "{method}"' in capsys.readouterr().out
        assert run("match", file, photo_files[0], "--method", other) == 2
        assert "leave out the method, or enroll it again" in complaint(capsys)


def test_a_reference_from_a_stranger_loads_no_card(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A card may run a program, so the name of a hash in a file is only ever a name."""
    card, traces = tmp_path / "evil.yaml", tmp_path / "it-was-run"
    card.write_text(f"name: evil\nbits: 8\ncommand: [sh, -c, 'touch {traces}; echo 00']\nside: 8\n")
    enrolled = deploy("pdq").enroll(photo_files[0])
    member = enrolled.members[0]
    named = {**member.terms, "hash": {**member.terms["hash"], "name": str(card)}}
    file = tmp_path / "kept.dsref"
    replace(enrolled, members=(replace(member, terms=named),)).save(file)
    assert run("match", file, photo_files[0]) == 2
    assert "card or hash with --hash" in complaint(capsys)
    assert not traces.exists()


def test_names_from_outside_cannot_forge_lines(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kept.dsref"
    replace(deploy("pdq").enroll(photo_files[0]), name="a.jpg\n  certified radius     99.0\x1b[2J").save(file)
    assert run("match", file, photo_files[0]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\n  certified radius     99.0" not in out


def test_a_reference_is_kept_where_it_was_told_to_and_nowhere_else(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = ("match", photo_files[0], photo_files[0], *CHEAP, "--save-reference")
    assert run(*pair, tmp_path / "kept.jpg") == 2
    assert "must end in .dsref" in complaint(capsys)
    file = tmp_path / "kept.dsref"
    file.write_text("mine")
    assert run(*pair, file) == 2
    assert "exists already" in complaint(capsys)
    assert file.read_text() == "mine"
    assert run(*pair, file, "--overwrite") == 0
    assert file.read_text() != "mine"


def test_a_reference_is_kept_in_regular_files_only(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = ("match", photo_files[0], photo_files[0], *CHEAP, "--overwrite", "--save-reference")
    pipe, device = tmp_path / "pipe.dsref", tmp_path / "device.dsref"
    os.mkfifo(pipe)
    device.symlink_to("/dev/null")
    for node in (pipe, device):
        assert run(*pair, node) == 2
        assert f"cannot write {node}: it is not a regular file" in complaint(capsys)
    assert pipe.is_fifo()
    assert device.is_symlink()
    link, file = tmp_path / "link.dsref", tmp_path / "file.dsref"
    link.symlink_to(file)
    assert run(*pair, link) == 0
    assert link.is_symlink()
    assert file.is_file()


def test_a_reference_is_not_kept_in_an_input(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, photo = tmp_path / "kept.dsref", tmp_path / "photo.dsref"
    deploy("pdq").enroll(photo_files[0]).save(kept)
    shutil.copy(photo_files[0], photo)
    before = kept.read_bytes(), photo.read_bytes()
    for target in (kept, photo):
        assert run("match", kept, photo, *CHEAP, "--overwrite", "--save-reference", target) == 2
        assert f"{target}: it is the same file as the input" in complaint(capsys)
    assert (kept.read_bytes(), photo.read_bytes()) == before


def test_a_damaged_reference(photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kept.dsref"
    file.write_text("{")
    assert run("match", file, photo_files[0]) == 2
    assert str(file) in complaint(capsys)


@pytest.mark.parametrize("extra", [("--sigma", 0.3), ("--paper", "--n", 60, "--n0", 10)])
def test_a_bare_code_as_reference(extra: tuple[object, ...], photo_files: list[Path], match: Match) -> None:
    code = "code:" + to_hex(get_hash("pdq").code(load_image(photo_files[0]).pixels))
    same = match(code, photo_files[0], *CHEAP, *extra)
    assert (same["reference"], same["decision"], same["distance"]) == (code, "match", 0.0)
    assert same["reference_mode"] == "code"
    assert match(code.upper().replace("CODE:", "code:"), photo_files[1], *CHEAP, *extra)["decision"] == "no_match"


@pytest.mark.parametrize(
    ("code", "options", "named"),
    [
        ("", (), "has 0 hex digits"),
        ("ab" * 31, (), "has 62 hex digits"),
        ("ab" * 33, (), "needs 64"),
        ("xy" * 32, (), "not hexadecimal"),
        ("٣" * 64, (), "not hexadecimal"),
        ("ab" * 32, ("--reference-mode", "paired"), "reference mode paired needs a reference image"),
        ("ab" * 32, ("--reference-mode", "bank"), "reference mode bank needs a reference image"),
        ("ab" * 32, ("--sigma", "auto"), "sigma auto needs a reference image"),
    ],
)
def test_bare_codes_that_cannot_be_used(
    code: str, options: tuple[str, ...], named: str, photo_files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("match", f"code:{code}", photo_files[0], "--sigma", 0.1, *CHEAP, *options) == 2
    assert named in complaint(capsys)
