"""Manifests: others can check that they evaluate on the same images."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from dualshield.errors import InputError
from dualshield.evaluation.plan.manifest import Manifest
from dualshield.evaluation.run.records import Run
from tests.helpers.command_line import complaint, run

A, B = ("a" * 64, "b" * 64)


def written(path: Path, text: str) -> Path:
    file = path / "manifest.csv"
    file.write_text(text, encoding="utf-8")
    return file


def test_it_selects_what_it_lists_and_needs_all_of_it(tmp_path: Path) -> None:
    manifest = Manifest.read(written(tmp_path, f"dataset,file,sha256,licence\nset,a.png,{A},CC0\nset,b.png,{B},\n"))
    files = [Path("x/0.png"), Path("x/b.png"), Path("x/a.png")]
    assert manifest.select("set", files) == files[1:]
    with pytest.raises(InputError, match=r"set: 1 of 2 images in .*manifest.csv are missing: b.png"):
        manifest.select("set", files[2:])
    with pytest.raises(InputError, match="lists no dataset 'other', only set"):
        manifest.select("other", files)


def test_another_file_of_the_same_name_is_refused(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"right").hexdigest()
    manifest = Manifest.read(written(tmp_path, f"dataset,file,sha256\nset,a.png,{digest}\n"))
    manifest.check("set", "a.png", digest)
    with pytest.raises(InputError, match="differs from"):
        manifest.check("set", "a.png", A)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "lists no images"),
        ("dataset,file,sha256\n", "lists no images"),
        (f"file,sha256\na.png,{A}\n", "has no column dataset"),
        ("dataset,file,sha256\nset,a.png,abc\n", "line 2: needs a dataset"),
        (f"dataset,file,sha256\nset,../a.png,{A}\n", "line 2: needs a dataset"),
        ("dataset,file,sha256\nset\n", "line 2: needs a dataset"),
        (f"dataset,file,sha256\nset,a.png,{A}\nset,a.png,{B}\n", "line 3: set/a.png is listed twice"),
        ('dataset,file,sha256\n"set', "not a CSV file"),
    ],
)
def test_what_is_no_manifest_is_refused(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=why):
        Manifest.read(written(tmp_path, text))


def test_devices_and_binary_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a CSV file in UTF-8"):
        Manifest.read(tmp_path / "binary.csv")
    with pytest.raises(InputError, match="not a regular file"):
        Manifest.read(Path("/dev/zero"))


@pytest.mark.parametrize(("name", "images"), [("evaluation-images", 300), ("calibration-images", 1500)])
def test_the_shipped_manifests_are_whole(name: str, images: int) -> None:
    file = Path(__file__).parents[2] / "docs" / "data" / f"{name}.csv"
    assert sum(map(len, Manifest.read(file).images.values())) == images


def test_an_evaluation_measures_only_what_the_manifest_lists(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "photos"
    data.mkdir()
    for file in photo_files[:2]:
        shutil.copy(file, data)
    name = sorted(file.name for file in photo_files[:2])[1]
    digest = hashlib.sha256((data / name).read_bytes()).hexdigest()
    manifest = written(tmp_path, f"dataset,file,sha256\nphotos,{name},{digest}\n")
    options = ("--hash", "pdq", "--parts", "transforms", "--variants", "original", "--manifest", manifest, "-j", 1)
    assert run("evaluate", "--data", data, "--out", tmp_path / "run", *options) == 0
    assert list(Run.open(tmp_path / "run").config["data"]["photos"]) == [name]
    capsys.readouterr()
    (data / name).write_bytes((data / name).read_bytes() + b" ")
    assert run("evaluate", "--data", data, "--out", tmp_path / "again", *options) == 2
    assert f"photos/{name} differs from" in complaint(capsys)
    assert not (tmp_path / "again").exists()
