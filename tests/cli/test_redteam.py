"""``dualshield redteam``: damaged files, journals that cannot be used, and what is printed at the end."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from dualshield.attacks import eot, pgd, transformations
from tests.helpers.command_line import complaint, run

FAST = ("--method", "pgd", "--budget", 40, "--against", "original")
TRANSFORMS = ("--transforms", "--against", "original")


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for module in (pgd, eot):
        monkeypatch.setitem(module.attack.__kwdefaults__, "steps", 20)


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
def test_a_damaged_file_is_skipped_and_counted(
    arguments: tuple[object, ...], folder: Path, damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("redteam", folder, *arguments) == 0
    out, err = capsys.readouterr()
    assert "\n1 image; " in out
    assert err.startswith(f"dualshield: skipped: {damaged}: ")
    assert err.endswith("\ndualshield: 1 image skipped\n")
    assert err.count("\n") == 2
    assert run("redteam", folder, *arguments, "--json") == 0
    out, err = capsys.readouterr()
    assert {rate["images"] for rate in json.loads(out)} == {1}
    assert err.endswith("\ndualshield: 1 image skipped\n")


@pytest.mark.parametrize("arguments", [FAST, TRANSFORMS])
def test_nothing_but_damaged_files_is_an_error(
    arguments: tuple[object, ...], folder: Path, damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "b.png").unlink()
    assert run("redteam", folder, *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert str(damaged) in err
    assert "none of the files can be read as an image" in err
    assert not list(Path().glob("*.journal"))


def test_a_run_that_failed_does_not_block_the_next(
    folder: Path, damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged.unlink()

    def fails(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dualshield.attacks.redteam.get_attack", lambda name: fails)
        assert run("redteam", folder, *FAST, "--seed", 1) == 130
    assert not Path("redteam-pdq.journal").exists()
    assert run("redteam", folder, *FAST, "--seed", 2) == 0
    assert "1 image; finished attacks are in redteam-pdq.journal\n" in capsys.readouterr().out
    assert run("redteam", folder, *FAST, "--seed", 3) == 2
    assert "the journal redteam-pdq.journal belongs to" in complaint(capsys)


@pytest.mark.parametrize("arguments", [FAST, TRANSFORMS])
def test_journals_that_are_no_files_are_refused(
    arguments: tuple[object, ...], folder: Path, damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged.unlink()
    os.mkfifo("pipe")
    for journal in ("/dev/full", "pipe", folder):
        assert run("redteam", folder, *arguments, "--journal", journal) == 2
        assert f"cannot use the journal: {journal} is not a regular file" in complaint(capsys)


def test_transformations_are_resumed_from_a_journal_of_their_own(
    folder: Path, damaged: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged.unlink()
    assert run("redteam", folder, *FAST) == 0
    capsys.readouterr()
    assert run("redteam", folder, *TRANSFORMS) == 0
    shown = capsys.readouterr().out
    assert "1 image; abstentions count as evasions; " in shown
    assert Path("redteam-pdq-transforms.journal").is_file()
    monkeypatch.setattr(transformations, "Defence", None)
    assert run("redteam", folder, *TRANSFORMS) == 0
    assert capsys.readouterr().out == shown
    assert run("redteam", folder, *TRANSFORMS, "--seed", 1) == 2
    assert "the journal redteam-pdq-transforms.journal belongs to" in complaint(capsys)


@pytest.mark.parametrize(("methods", "told"), [(("pgd",), True), (("pgd", "eot-pgd"), False)])
def test_eot_pgd_is_recommended_only_where_it_was_not_tried(
    methods: tuple[str, ...], told: bool, folder: Path, damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged.unlink()
    chosen = [word for method in methods for word in ("--method", method)]
    assert run("redteam", folder, *chosen, "--budget", 2, "--against", "smoothing") == 0
    assert (f"warning: {pgd.NO_EOT}" in capsys.readouterr().out) == told
