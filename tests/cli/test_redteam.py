"""``dualshield redteam``: damaged files, run folders that cannot be used, and what is printed at the end."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from dualshield.attacks.eot import Eot
from dualshield.attacks.methods import METHODS
from dualshield.attacks.pgd import NO_EOT, Pgd
from dualshield.errors import InputError
from dualshield.evaluation.plan.redteam import RedTeamPlan
from dualshield.smoothing.variants import VARIANTS
from dualshield.transforms import parse
from tests.helpers.command_line import complaint, json_lines, run

FAST = ("--method", "pgd", "--budget", 40, "--against", "original")
TRANSFORMS = ("--transforms", "--against", "original")


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(METHODS, "pgd", Pgd(steps=20))
    monkeypatch.setitem(METHODS, "eot-pgd", Eot(steps=20))
    few = tuple(map(parse, ("jpeg-95", "crop-0.9", "flip-1", "caption-bar-0.08", "border-0.05", "jpeg-30")))
    monkeypatch.setattr("dualshield.evaluation.parts.transformed.ALL_TRANSFORMS", few)


@pytest.fixture
def folder(photo_files: list[Path], tmp_path: Path) -> Path:
    """One photo, after one that was cut short."""
    found = tmp_path / "photos"
    found.mkdir()
    shutil.copy(photo_files[1], found / "b.png")
    (found / "a.png").write_bytes(photo_files[1].read_bytes()[:2000])
    return found


@pytest.fixture
def damaged(folder: Path) -> Path:
    return folder / "a.png"


@pytest.mark.parametrize("arguments", [FAST, TRANSFORMS])
def test_a_damaged_file_is_skipped_and_told(
    arguments: tuple[object, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("redteam", folder, *arguments) == 0
    out, err = capsys.readouterr()
    assert "\n1 image; every single result is in redteam-pdq" in out
    assert err.startswith("dualshield: warning: unreadable, skipped: photos/a.png: ")
    assert err.count("\n") == 1
    assert run("redteam", folder, *arguments, "--json", "--resume") == 0
    out, err = capsys.readouterr()
    assert {rate["images"] for rate in map(json.loads, out.splitlines())} == {1}
    assert "skipped: photos/a.png" in err
    assert run("redteam", folder, *arguments, "--json", "--resume", "--quiet") == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("arguments", [FAST, TRANSFORMS])
def test_nothing_but_damaged_files_is_an_error(
    arguments: tuple[object, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "b.png").unlink()
    assert run("redteam", folder, *arguments) == 2
    assert "photos: none of its 1 images can be read; the last error: photos/a.png: " in complaint(capsys)
    assert not list(Path().glob("redteam-*"))


def test_a_run_that_failed_does_not_block_the_next(
    folder: Path, damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged.unlink()

    def fails(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dualshield.evaluation.parts.attacked.get_attack", lambda name: fails)
        assert run("redteam", folder, *FAST, "--seed", 1) == 130
    assert not Path("redteam-pdq").exists()
    assert run("redteam", folder, *FAST, "--seed", 2) == 0
    assert "1 image; every single result is in redteam-pdq\n" in capsys.readouterr().out
    assert run("redteam", folder, *FAST, "--seed", 3) == 2
    assert "redteam-pdq exists already; resume that run, or choose another folder" in complaint(capsys)
    assert run("redteam", folder, *FAST, "--seed", 3, "--resume") == 2
    assert "redteam-pdq is a run with another configuration: seed was 2, now 3" in complaint(capsys)


@pytest.mark.parametrize("arguments", [FAST, TRANSFORMS])
def test_what_is_no_run_folder_is_refused(
    arguments: tuple[object, ...], folder: Path, damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged.unlink()
    os.mkfifo("pipe")
    for out in ("/dev/full", "pipe", folder, folder / "b.png"):
        assert run("redteam", folder, *arguments, "--out", out) == 2
        assert f"{out} exists already; resume that run, or choose another folder" in complaint(capsys)
    for out, message in (
        ("/dev/full", "/dev/full is a file, not a folder; choose a folder for the run"),
        ("pipe", "pipe is a file, not a folder; choose a folder for the run"),
        (folder, f"{folder} is not empty and not a run folder"),
        (folder / "b.png", "b.png is a file, not a folder; choose a folder for the run"),
    ):
        assert run("redteam", folder, *arguments, "--out", out, "--resume") == 2
        assert message in complaint(capsys)
    assert [file.name for file in folder.iterdir()] == ["b.png"]


def test_run_folders_that_somebody_else_prepared_are_refused(
    folder: Path, damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing waits for a pipe or reads a device."""
    damaged.unlink()
    assert run("redteam", folder, *FAST, "--out", "run") == 0
    capsys.readouterr()
    config, results = Path("run/config.json"), Path("run/results.jsonl")
    written = config.read_bytes()
    for file in (config, results):
        config.write_bytes(written)
        for make in (os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to("x")):
            file.unlink()
            make(file)
            assert run("redteam", folder, *FAST, "--out", "run", "--resume") == 2
            assert file.name in complaint(capsys)
            if file.is_dir():
                file.rmdir()
                file.touch()
        file.unlink()
    for text in ("[]", "{", "[" * 100_000, '"\\ud800"', "{}"):
        config.write_text(text)
        assert run("redteam", folder, *FAST, "--out", "run", "--resume") == 2
        complaint(capsys)
    assert not Path("x").exists()


def test_transformations_are_resumed_in_a_folder_of_their_own(
    folder: Path, damaged: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged.unlink()
    assert run("redteam", folder, *FAST) == 0
    capsys.readouterr()
    assert run("redteam", folder, *TRANSFORMS) == 0
    shown = capsys.readouterr().out
    assert "abstentions count as evasions\n1 image; " in shown
    assert Path("redteam-pdq-transforms/results.jsonl").is_file()
    monkeypatch.setattr("dualshield.evaluation.parts.under_test.Defence", None)
    assert run("redteam", folder, *TRANSFORMS, "--resume") == 0
    assert capsys.readouterr().out == shown
    assert run("redteam", folder, *TRANSFORMS, "--resume", "--seed", 1) == 2
    assert "redteam-pdq-transforms is a run with another configuration: seed was 2026, now 1" in complaint(capsys)


def test_transformations_are_shown_in_two_groups(
    folder: Path, damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And with the views of the deployment, under which a mirrored copy is found."""
    damaged.unlink()
    Path("views.json").write_text('{"reference": [{}, {"mirror": true}], "query": [{}]}')
    views = ("--transforms", "--views", "views.json", "--matcher", "votes", "--against", "views")
    assert run("redteam", folder, *views, "--against", "original") == 0
    out = capsys.readouterr().out
    assert "evades views" in out
    assert "original is the plain hash, views the plain hash with views\n" in out
    above, below = out.split("Everyday edits\n")
    assert above.startswith("The paper's transformations\n")
    shown = [re.findall(r"[a-z-]+-[\d.]+", part) for part in (above, below)]
    assert shown == [["jpeg-95", "crop-0.9"], ["border-0.05", "caption-bar-0.08", "flip-1", "crop-0.9", "jpeg-30"]]
    (flip,) = [line for line in below.splitlines() if "flip-1" in line]
    assert re.findall(r"[\d.]+%", flip) == ["0.0%", "100.0%"]
    assert run("redteam", folder, *views[:-2], "--against", "original", "--out", "other") == 0
    assert "views" not in capsys.readouterr().out
    assert run("redteam", folder, *FAST, "--against", "views", "--views", "views.json", "--out", "third") == 2
    assert "the variant views is measured on transformations only" in complaint(capsys)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--transforms", "--views", "views.json"), ("original", "views", "smoothing", "both")),
        (("--transforms", "--views", "none"), VARIANTS),
        (("--views", "views.json"), VARIANTS),
    ],
)
def test_views_are_added_where_there_are_views_to_measure(
    arguments: tuple[str, ...], expected: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("views.json").write_text('{"reference": [{}, {"mirror": true}], "query": [{}]}')
    plans: list[RedTeamPlan] = []

    def stop(plan: RedTeamPlan, *_: object, **__: object) -> None:
        plans.append(plan)
        raise InputError("stopped")

    monkeypatch.setattr("dualshield.cli.redteam.run_plan", stop)
    assert run("redteam", folder, *arguments) == 2
    assert [plan.variants for plan in plans] == [expected]


def test_single_files_are_attacked_too(
    folder: Path, photo_files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("redteam", folder / "b.png", photo_files[2], *FAST, "--json", "--jobs", 1) == 0
    assert [rate["images"] for rate in json_lines(capsys)] == [2]


def test_a_run_is_reported_and_compared_like_those_of_the_evaluation(
    folder: Path, damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged.unlink()
    for seed in (1, 2):
        assert run("redteam", folder, *FAST, "--out", f"run-{seed}", "--seed", seed) == 0
    capsys.readouterr()
    assert run("compare", "run-1", "run-2", "--json") == 0
    assert "whitebox success at 40" in capsys.readouterr().out
    assert run("report", "run-1") == 0
    text = Path("run-1/report/report.md").read_text(encoding="utf-8")
    assert "| whitebox | pdq | original | 1 | 1 |" in text


@pytest.mark.parametrize(("methods", "told"), [(("pgd",), True), (("pgd", "eot-pgd"), False)])
def test_eot_pgd_is_recommended_only_where_it_was_not_tried(
    methods: tuple[str, ...], told: bool, folder: Path, damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged.unlink()
    chosen = [word for method in methods for word in ("--method", method)]
    assert run("redteam", folder, *chosen, "--budget", 2, "--against", "smoothing", "--matcher", "votes") == 0
    assert (f"warning: {NO_EOT}" in capsys.readouterr().out) == told
