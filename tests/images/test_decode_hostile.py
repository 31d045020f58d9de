"""Hostile inputs: whatever is given to be decoded becomes an image, or one line that says why not."""

from __future__ import annotations

import importlib
import logging
import os
import struct
import threading
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from PIL import Image, ImageFile

from dualshield.errors import ImageError, InputError
from dualshield.images.decode import MAX_BYTES, decode
from tests.helpers.decoding import refused, scene
from tests.helpers.image_files import png, saved, tiff

pytestmark = pytest.mark.usefixtures("pillow_left_alone")

decode_module = importlib.import_module("dualshield.images.decode")  # the package may export a function decode


def test_paths_that_are_not_files(tmp_path: Path) -> None:
    refused(tmp_path / "missing.jpg", "no such file")
    refused(tmp_path, "folder")
    refused(tmp_path / "missing" / "a.jpg", "no such file")
    (tmp_path / "loop.png").symlink_to(tmp_path / "loop.png")
    refused(tmp_path / "loop.png", "cannot be read")
    (tmp_path / "file").write_bytes(b"x")
    refused(tmp_path / "file" / "a.png", "cannot be read")
    with pytest.raises(ImageError, match="cannot be read"):
        decode("a\0b.png")
    with pytest.raises(ImageError, match=r"no such file") as caught:
        decode("line\nbreak.png")
    assert "\n" not in str(caught.value)


def test_special_files_are_refused_and_do_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    refused(tmp_path / "pipe.png", "not a regular file")
    refused("/dev/zero", "not a regular file")


def test_a_pipe_swapped_in_after_the_check_does_not_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    regular, pipe = tmp_path / "a.png", tmp_path / "pipe.png"
    regular.write_bytes(b"x")
    os.mkfifo(pipe)
    status = regular.stat()
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", lambda *_: status)
        refused(pipe, "not a regular file")


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(saved(Image.fromarray(scene()), "PNG"))

    def denied(*_: object) -> NoReturn:
        raise PermissionError(13, "Permission denied")

    path.chmod(0)
    with monkeypatch.context() as patch:
        if os.geteuid() == 0:  # root may read everything
            patch.setattr(os, "open", denied)
        refused(path, "no permission")


def test_empty_and_oversized_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.png"
    path.touch()
    refused(path, "empty")
    refused(b"", "empty")
    os.truncate(path, MAX_BYTES + 1)  # sparse: takes no room
    refused(path, f"{MAX_BYTES:,}")
    data = saved(Image.fromarray(scene()), "PNG")
    monkeypatch.setattr(decode_module, "MAX_BYTES", len(data))
    assert decode(data).format == "PNG"
    refused(data + b"\0", "bytes is more than")


@pytest.mark.parametrize(
    "data",
    [
        b"hello, this is text and not an image at all",
        b"\0" * 1000,
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"\xff\xd8\xff",
        b"\x89PNG\r\n\x1a\n",
        b"GIF89a",
        b"BM" + bytes(60),
        b"II*\0\x08\0\0\0",
        b"RIFF\x10\0\0\0WEBPVP8 ",
        b"\0\0\0\x18ftypheic" + bytes(12),
        b"\0\0\0\x18ftypavif" + bytes(12),
    ],
)
def test_not_an_image(data: bytes) -> None:
    refused(data, "not a readable|damaged")


@pytest.mark.parametrize("kind", ["PPM", "TGA", "ICO", "PCX", "EPS", "PDF", "JPEG2000", "DDS", "ICNS"])
def test_formats_off_the_list_are_refused(kind: str) -> None:
    data = saved(Image.new("RGB", (64, 64), (1, 2, 3)), kind)
    refused(data, "not a readable")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "TIFF-lzw", "HEIF", "AVIF"])
@pytest.mark.parametrize("tolerant", [False, True])
def test_truncated_files_are_refused(kind: str, tolerant: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", tolerant)  # as another library may have done
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    options = {"compression": "tiff_lzw"} if kind == "TIFF-lzw" else {}
    data = saved(Image.fromarray(noise), kind.split("-")[0], **options)
    assert decode(data).width == 64
    for part in (0.1, 0.5, 0.9):
        refused(data[: int(len(data) * part)], "truncated|not a readable|has no pixels")
    assert ImageFile.LOAD_TRUNCATED_IMAGES is tolerant


def test_pillow_logs_nothing_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])  # no pytest handlers: Python would fall back to stderr
    data = tiff(np.zeros((4, 4), np.uint8), 1, 8, tags={273: 8, 277: 251, 279: 16})
    refused(data, "not a readable")


def test_zero_size() -> None:
    refused(png(0, 5, 8, 0, b""), "not a readable|no pixels")
    refused(b"GIF89a" + bytes(7) + b"," + bytes(9) + b"\x02\x00;", "not a readable|no pixels|damaged")


@pytest.mark.parametrize("pillow_limit", [None, 10, 10**12])
def test_only_our_pixel_limit_counts(pillow_limit: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", pillow_limit)
    data = saved(Image.fromarray(scene()), "PNG")
    assert decode(data, max_pixels=24 * 40).width == 40
    refused(data, "40 x 24 is more than 959 pixels", max_pixels=24 * 40 - 1)
    refused(data, "too large|more than 2 pixels", max_pixels=2)
    restored = Image.MAX_IMAGE_PIXELS
    assert restored == pillow_limit


@pytest.mark.parametrize(
    "data",
    [
        png(60_000, 60_000, 8, 2, b""),
        png(12_000, 10_001, 8, 2, b""),
        b"GIF89a" + struct.pack("<HHBBB", 65535, 65535, 0, 0, 0) + b"," + bytes(9) + b"\x02\x00;",
        b"BM" + struct.pack("<IIIIiiHHIIIIII", 54, 0, 54, 40, 50_000, 50_000, 1, 24, 0, 0, 0, 0, 0, 0),
        tiff(np.zeros((1, 1), np.uint8), 1, 8, width=50_000, height=50_000),
        tiff(np.zeros((4, 4), np.uint8), 1, 8, tags={259: 5, 322: 32000, 323: 32000, 324: 8, 325: 16}),
        b"RIFF\x20\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\xff\xff\0" * 2 + bytes(2),
    ],
    ids=["png", "png-just-over", "gif", "bmp", "tiff", "tiff-tile", "webp"],
)
def test_decompression_bombs(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> NoReturn:
        raise AssertionError("a bomb was decoded")

    monkeypatch.setattr(ImageFile.ImageFile, "load_prepare", never)
    refused(data, "more than 120,000,000 pixels|too large")


@pytest.mark.parametrize(
    "error",
    [MemoryError(), KeyError("x"), struct.error("s\n2"), EOFError(), RecursionError(), RuntimeError()],
)
def test_whatever_a_decoder_raises_becomes_an_image_error(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> NoReturn:
        raise error

    monkeypatch.setattr(ImageFile.ImageFile, "load", fail)
    refused(saved(Image.fromarray(scene()), "JPEG"), "damaged|too large")


def test_wrong_limit() -> None:
    with pytest.raises(InputError, match="max_pixels"):
        decode(b"x", max_pixels=0)


def test_threads_share_pillow_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    data = saved(Image.fromarray(scene()), "PNG")
    outcomes: list[str] = []

    def work(limit: int) -> None:
        for _ in range(20):
            try:
                outcomes.append(decode(data, max_pixels=limit).format)
            except ImageError:
                outcomes.append("refused")

    threads = [threading.Thread(target=work, args=(limit,)) for limit in (959, 960, 10**6, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["PNG"] * 40 + ["refused"] * 40
    assert Image.MAX_IMAGE_PIXELS == 10


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "TIFF-lzw", "BMP"])
def test_damaged_bytes_give_an_image_or_an_image_error(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    exif = Image.Exif()
    exif[274] = 6
    options: dict[str, Any] = {"compression": "tiff_lzw"} if kind == "TIFF-lzw" else {}
    if kind not in ("GIF", "BMP"):
        options["exif"] = exif
    valid = saved(Image.fromarray(scene()), kind.split("-")[0], **options)
    random = np.random.default_rng(len(valid))
    decoded = refusals = 0
    for trial in range(150):
        data = bytearray(valid)
        # Half of the damage goes to the header, where most of the parsing is.
        reach = len(data) if trial % 2 else min(len(data), 200)
        for place in random.integers(0, reach, size=1 + trial % 3):
            data[place] ^= int(random.integers(1, 256))
        if trial % 5 == 0:
            del data[int(random.integers(1, len(data))) :]
        try:
            image = decode(bytes(data), max_pixels=1_000_000)
        except ImageError as error:
            refusals += 1
            lines = str(error).splitlines()
            assert len(lines) == 1
        else:
            decoded += 1
            assert image.pixels.shape == (image.height, image.width, 3)
            assert 0 <= image.pixels.min() <= image.pixels.max() <= 1
    if kind == "TIFF-lzw":
        capfd.readouterr()  # libtiff writes its complaints to stderr from C, out of Python's reach
    assert refusals > 10
    assert decoded > 10 or kind == "PNG"  # PNG guards every chunk with a checksum
