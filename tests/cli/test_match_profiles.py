"""``dualshield match``: the profile that gives the defaults, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dualshield.hashes import get_hash, to_hex
from dualshield.images import load_image
from tests.helpers.command_line import complaint, run
from tests.helpers.match_command import CHEAP, Match


@pytest.mark.parametrize(
    ("options", "lowpass", "sigma"),
    [
        ((), 32, 0.8),
        (("--sigma", "auto"), 32, 1.6),
        (("--sigma", "0.1"), 32, 0.1),
        (("--lowpass", "none"), None, 0.5),
        (("--lowpass", "none", "--sigma", "auto"), None, 0.5),
        (("--lowpass", "64", "--sigma", "0.1"), 64, 0.1),
    ],
)
def test_a_profile_gives_the_defaults(
    options: tuple[str, ...],
    lowpass: int | None,
    sigma: float,
    photo_files: list[Path],
    profile_path: Path,
    match: Match,
) -> None:
    result = match(photo_files[0], photo_files[0], "--profile", profile_path, *CHEAP, *options)
    assert (result["lowpass"], result["sigma"]) == (lowpass, sigma)
    assert (result["threshold"], result["noise"], result["reference_mode"]) == (0.25, "linear", "code")
    assert result["decision"] == "match"


def test_a_profile_has_its_own_sigma_for_bare_codes(photo_files: list[Path], profile_path: Path, match: Match) -> None:
    code = "code:" + to_hex(get_hash("pdq").code(load_image(photo_files[0]).pixels))
    result = match(code, photo_files[0], "--profile", profile_path, *CHEAP)
    assert (result["lowpass"], result["sigma"], result["threshold"]) == (None, 0.3, 0.25)


def test_without_a_profile_sigma_is_small_and_a_warning_says_so(
    photo_files: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dualshield.smoothing.deploy.find_profile", lambda name: None)
    pair = ("match", photo_files[0], photo_files[0], "--json", *CHEAP)
    assert run(*pair) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["sigma"] == 0.1
    assert err == "dualshield: hash pdq is not calibrated, using sigma 0.1; run dualshield calibrate\n"
    assert run(*pair, "--sigma", 0.3) == 0
    assert capsys.readouterr().err == ""
    assert run(*pair, "--sigma", "auto") == 2
    assert "needs a calibrated profile" in capsys.readouterr().err


def test_the_profile_of_another_hash_is_refused(
    photo_files: list[Path], profile_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = profile_path.read_text(encoding="utf-8").replace('"pdq"', '"neuralhash"')
    other = tmp_path / "other.json"
    other.write_text(text, encoding="utf-8")
    assert run("match", photo_files[0], photo_files[0], "--profile", other) == 2
    assert "measured for hash neuralhash 1, not for pdq 1" in complaint(capsys)


@pytest.mark.parametrize(
    "text",
    [None, "", "{", "[" * 100_000, "[]", "3", "null", "{}", '{"grid": []}', '{"grid": [1]}', "\N{SNOWMAN}"],
    ids=["missing", "empty", "garbage", "deep", "list", "number", "null", "object", "no grid", "bad grid", "snowman"],
)
def test_files_that_are_no_profiles(
    text: str | None, photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "given.json"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    assert run("match", photo_files[0], photo_files[0], "--profile", file) == 2
    assert str(file) in complaint(capsys)


def test_a_profile_that_is_no_text(photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "given.json"
    file.write_bytes(bytes(range(256)))
    assert run("match", photo_files[0], photo_files[0], "--profile", file) == 2
    assert str(file) in complaint(capsys)


def test_a_low_pass_that_was_not_calibrated(
    photo_files: list[Path], profile_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("match", photo_files[0], photo_files[0], "--profile", profile_path, "--lowpass", 64) == 2
    assert "low-pass 64 has no calibrated sigma" in complaint(capsys)
