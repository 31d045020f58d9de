"""``dualshield match``: what it reports, and in which words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import norm

from tests.helpers.command_line import complaint, run
from tests.helpers.match_command import CHEAP, Match

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


def test_a_file_name_that_is_no_text(
    photo_files: list[Path], named_by_bytes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("match", named_by_bytes, photo_files[0], "--sigma", 0.3, *CHEAP) == 0
    assert "\N{REPLACEMENT CHARACTER}.png" in capsys.readouterr().out


def test_the_text_says_that_noise_was_seeded(photo_files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    pair = ("match", photo_files[0], photo_files[0], *CHEAP)
    assert run(*pair) == 0
    assert "SEEDED" not in capsys.readouterr().out
    assert run(*pair, "--seed", 1) == 0
    assert "SEEDED" in capsys.readouterr().out


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
    assert "it may still lead to an abstention, which is answered as NO MATCH" in out


def test_several_hashes_at_once(photo_files: list[Path], match: Match, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--hash", "pdq+neuralhash", "--n", 100, "--n0", 20)
    same = match(photo_files[0], photo_files[0], *options)
    assert same["decision"] == "match"
    assert [member["hash"] for member in same["members"]] == ["pdq", "neuralhash"]
    assert same["radius"] == max(member["radius"] for member in same["members"])
    assert [member["alpha"] for member in same["members"]] == [0.0, same["alpha"]]  # pdq is exact
    assert run("match", photo_files[0], photo_files[1], *options) == 0
    out = capsys.readouterr().out
    assert out.startswith("NO MATCH")
    assert "false matches" in out
    assert run("match", photo_files[0], photo_files[1], "--hash", "pdq+pdq") == 2
    assert "different hashes" in complaint(capsys)
    assert run("match", "code:00", photo_files[1], "--hash", "pdq+neuralhash") == 2
    assert "belongs to one hash" in complaint(capsys)
