"""``dualshield evaluate``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dualshield.cli import evaluate as command
from dualshield.errors import InputError
from dualshield.evaluation.parts import transformed
from dualshield.evaluation.plan.plan import Plan
from dualshield.evaluation.run.records import CONFIG, Run
from dualshield.smoothing.profile import find_profile
from dualshield.transforms import parse
from tests.helpers.command_line import complaint, run


@pytest.fixture
def data(tmp_path: Path, photo_files: list[Path]) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for file in photo_files[:2]:
        shutil.copy(file, folder)
    return folder


def test_a_run_from_the_command_line(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "runs" / "first"
    options = ("--variants", "original, smoothing", "--parts", "certified,collisions", "--limit", 3)
    arguments = ("evaluate", "--data", data, *options, "--out", out)
    assert run(*arguments) == 0
    said = capsys.readouterr()
    assert "2 images, 6 results" in said.out
    assert "fewer than the 3 asked for" in said.err
    found = Run.open(out)
    assert {record.key.part for record in found.records} == {"certified", "collisions"}
    config = json.loads((out / CONFIG).read_text())
    assert (config["protocol"], config["seed"], config["limit"]) == ("default", 2026, 3)
    assert config["defences"]["pdq"]["pdq"]["profile"]["sigma"] > 0
    assert run(*arguments) == 2
    assert "resume that run, or choose another folder" in complaint(capsys)
    assert run(*arguments, "--resume", "--protocol", "paper") == 2
    assert "another configuration: defences.pdq.pdq." in complaint(capsys)
    assert run(*arguments, "--resume") == 0


def test_a_given_profile(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shipped = find_profile("pdq")
    assert shipped is not None
    file, out = tmp_path / "own.json", tmp_path / "run"
    shipped.at_lowpass(None).save(file)
    few = ("--data", data, "--variants", "smoothing", "--parts", "collisions", "--limit", 2, "--profile", file)
    assert run("evaluate", *few, "--out", out) == 0
    chosen = json.loads((out / CONFIG).read_text())["defences"]["pdq"]["pdq"]["profile"]
    assert (shipped.lowpass, chosen["lowpass"], chosen["sigma"]) == (64, None, shipped.at_lowpass(None).sigma)
    capsys.readouterr()
    for wrong, message in (
        (("--hash", "pdq", "--hash", "neuralhash"), "a profile belongs to one hash"),
        (("--hash", "pdq+neuralhash"), "profile cannot be given for several hashes"),
        (("--protocol", "paper"), "the protocol paper has the paper's parameters; leave out the profile"),
        (("--profile", tmp_path / "gone.json"), "no such file"),
    ):
        assert run("evaluate", *few, *wrong, "--out", tmp_path / "other") == 2
        assert message in complaint(capsys)
    assert not (tmp_path / "other").exists()


def test_given_views(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "views.json"
    file.write_text('{"reference": [{}, {"mirror": true}], "query": [{}]}')
    monkeypatch.setattr(transformed, "ALL_TRANSFORMS", tuple(map(parse, ("jpeg-95", "flip-1"))))
    few = ("--data", data, "--parts", "transforms", "--limit", 1, "--jobs", 1)
    out = tmp_path / "run"
    assert run("evaluate", *few, "--variants", "original,views", "--views", file, "--out", out) == 0
    found = {(record.key.variant, record.key.detail): record.result["evaded"] for record in Run.open(out).records}
    assert (found["original", "flip-1"], found["views", "flip-1"]) == (True, False)
    assert json.loads((out / CONFIG).read_text())["expected"] == {"transforms": {"pdq": {"original": 2, "views": 2}}}
    capsys.readouterr()
    other = tmp_path / "other"
    for wrong, message in (
        (("--views", file, "--protocol", "paper"), "the protocol paper has the paper's parameters, without views"),
        (("--views", "all"), "unknown views 'all'"),
        (("--views", "none", "--variants", "views"), "no hash of this run has views (pdq)"),
        (("--views", file, "--variants", "views", "--parts", "collisions"), "measured on transformations only"),
    ):
        assert run("evaluate", *few, *wrong, "--out", other) == 2
        assert message in complaint(capsys)
    assert not other.exists()
    asked: list[tuple[str, ...]] = []

    def stop(plan: Plan, *_: object, **__: object) -> None:
        asked.append(plan.variants)
        raise InputError("stopped")

    monkeypatch.setattr("dualshield.evaluation.evaluate.run_plan", stop)
    for views in (file, "none"):
        assert run("evaluate", *few, "--views", views, "--out", other) == 2
    assert asked == [("original", "views", "smoothing", "both"), ("original", "smoothing", "both")]


def test_bad_usage(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    for arguments, message in (
        (("--data", data, "--hash", "nope"), "nope"),
        (("--data", data, "--hash", "pdq", "--hash", "pdq"), "two hashes"),
        (("--data", data, "--variants", "theirs"), "unknown variant 'theirs'"),
        (("--data", data, "--variants", ","), "no variant"),
        (("--data", data, "--parts", "everything"), "unknown part"),
        (("--data", data, "--limit", 0), "limit 0"),
        (("--data", data, "--attack-limit", 0), "attack limit 0"),
        (("--data", data, "--skip", -1), "skip -1"),
        (("--data", data, "--skip", 2), "leaves none"),
        (("--data", data, "--jobs", 0), "jobs is 0"),
        (("--data", data, "--seed", -1), "seed -1"),
        (("--data", data, "--device", "abacus"), "abacus"),
        (("--data", data, "--data", data), "two folders"),
        (("--data", tmp_path / "missing"), "no such folder"),
        ((), "--data"),
    ):
        assert run("evaluate", *arguments, "--out", out) == 2, arguments
        assert message in complaint(capsys), arguments
    assert not out.exists()
    assert run("evaluate", "--data", data, "--out", data / "astronaut.png" / "run") == 2
    assert "run folder" in complaint(capsys)


def test_a_hash_without_gradients_is_not_hardened(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = tmp_path / "theirs.yaml"
    card.write_text("name: theirs\nbits: 64\ncommand: [echo, 0123456789abcdef]\n")
    assert run("evaluate", "--data", data, "--hash", card, "--out", tmp_path / "run") == 2
    assert "hardened for theirs, which has no gradient; leave out the variants both" in complaint(capsys)
    assert not (tmp_path / "run").exists()


def test_lines_where_no_bar_can_be_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 1.0, 100.0, 100.0, 101.0])
    show = command._lines(lambda: next(times))
    show("a", 0, 10, None)
    show("b", 1, 10, 4000.0)
    show("c", 2, 10, 10.0)
    assert capsys.readouterr().err == "dualshield: 1 of 10 pieces, about 1 h 07 min left: b\n"
