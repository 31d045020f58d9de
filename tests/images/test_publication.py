"""Published files: what is opened, and that everything is as it was where nothing is added."""

from __future__ import annotations

import struct
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dualshield.errors import ImageError, InputError
from dualshield.images import decode, load_image
from dualshield.images.publication import Publication
from tests.helpers.image_files import SUFFIXES, Pixels, saved
from tests.helpers.published import ALL_FORMATS, NOTHING, error_of, opened, publication, smooth
from tests.helpers.scenes import DEEP, PROFILE, RGBA, exif, grey, scene

# --- what is opened ---


@pytest.mark.parametrize("kind", [*ALL_FORMATS, "GIF"])
def test_canonical_is_what_load_image_gives(kind: str, tmp_path: Path) -> None:
    found = publication(tmp_path, saved(scene(), kind), kind)
    path = tmp_path / f"photo{SUFFIXES.get(kind, '.' + kind.lower())}"
    expected = load_image(path)
    assert torch.equal(found.canonical.pixels, expected.pixels)
    assert found.canonical.name == expected.name == str(path)
    assert found.canonical.upload_size == found.size == (200, 120)
    assert (found.format, found.opacity) == (kind, None)
    assert found.suffix("keep") == path.suffix
    assert (found.suffix("png"), found.suffix("jpeg")) == (".png", ".jpg")


def test_the_file_is_read_once(tmp_path: Path) -> None:
    found = publication(tmp_path, saved(scene(), "PNG"))
    (tmp_path / "photo.png").write_bytes(saved(255 - scene(), "PNG"))
    assert np.array_equal(opened(found.encode(NOTHING)), scene())


def test_the_suffix_is_the_files_own(tmp_path: Path) -> None:
    path = tmp_path / "A.b.JPEG"
    path.write_bytes(saved(scene(), "JPEG"))
    assert Publication.open(str(path)).suffix("keep") == ".JPEG"


@pytest.mark.parametrize(
    "content", [b"", b"text, not an image", saved(scene(), "PNG")[:900], saved(scene(), "JPEG")[:900]]
)
def test_a_bad_file_is_reported_as_by_decode(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.png"
    path.write_bytes(content)
    with pytest.raises(ImageError) as expected:
        decode(path)
    with pytest.raises(ImageError) as found:
        Publication.open(path)
    assert str(found.value) == str(expected.value)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="no such file"):
        Publication.open(tmp_path / "missing.png")
    with pytest.raises(ImageError, match="this is a folder"):
        Publication.open(tmp_path)


@pytest.mark.parametrize("size", [(63, 200), (200, 63)])
def test_small_images_are_refused(size: tuple[int, int], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"{size[0]}x{size[1]} is too small to harden; give at least 64 px"):
        publication(tmp_path, saved(scene(*size), "PNG"))
    assert publication(tmp_path, saved(scene(64, 64), "PNG")).size == (64, 64)


# --- nothing added, nothing changed ---


@pytest.mark.parametrize(
    ("kind", "image", "options"),
    [
        ("PNG", scene(), {}),
        ("PNG", RGBA, {}),
        ("PNG", grey(), {}),
        ("PNG", RGBA[..., [0, 3]], {}),
        ("PNG", DEEP, {}),
        ("TIFF", scene(), {}),
        ("TIFF", scene(), {"compression": "tiff_lzw"}),
        ("TIFF", scene(), {"compression": "zstd"}),
        ("TIFF", RGBA, {"compression": "packbits"}),
        ("TIFF", grey(), {"compression": "tiff_adobe_deflate"}),
        ("TIFF", RGBA[..., [0, 3]], {}),
        ("TIFF", DEEP, {"compression": "tiff_lzw"}),
        ("TIFF", DEEP.astype(">u2"), {}),
        ("TIFF", DEEP.astype(np.int32), {}),
        ("TIFF", (DEEP / 65535).astype(np.float32), {}),
        ("WEBP", scene(), {"lossless": True}),
        ("WEBP", RGBA, {"lossless": True, "exact": True}),
        ("WEBP", RGBA, {"lossless": True, "exact": True, "exif": exif(), "icc_profile": PROFILE}),
        ("BMP", scene(), {}),
        ("BMP", grey(), {}),
    ],
)
def test_lossless_formats_are_reproduced(kind: str, image: Pixels, options: dict[str, Any], tmp_path: Path) -> None:
    data = saved(image, kind, **options)
    before = publication(tmp_path, data, kind)
    published = before.encode(NOTHING)
    one, two = opened(data), opened(published)
    assert (two.format, two.mode.rstrip("B"), two.size) == (one.format, one.mode.rstrip("B"), one.size)
    assert np.array_equal(np.asarray(one), np.asarray(two))
    assert two.info.get("compression") == one.info.get("compression")
    assert torch.equal(load_image(published).pixels, before.canonical.pixels)


@pytest.mark.parametrize("mode", ["P", "1", "CMYK", "YCbCr", "LAB"])
def test_modes_that_cannot_be_perturbed_become_ones_that_can(mode: str, tmp_path: Path) -> None:
    image = Image.fromarray(scene())
    image = Image.frombytes("LAB", image.size, image.tobytes()) if mode == "LAB" else image.convert(mode)
    kind = "PNG" if mode in ("P", "1") else "TIFF"
    before = publication(tmp_path, saved(image, kind), kind)
    published = before.encode(NOTHING)
    assert opened(published).mode == ("L" if mode == "1" else "RGB")
    assert torch.equal(load_image(published).pixels, before.canonical.pixels)
    assert error_of(before, before.encode(smooth()), smooth()) < (0.1 if mode not in ("1", "LAB") else 1)


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "AVIF", "HEIF"])
def test_lossy_formats_barely_change(kind: str, tmp_path: Path) -> None:
    before = publication(tmp_path, saved(scene(), kind, quality=90), kind)
    published = before.encode(NOTHING)
    assert opened(published).format == kind
    assert opened(published).size == (200, 120)
    assert float((load_image(published).pixels - before.canonical.pixels).abs().mean()) < 1 / 255


def test_white_is_zero_and_twelve_bit_grey(tmp_path: Path) -> None:
    white_is_zero = saved(65535 - DEEP, "TIFF", tiffinfo={262: 0})
    before = publication(tmp_path, white_is_zero, "TIFF")
    assert before.canonical.pixels.mean() == pytest.approx(float(DEEP.mean()) / 65535, abs=1e-3)
    published = before.encode(NOTHING)
    assert np.array_equal(np.asarray(opened(published)), DEEP)
    twelve = b"".join(bytes([a >> 4, (a & 15) << 4 | b >> 8, b & 255]) for a, b in (DEEP >> 4).reshape(-1, 2).tolist())
    tags = {256: 200, 257: 120, 258: 12, 259: 1, 262: 1, 273: 8, 277: 1, 278: 120, 279: len(twelve)}
    body = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    tiff = b"II*\0" + struct.pack("<I", 8 + len(twelve)) + twelve + struct.pack("<H", len(tags)) + body + bytes(4)
    before = publication(tmp_path, tiff, "TIFF")
    assert before.canonical.pixels.mean() == pytest.approx(float((DEEP >> 4).mean()) / 4095, abs=1e-3)
    torch.testing.assert_close(load_image(before.encode(NOTHING)).pixels, before.canonical.pixels, rtol=0, atol=1e-5)


# --- as a whole ---


def test_a_gradient_and_other_precisions_are_welcome(tmp_path: Path) -> None:
    before = publication(tmp_path, saved(scene(), "PNG"))
    delta = smooth()
    assert before.encode(delta.double().requires_grad_()) == before.encode(delta)
    assert torch.equal(delta, smooth())  # left alone


@pytest.mark.parametrize("kind", ALL_FORMATS)
def test_the_same_input_gives_the_same_bytes_in_every_thread(kind: str, tmp_path: Path) -> None:
    before = publication(tmp_path, saved(scene(), kind), kind)
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(before.encode(smooth()))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [before.encode(smooth())] * 2


def test_twelve_megapixels(tmp_path: Path) -> None:
    data = saved(Image.fromarray(scene()).resize((4000, 3000)), "JPEG", quality=85, exif=exif())
    before = publication(tmp_path, data, "JPEG")
    published = before.encode(smooth())
    assert opened(published).size == (4000, 3000)
    assert error_of(before, published, smooth()) < 0.25
