"""``dualshield attack`` and ``dualshield redteam``."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from PIL import Image

from dualshield.attacks.eot import Eot
from dualshield.attacks.methods import METHODS
from dualshield.attacks.pgd import Pgd
from dualshield.hashes import get_hash
from dualshield.images import load_image
from dualshield.smoothing.deploy import deploy
from dualshield.transforms import ALL_TRANSFORMS
from tests.helpers.command_line import complaint, json_lines, run

FIELDS = {"method", "success", "success_float", "l2", "linf", "ssim", "queries", "steps", "seconds", "warnings"}


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(METHODS, "pgd", Pgd(steps=40))
    monkeypatch.setitem(METHODS, "eot-pgd", Eot(steps=40))


def test_pgd_evades_plain_pdq(photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "adv.png"
    arguments = ("attack", photo_files[1], "-o", out, "--method", "pgd", "--budget", 40, "--hash", "pdq")
    assert run(*arguments, "--preview", tmp_path / "p.png", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record.keys() >= FIELDS | {"reference", "query", "hash", "against", "output"}
    assert record["deployment"] == deploy("pdq").digest
    assert record["success"]
    hash_ = get_hash("pdq")
    codes = [hash_.code(load_image(file).pixels) for file in (photo_files[1], out)]
    assert not hash_.matches(*codes)
    with Image.open(tmp_path / "p.png") as preview:
        assert preview.width > 3 * 512


def test_what_exists_is_kept_unless_told_otherwise(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, link = tmp_path / "adv.png", tmp_path / "link.png"
    file.write_text("precious")
    link.symlink_to(file)
    for target in (file, link):
        for option in ("-o", "--preview"):
            assert run("attack", photo_files[1], option, target, "--budget", 1) == 2
            assert f"{target} exists already; use --overwrite, or choose another name" in complaint(capsys)
    assert file.read_text() == "precious"
    assert run("attack", photo_files[1], "-o", link, "--budget", 1, "--overwrite") == 0
    assert link.is_symlink()
    with Image.open(file) as written:
        assert written.format == "PNG"


def test_no_output_is_an_input(photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photo, profile, link = tmp_path / "p.jpg", tmp_path / "profile.json", tmp_path / "link"
    shutil.copy(photo_files[1], photo)
    profile.write_text("{}")
    link.hardlink_to(photo)
    before = photo.read_bytes()
    for arguments in (
        (photo, "-o", photo),
        (photo, "-o", link),
        (photo, "--preview", photo),
        (photo_files[1], photo, "-o", photo),
        (photo, "-o", profile, "--profile", profile),
    ):
        assert run("attack", *arguments, "--overwrite") == 2, arguments
        assert "it is the same file as the input" in complaint(capsys), arguments
    assert photo.read_bytes() == before
    assert profile.read_text() == "{}"


def test_only_regular_files_are_replaced(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe, device = tmp_path / "pipe", tmp_path / "device"
    os.mkfifo(pipe)
    device.symlink_to("/dev/null")
    for node in (pipe, device):
        for option in ("-o", "--preview"):
            assert run("attack", photo_files[1], option, node, "--overwrite") == 2
            assert f"cannot write {node}: it is not a regular file" in complaint(capsys)
    assert pipe.is_fifo()
    assert device.is_symlink()


@pytest.mark.parametrize("against", ["smoothing", "both"])
def test_a_small_budget_does_not_evade_the_defence(
    against: str, photo_files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("attack", photo_files[1], "--budget", 1, "--against", against) == 0
    assert "eot-pgd FAILED against pdq" in capsys.readouterr().out


def test_bad_usage(photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photo, other = photo_files[:2]
    for arguments, message in (
        ((photo, "--budget", 0), "budget"),
        ((photo, "--budget", -3), "budget"),
        ((photo, other), "to begin with"),
        ((photo, "-o", tmp_path / "no" / "a.png"), "cannot write"),
        ((photo, "-o", tmp_path), "cannot write"),
        ((photo, "--method", "collision"), "needs a QUERY; give an unrelated image"),
        ((photo, photo, "--method", "collision"), "already"),
        ((photo, "--method", "magic"), "magic"),
        ((photo, "--hash", "pdq", "--against", "both", "--strength", 5), "strength 5.0 is not in"),
        ((photo, "--hash", "nope"), "nope"),
        ((tmp_path / "missing.png",), "no such file"),
    ):
        assert run("attack", *arguments) == 2, arguments
        assert message in complaint(capsys), arguments


def test_several_hashes_are_attacked_at_once(
    photo_files: list[Path], network_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("pdq", network_name)
    out = tmp_path / "adv.png"
    assert run("attack", photo_files[1], "-o", out, "--budget", 20, "--hash", "+".join(names), "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["hash"], record["success"]) == ("pdq+network", True)
    for hash_ in map(get_hash, names):
        codes = [hash_.code(load_image(file).pixels) for file in (photo_files[1], out)]
        assert not hash_.matches(*codes)


def test_several_hashes_that_cannot_be_attacked(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, card = tmp_path / "program", tmp_path / "program.yaml"
    program.write_text("#!/bin/sh\necho 0123456789abcdef\n")
    program.chmod(0o700)
    card.write_text('name: program\nbits: 64\ncommand: [./program, "{file}"]\n')
    for command in (("attack", photo_files[1]), ("redteam", photo_files[1].parent, "--limit", 1)):
        for name, message in (
            ("pdq+nope", "unknown hash 'nope'"),
            ("pdq+", "unknown hash ''"),
            ("pdq+pdq", "different hashes"),
            (f"pdq+{card}", "program has no gradient"),
        ):
            assert run(*command, "--hash", name) == 2, name
            assert message in complaint(capsys), name


def test_redteam_on_several_hashes_and_its_resume(
    photo_files: list[Path],
    network_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    shutil.copy(photo_files[1], folder)
    arguments = ("redteam", folder, "--hash", f"pdq+{network_name}", "--method", "eot-pgd", "--against", "original")
    budgets = ("--cost", "--budget", 0.5, "--budget", 30)
    assert run(*arguments, *budgets) == 0
    shown = capsys.readouterr().out
    assert "cost of evasion, original, eot-pgd: " in shown
    assert (tmp_path / "redteam-pdq+network" / "results.jsonl").is_file()

    def never(*_: object, **__: object) -> None:
        raise AssertionError("attacked again")

    monkeypatch.setattr("dualshield.evaluation.parts.attacked.get_attack", lambda name: never)
    assert run(*arguments, *budgets, "--json", "--resume") == 0
    assert [rate["success"] for rate in json_lines(capsys)] == [0.0, 1.0]


def test_redteam_and_its_resume(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for file in photo_files[1:3]:
        shutil.copy(file, folder)
    arguments = ("redteam", folder, "--method", "pgd", "--budget", 40, "--budget", 0.5, "--against", "original")
    assert run(*arguments, "--json") == 0
    rates = json_lines(capsys)
    assert [(rate["budget"], rate["success"]) for rate in rates] == [(0.5, 0.0), (40.0, 1.0)]
    assert all(rate["images"] == 2 for rate in rates)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("attacked again")

    monkeypatch.setattr("dualshield.evaluation.parts.attacked.get_attack", lambda name: never)
    assert run(*arguments, "--json", "--resume") == 0
    assert json_lines(capsys) == rates
    assert run(*arguments) == 2
    assert "redteam-pdq exists already; resume that run, or choose another folder" in complaint(capsys)
    assert run(*arguments, "--resume", "--against", "smoothing") == 2
    assert 'redteam-pdq is a run with another configuration: variants was ["original"]' in complaint(capsys)


def test_redteam_collides_with_the_next_image(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in photo_files[1:3]:
        shutil.copy(file, tmp_path)
    arguments = ("--method", "collision", "--budget", 180, "--against", "original", "--out", tmp_path / "run")
    assert run("redteam", tmp_path, *arguments, "--json") == 0
    (rate,) = json_lines(capsys)
    assert (rate["images"], rate["unmatched"]) == (2, 0)
    assert rate["success"] == 1.0


def test_redteam_transforms(photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(photo_files[1], tmp_path)
    variants = ("--against", "original", "--against", "smoothing")
    arguments = ("redteam", tmp_path, "--transforms", *variants, "--views", "none")
    assert run(*arguments, "--json") == 0
    rates = {(rate["variant"], rate["transform"]): rate for rate in json_lines(capsys)}
    assert len(rates) == 2 * len(ALL_TRANSFORMS)
    for variant in ("original", "smoothing"):
        assert rates[variant, "jpeg-95"]["success"] == 0
        assert rates[variant, "flip-1"]["success"] == 1
        assert rates[variant, "jpeg-95"]["paper"]
        assert not rates[variant, "flip-1"]["paper"]
    assert run(*arguments, "--resume") == 0
    assert "Everyday edits" in capsys.readouterr().out


def test_redteam_bad_usage(photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    folder = tmp_path / "one"
    folder.mkdir()
    shutil.copy(photo_files[1], folder)
    for arguments, message in (
        ((tmp_path / "empty",), "holds no images"),
        ((tmp_path / "missing",), "no such folder"),
        ((tmp_path / "empty", "--budget", 0), "budget"),
        ((tmp_path / "empty", "--limit", 0), "limit"),
        ((folder, "--method", "collision"), "second image"),
        ((folder, "--method", "collision", "--cost"), "collisions without"),
        ((folder, "--transforms", "--budget", 40), "takes no --method, --budget or --cost"),
    ):
        assert run("redteam", *arguments) == 2, arguments
        assert message in complaint(capsys), arguments
