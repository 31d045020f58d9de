"""Decoding turns images upright, as their EXIF says or, in HEIF, their own property."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dualshield.images.decode import decode
from tests.helpers.decoding import DEEP, scene
from tests.helpers.image_files import Pixels, saved

pytestmark = pytest.mark.usefixtures("pillow_left_alone")

UPRIGHT: dict[int, Callable[[Pixels], Pixels]] = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    8: lambda a: np.rot90(a),
}


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", "TIFF-lzw", "HEIF", "AVIF"])
def test_exif_orientation(kind: str, orientation: int) -> None:
    stored = scene(32, 64)
    exif = Image.Exif()
    exif[274] = orientation
    options: dict[str, Any] = {"lossless": True} if kind == "WEBP" else {}
    options |= {"compression": "tiff_lzw"} if kind == "TIFF-lzw" else {"quality": 95}
    image = decode(saved(Image.fromarray(stored), kind.split("-")[0], exif=exif.tobytes(), **options))
    expected = UPRIGHT[orientation](stored) / 255
    assert (image.height, image.width) == expected.shape[:2]
    assert image.pixels.flags.c_contiguous
    assert np.abs(image.pixels - expected).mean() < 0.02


def test_heif_turns_by_its_own_property_and_not_by_exif() -> None:
    exif = Image.Exif()
    exif[274] = 6
    data = saved(Image.fromarray(scene(32, 64)), "HEIF", exif=exif.tobytes())
    assert data.count(b"irot") == 1
    assert decode(data).width == 32
    # As the HEIF standard has it: without the rotation property, EXIF alone turns nothing.
    assert decode(data.replace(b"irot", b"free")).width == 64


def test_orientation_turns_deep_grey_and_alpha_too() -> None:
    exif = Image.Exif()
    exif[274] = 6
    deep = decode(saved(Image.fromarray(DEEP.astype("<u2")), "PNG", exif=exif)).pixels
    assert np.abs(deep[..., 0] - np.rot90(DEEP, -1) / 65535).max() < 1e-6
    alpha = Image.fromarray(np.array([[[0, 0, 0, 255], [0, 0, 0, 0]]], np.uint8))
    assert np.array_equal(decode(saved(alpha, "PNG", exif=exif)).pixels[..., 0], [[0], [1]])


@pytest.mark.parametrize("orientation", [0, 9, 4242])
def test_impossible_orientation_is_ignored(orientation: int) -> None:
    exif = Image.Exif()
    exif[274] = orientation
    image = decode(saved(Image.fromarray(scene()), "PNG", exif=exif))
    assert np.allclose(image.pixels, scene() / 255)


@pytest.mark.parametrize(
    "exif",
    [b"Exif\0\0", b"Exif\0\0garbage", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0MM\0*\0\0\0\x08\xff"],
)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_broken_exif_means_no_orientation(kind: str, exif: bytes) -> None:
    image = decode(saved(Image.fromarray(scene()), kind, exif=exif, lossless=True))
    assert np.abs(image.pixels - scene() / 255).mean() < 0.03
