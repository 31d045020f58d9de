"""``dualshield calibrate``: from a folder of photos to a profile that ``match`` uses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image, ImageOps

from dualshield.calibration.measure import Calibration
from dualshield.hashes import get_hash
from dualshield.images import list_images, load_image
from dualshield.smoothing.profile import Profile
from dualshield.transforms import PAPER_TRANSFORMS
from tests.helpers.command_line import complaint, run

GRID = ("--grid", "none:0.4,0.2", "--grid", "32:0.4")
POINTS = [(None, 0.2), (None, 0.4), (32, 0.4)]
FEW = ("--images", 6, "--variant-images", 2, "--radius-images", 2, "--draws", 50)
SMALL = (*GRID, *FEW)


def undated(profile: Profile) -> Profile:
    return replace(profile, measured={**profile.measured, "date": None})


@pytest.fixture(scope="module", autouse=True)
def few_variants() -> Iterator[None]:
    """A few of the many edits, each of which costs a calibration a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dualshield.calibration.looked.ALL_TRANSFORMS", PAPER_TRANSFORMS[::4])
        yield


@pytest.fixture(scope="module")
def data(photo_files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """18 small pictures: each sample photo, mirrored, and a corner of it."""
    folder = tmp_path_factory.mktemp("photos")
    for file in photo_files:
        with Image.open(file) as image:
            photo = image.convert("RGB").resize((256, 256))
        for kind, picture in (
            ("whole", photo),
            ("mirrored", ImageOps.mirror(photo)),
            ("corner", photo.crop((0, 0, 128, 128))),
        ):
            picture.save(folder / f"{kind}-{file.stem}.png")
    return folder


@pytest.fixture(scope="module")
def uninterrupted(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The profile that a small run writes."""
    out = tmp_path_factory.mktemp("calibrated") / "pdq.json"
    assert run("calibrate", "--hash", "pdq", "--data", data, "-o", out, *SMALL) == 0
    return out


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The sigmas measured so far; nothing is measured twice unnoticed."""
    measured: list[float] = []
    draw_level = Calibration._draw_level

    def spy(self: Calibration, sampler: Any, sigma: float, source: Any) -> Any:
        measured.append(sigma)
        return draw_level(self, sampler, sigma, source)

    monkeypatch.setattr(Calibration, "_draw_level", spy)
    return measured


def test_it_writes_a_profile_and_shows_it(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "own.json"
    assert run("calibrate", "--hash", "pdq", "--data", data, "-o", out, *SMALL) == 0
    shown, err = capsys.readouterr()
    assert [line.split()[:2] for line in err.splitlines()] == [["dualshield:", "collisions"], ["dualshield:", "the"]]
    profile = Profile.load(out)
    assert (profile.hash, profile.hash_version, profile.threshold) == ("pdq", "1", 0.2)
    assert [(point.lowpass, point.sigma) for point in profile.grid] == POINTS
    assert (profile.measured["photos"], profile.measured["draws"]) == (6, 50)
    assert (profile.lowpass, profile.sigma) in POINTS
    # 6 photos and 5 blanks: 15 pairs of photos, 30 of a photo and a blank.
    assert profile.measured["pairs"] == 45
    assert profile.measured["collisions_at_most"] == pytest.approx(1 - 0.05 ** (1 / 45))
    lines = shown.splitlines()
    for title in ("variants' radius", "largest unrelated vote share"):
        assert all(word in shown for word in title.split())
    assert "of variants" not in shown
    assert "worst unrelated" not in shown
    assert profile.exact is not None
    assert sum("│" in line for line in lines) == len(POINTS) + 1 + len(profile.exact.sigmas)
    assert any(line.startswith("exact: mean radius") for line in lines)
    assert any(
        line.startswith("collisions: 45 pairs of unrelated images") and "at most 6.441 %" in line for line in lines
    )
    assert any(line.startswith(f"chosen: low-pass {profile.lowpass or 'none'}, sigma up to 0.4") for line in lines)
    assert lines[-1] == f"written: {out}"
    assert list(tmp_path.iterdir()) == [out]


def test_json_is_the_profile(
    data: Path, uninterrupted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "own.json"
    assert run("calibrate", "--data", data, "-o", out, *SMALL, "--json") == 0
    shown, err = capsys.readouterr()
    assert all(line.startswith("dualshield: ") for line in err.splitlines())
    assert Profile.parse(shown, "stdout") == Profile.load(out)
    # The same seed measures the same.
    assert undated(Profile.load(out)) == undated(Profile.load(uninterrupted))


def test_match_uses_it(uninterrupted: Path, photo_files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    profile = Profile.load(uninterrupted)
    assert run("match", photo_files[0], photo_files[0], "--profile", uninterrupted, "--n", 200, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["decision"], result["lowpass"], result["sigma"]) == ("match", profile.lowpass, profile.sigma)


@pytest.fixture
def own_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's profile folder, which is not there yet; the current folder is another one."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("DUALSHIELD_PROFILES", str(tmp_path / "own" / "profiles"))
    return tmp_path / "own" / "profiles"


def test_by_default_it_writes_where_every_command_looks(
    data: Path,
    own_profiles: Path,
    network_name: str,
    photo_files: list[Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The hash has no shipped profile, as one from an entry point."""
    match = ("match", photo_files[0], photo_files[0], "--hash", network_name, "--n", 100, "--json")
    assert run(*match) == 0
    assert "is not calibrated" in capsys.readouterr().err
    assert run("calibrate", "--hash", network_name, "--data", data, *FEW, "--grid", "none:0.02,0.05") == 0
    file = own_profiles / "network.profile.json"
    assert capsys.readouterr().out.splitlines()[-1] == f"written: {file}"
    assert list(own_profiles.iterdir()) == [file]
    assert list(Path.cwd().iterdir()) == []
    assert run(*match) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out)["sigma"] in (0.02, 0.05)


def test_the_profile_of_a_card_goes_beside_it(
    data: Path, own_profiles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = tmp_path / "own.yaml"
    card.write_text("name: fixed\nbits: 64\nside: 8\ncommand: [echo, 0123456789abcdef]\n")
    one = ("--grid", "none:0.1", "--images", 2, "--variant-images", 1, "--radius-images", 1, "--draws", 5)
    assert run("calibrate", "--hash", card, "--data", data, *one) == 0
    assert f"written: {tmp_path / 'own.profile.json'}" in capsys.readouterr().out
    assert not own_profiles.exists()


def test_few_photos_and_a_short_grid_are_warned_of(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "own.json"
    assert run("calibrate", "--data", data, "-o", out, *FEW, "--grid", "32:0.1,0.2") == 0
    few, short = capsys.readouterr().err.splitlines()
    assert few.startswith(
        "dualshield: collisions were measured on 45 pairs, which only shows that they are below 6.45 %"
    )
    assert short == ("dualshield: the best sigma 0.2 is the largest of the grid; try a larger grid, 32:0.1,0.2,0.3,0.4")


# -- thresholds ------------------------------------------------------------------------------------


def test_fpr_chooses_the_threshold_on_all_photos(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "own.json"
    assert run("calibrate", "--data", data, "-o", out, *FEW, "--grid", "none:0.001", "--fpr", 0.02, "--json") == 0
    profile = Profile.parse(capsys.readouterr().out, "stdout")
    assert profile.measured["fpr"] == 0.02
    assert profile.measured["threshold"] == profile.threshold
    hash_ = get_hash("pdq").with_threshold(profile.threshold)
    codes = torch.stack([hash_.code(load_image(file).pixels) for file in list_images(data)])
    distances = torch.stack([(a ^ b).sum() for i, a in enumerate(codes) for b in codes[:i]])
    allowed = 0.02 * len(distances)
    assert len(distances) == 18 * 17 // 2
    assert (distances <= hash_.max_distance).sum() <= allowed < (distances <= hash_.max_distance + 1).sum()


def test_a_given_threshold(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "own.json"
    assert run("calibrate", "--data", data, "-o", out, *SMALL, "--threshold", 0.3) == 0
    assert Profile.load(out).threshold == 0.3


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--fpr", "0.0001"), "cannot be measured on 153 pairs"),
        (("--fpr", "0"), "false-match rate 0"),
        (("--fpr", "nan"), "false-match rate nan"),
        (("--threshold", "0.5"), "threshold 0.5"),
        (("--threshold", "nan"), "threshold nan"),
        (("--threshold", "0.2", "--fpr", "0.02"), "either --threshold or --fpr"),
        (("--grid", "abc"), "grid 'abc'"),
        (("--grid", "32"), "grid '32'"),
        (("--grid", "32:"), "grid '32:'"),
        (("--grid", "32:0.1,x"), "grid '32:0.1,x'"),
        (("--grid", ":0.1"), "grid ':0.1'"),
        (("--grid", "64:0"), "positive sigmas"),
        (("--grid", "64:nan"), "positive sigmas"),
        (("--grid", "32:0.1"), "names a low-pass twice"),
        (("--grid", "64:0.1,0.1"), "a sigma twice"),
        (("--grid", "1:0.1"), "not 1"),
        (("--grid", "1000:0.1"), "not 1000"),
        (("--images", "1"), "images 1"),
        (("--variant-images", "0"), "variant images 0"),
        (("--radius-images", "0"), "radius images 0"),
        (("--draws", "0"), "draws 0"),
        (("--alpha", "1"), "alpha 1"),
        (("--seed", "-1"), "seed -1"),
        (("--seed", str(2**64)), f"seed {2**64}"),
        (("--engine", "tensorrt"), "unknown engine 'tensorrt'"),
        (("--device", "abacus"), "unknown device 'abacus'"),
        (("--batch-size", "0"), "batch size 0"),
        (("--hash", "md5"), "unknown hash 'md5'"),
    ],
    ids=" ".join,
)
def test_parameters_that_cannot_be_used(
    options: tuple[str, ...], named: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("calibrate", "--data", data, "-o", tmp_path / "own.json", *SMALL, *options) == 2
    assert named in complaint(capsys)
    assert list(tmp_path.iterdir()) == []  # refused before anything was begun


def test_cuda_without_cuda(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run("calibrate", "--data", data, "-o", tmp_path / "own.json", *SMALL, "--device", "cuda") == 2
    assert "no CUDA" in complaint(capsys)


def test_the_batch_size_reaches_the_engine(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    draw_level = Calibration._draw_level

    def spy(self: Calibration, sampler: Any, sigma: float, source: Any) -> Any:
        sizes.append(sampler.engine.batch_size)
        return draw_level(self, sampler, sigma, source)

    monkeypatch.setattr(Calibration, "_draw_level", spy)
    assert run("calibrate", "--data", data, "-o", tmp_path / "own.json", *SMALL, "--batch-size", 7) == 0
    assert sizes == [7] * len(POINTS)


# -- photos ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fpr", [(), ("--fpr", 0.1)])
def test_a_broken_photo_is_skipped(
    fpr: tuple[object, ...], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for file in list_images(data)[:5]:
        shutil.copy(file, folder)
    broken = folder / "aaa.jpg"
    broken.write_bytes(b"not an image")
    out = tmp_path / "own.json"
    assert run("calibrate", "--data", folder, "-o", out, *SMALL, *fpr) == 0
    err = capsys.readouterr().err
    assert err.startswith(f"dualshield: skipped: {broken}")
    assert err.count("dualshield: skipped: ") == 1
    assert Profile.load(out).measured["photos"] == 5


@pytest.mark.parametrize("fpr", [(), ("--fpr", 0.1)])
def test_a_folder_with_nothing_readable(
    fpr: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jpg").write_bytes(b"not an image")
    assert run("calibrate", "--data", tmp_path, "-o", tmp_path / "own.json", *SMALL, *fpr) == 2
    out, err = capsys.readouterr()
    assert out == ""
    skipped, reason = err.splitlines()
    assert skipped.startswith("dualshield: skipped: ")
    assert reason == "dualshield: calibration needs at least 2 photos, got 0"


def test_folders_without_photos(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("no photo")
    photo = list_images(data)[0]
    for folder, reason in ((tmp_path, "no images"), (tmp_path / "gone", "no such folder"), (photo, "not a folder")):
        assert run("calibrate", "--data", folder, "-o", tmp_path / "own.json", *SMALL) == 2
        line = complaint(capsys)
        assert str(folder) in line
        assert reason in line


# -- output ----------------------------------------------------------------------------------------


def test_outputs_that_cannot_be_written(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], draws: list[float]
) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "blocked.json.journal").mkdir()
    for out, reason in (
        (tmp_path / "gone" / "own.json", "does not exist"),
        (tmp_path / "file" / "own.json", "does not exist"),
        (tmp_path, "it is a folder"),
        (".", "it is a folder"),
        (tmp_path / "blocked.json", "blocked.json.journal: it is a folder"),
        (tmp_path / ("long" * 100), "cannot"),
    ):
        assert run("calibrate", "--data", data, "-o", out, *SMALL) == 2
        assert reason in complaint(capsys)
    assert draws == []


# -- interruptions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("levels", "left"), [(0, [0.2, 0.4, 0.4]), (1, [0.2, 0.4, 0.4]), (2, [0.4])])
def test_an_interrupted_run_goes_on_where_it_stopped(
    levels: int,
    left: list[float],
    data: Path,
    uninterrupted: Path,
    tmp_path: Path,
    draws: list[float],
    capsys: pytest.CaptureFixture[str],
) -> None:
    out, journal = tmp_path / "own.json", tmp_path / "own.json.journal"
    command = ("calibrate", "--data", data, "-o", out, *SMALL)
    draw_level = Calibration._draw_level

    def interrupted(self: Calibration, sampler: Any, sigma: float, source: Any) -> Any:
        if len(draws) == levels:
            raise KeyboardInterrupt
        return draw_level(self, sampler, sigma, source)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Calibration, "_draw_level", interrupted)
        assert run(*command) == 130
    assert complaint(capsys) == "dualshield: interrupted\n"
    assert not out.exists()
    assert journal.exists() == (levels == 2)  # it begins when the first low-pass is finished
    draws.clear()
    assert run(*command) == 0
    assert draws == left
    assert undated(Profile.load(out)) == undated(Profile.load(uninterrupted))
    assert not journal.exists()


@pytest.mark.parametrize("content", [b"", b"{}\n", bytes(range(256))], ids=["empty", "other settings", "garbage"])
def test_a_journal_of_something_else_is_refused_and_kept(
    content: bytes, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], draws: list[float]
) -> None:
    journal = tmp_path / "own.json.journal"
    journal.write_bytes(content)
    assert run("calibrate", "--data", data, "-o", tmp_path / "own.json", *SMALL) == 2
    line = complaint(capsys)
    assert str(journal) in line
    assert "other settings" in line
    assert journal.read_bytes() == content
    assert draws == []


@pytest.mark.parametrize("change", [("--seed", 1), ("--draws", 51), ("--grid", "64:0.4"), ("--threshold", 0.1)])
def test_a_run_does_not_resume_one_with_other_settings(
    change: tuple[object, ...],
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    measure = Calibration._measure

    def interrupted(self: Calibration, lowpass: int | None, *rest: Any) -> Any:
        if lowpass is not None:
            raise KeyboardInterrupt
        return measure(self, lowpass, *rest)

    monkeypatch.setattr(Calibration, "_measure", interrupted)
    command = ("calibrate", "--data", data, "-o", tmp_path / "own.json", *SMALL)
    assert run(*command) == 130
    capsys.readouterr()
    assert run(*command, *change) == 2
    assert "other settings" in complaint(capsys)
