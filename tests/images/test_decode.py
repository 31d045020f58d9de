"""Decoding: every format, mode and depth, as the pixels that a person would see."""

from __future__ import annotations

import struct
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dualshield.images.decode import IMAGE_SUFFIXES, decode
from tests.helpers.decoding import DEEP, refused, scene
from tests.helpers.image_files import SUFFIXES, png, saved, tiff

pytestmark = pytest.mark.usefixtures("pillow_left_alone")

LOSSLESS = ("PNG", "BMP", "TIFF", "WEBP")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "HEIF", "AVIF"])
def test_every_format_round_trips(kind: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"lossless": True} if kind == "WEBP" else {"quality": 95}
    path = tmp_path / f"scene{SUFFIXES.get(kind, '.' + kind.lower())}"
    path.write_bytes(saved(Image.fromarray(scene()), kind, **options))
    image = decode(path)
    assert (image.format, image.name, image.width, image.height) == (kind, str(path), 40, 24)
    assert image.pixels.dtype == np.float32
    assert image.pixels.shape == (24, 40, 3)
    assert image.pixels.flags.c_contiguous
    error = np.abs(image.pixels - scene() / 255)
    assert error.max() < (1e-6 if kind in LOSSLESS else 0.1)
    assert error.mean() < (1e-6 if kind in LOSSLESS else 0.025)
    assert path.suffix in IMAGE_SUFFIXES


def test_bytes_and_str_give_the_same_as_a_path(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(saved(Image.fromarray(scene()), "PNG"))
    from_bytes = decode(path.read_bytes())
    assert from_bytes.name == "<bytes>"
    assert np.array_equal(from_bytes.pixels, decode(path).pixels)
    assert np.array_equal(from_bytes.pixels, decode(str(path)).pixels)


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "GIF", "BMP"])
def test_palette(kind: str) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([255, 0, 0, 0, 51, 204])
    image.putpixel((1, 0), 1)
    assert np.allclose(decode(saved(image, kind)).pixels, [[[1.0, 0.0, 0.0], [0.0, 0.2, 0.8]]])


@pytest.mark.parametrize("transparency", [0, b"\x00\xff", b"\x33\xff"])
def test_palette_transparency_shows_white(transparency: int | bytes) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([255, 0, 0, 0, 51, 204])
    image.putpixel((1, 0), 1)
    alpha = 0.2 if transparency == b"\x33\xff" else 0.0
    pixels = decode(saved(image, "PNG", transparency=transparency)).pixels
    assert np.allclose(pixels, [[[1, 1 - alpha, 1 - alpha], [0, 0.2, 0.8]]])


def test_transparent_gif_shows_white() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([255, 0, 0, 0, 51, 204])
    image.putpixel((1, 0), 1)
    assert np.allclose(decode(saved(image, "GIF", transparency=0)).pixels, [[[1.0, 1.0, 1.0], [0.0, 0.2, 0.8]]])


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
def test_rgba_is_composited_over_white_in_float(kind: str) -> None:
    rgba = np.zeros((16, 256, 4), np.uint8)
    rgba[...] = 100, 200, 50, 0
    rgba[..., 3] = np.arange(256)
    options: dict[str, Any] = {"lossless": True, "exact": True} if kind == "WEBP" else {}
    pixels = decode(saved(Image.fromarray(rgba), kind, **options)).pixels
    alpha = np.arange(256)[None, :, None] / 255
    expected = np.broadcast_to(np.array([100, 200, 50]) / 255 * alpha + 1 - alpha, pixels.shape)
    assert np.abs(pixels - expected).max() < 1e-6  # 8-bit compositing would be off by up to 2e-3
    assert np.array_equal(pixels[:, 255], np.broadcast_to(np.array([100, 200, 50], np.float32) / 255, (16, 3)))


def test_rgb_colour_key_shows_white() -> None:
    image = Image.fromarray(np.array([[[255, 0, 0], [0, 0, 255]]], np.uint8))
    assert np.allclose(decode(saved(image, "PNG", transparency=(255, 0, 0))).pixels, [[[1, 1, 1], [0, 0, 1]]])


def test_heif_alpha_shows_white() -> None:
    image = Image.new("RGBA", (32, 32), (255, 0, 0, 0))
    image.paste((255, 0, 0, 255), (16, 0, 32, 32))
    pixels = decode(saved(image, "HEIF", quality=-1)).pixels
    assert np.allclose(pixels[:, :14], 1, atol=0.03)
    assert np.allclose(pixels[:, 18:], [1, 0, 0], atol=0.03)


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_grey_grey_alpha_and_one_bit(kind: str) -> None:
    assert np.allclose(decode(saved(Image.new("L", (3, 2), 51), kind)).pixels, 0.2)
    assert np.allclose(decode(saved(Image.new("LA", (3, 2), (0, 51)), kind)).pixels, 0.8)
    bits = Image.fromarray(np.array([[True, False, True]]))
    assert bits.mode == "1"
    assert np.array_equal(decode(saved(bits, kind)).pixels[0, :, 1], [1, 0, 1])


def test_premultiplied_grey_tiff() -> None:
    # Grey 51 already multiplied by alpha 102/255, so over white: 0.2 + 0.6
    data = saved(Image.frombytes("LA", (2, 1), bytes([51, 102] * 2)), "TIFF")
    extra_samples = struct.pack("<HHI", 338, 3, 1)
    assert extra_samples + b"\x02" in data
    data = data.replace(extra_samples + b"\x02", extra_samples + b"\x01")  # associated alpha
    with Image.open(BytesIO(data)) as opened:
        assert opened.mode == "La"
    assert np.allclose(decode(data).pixels, 0.8, atol=0.003)


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_cmyk(kind: str) -> None:
    image = Image.new("CMYK", (16, 16), (255, 0, 0, 51))
    assert np.allclose(decode(saved(image, kind)).pixels, [0, 0.8, 0.8], atol=0.02)


def test_ycck_jpeg() -> None:
    # Pillow writes plain CMYK; Adobe transform 2 declares the same samples to be YCCK.
    data = saved(Image.new("CMYK", (16, 16), (127, 127, 127, 0)), "JPEG")
    marker = data.index(b"Adobe") + 11
    assert data[marker] == 0
    pixels = decode(data[:marker] + b"\x02" + data[marker + 1 :]).pixels
    assert np.ptp(pixels) < 0.05
    assert 0.4 < pixels.mean() < 0.6


def test_lab_and_ycbcr_tiff() -> None:
    lab = Image.frombytes("LAB", (4, 4), bytes([128, 0, 0] * 16))
    pixels = decode(saved(lab, "TIFF")).pixels
    assert np.ptp(pixels) < 0.02  # a = b = 0 is neutral
    assert 0.42 < pixels.mean() < 0.52  # L* = 50 is sRGB 0.466
    grey = Image.new("YCbCr", (4, 4), (51, 128, 128))
    assert np.allclose(decode(saved(grey, "TIFF")).pixels, 0.2, atol=0.005)


@pytest.mark.parametrize(
    "data",
    [
        saved(Image.fromarray(DEEP.astype("<u2")), "PNG"),
        saved(Image.fromarray(DEEP.astype("<u2")), "TIFF"),
        tiff(DEEP.astype(">u2"), 1, 16, order=">"),
        tiff((65535 - DEEP).astype("<u2"), 0, 16),
        tiff(DEEP.astype("<i4"), 1, 32, 2),
        tiff(DEEP.astype("<u4"), 1, 32, 1),
        tiff((DEEP / 65535).astype("<f4"), 1, 32, 3),
        tiff((1 - DEEP / 65535).astype("<f4"), 0, 32, 3),
    ],
    ids=["png", "tiff-le", "tiff-be", "white-is-zero", "int32", "uint32", "float", "float-white-is-zero"],
)
def test_deep_grey_keeps_its_values(data: bytes) -> None:
    pixels = decode(data).pixels
    assert pixels.flags.c_contiguous
    assert np.abs(pixels - DEEP[..., None] / 65535).max() < 1e-6
    assert pixels.max() == 1


def test_twelve_bit_grey_is_scaled_by_its_own_white() -> None:
    packed = np.frombuffer(bytes([0xFF, 0xF0, 0x00, 0x80, 0x00, 0x00]), np.uint8).reshape(1, 6)
    pixels = decode(tiff(packed, 1, 12, width=4)).pixels
    assert np.allclose(pixels[0, :, 0], [1, 0, 2048 / 4095, 0])


def test_deep_grey_colour_key_shows_white() -> None:
    raw = b"\0" + struct.pack(">HH", 300, 301)
    pixels = decode(png(2, 1, 16, 0, raw, (b"tRNS", struct.pack(">H", 300)))).pixels
    assert np.allclose(pixels[0, :, 0], [1, 301 / 65535])


@pytest.mark.parametrize("bad", [-0.01, 1.01, 255.0, np.nan, np.inf, -np.inf])
def test_float_samples_outside_the_unit_range_are_refused(bad: float) -> None:
    samples = np.full((2, 2), 0.5, "<f4")
    samples[1, 1] = bad
    refused(tiff(samples, 1, 32, 3), r"outside \[0, 1\]")


@pytest.mark.parametrize("bad", [-1, 65536, 2**31 - 1])
def test_integer_samples_beyond_16_bits_are_refused(bad: int) -> None:
    refused(tiff(np.array([[0, bad]], "<i4"), 1, 32, 2), r"outside \[0, 65535\]")


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF", "AVIF"])
def test_first_frame_of_two(kind: str) -> None:
    first, second = Image.new("RGB", (32, 24), (255, 0, 0)), Image.new("RGB", (32, 24), (0, 0, 255))
    data = saved(first, kind, save_all=True, append_images=[second])
    with Image.open(BytesIO(data)) as opened:
        assert getattr(opened, "n_frames", 1) == 2
    assert np.allclose(decode(data).pixels, [1, 0, 0], atol=0.05)


def test_jpeg_with_a_second_picture_is_a_jpeg() -> None:
    image = Image.fromarray(scene())
    data = saved(image, "MPO", save_all=True, append_images=[Image.new("RGB", (40, 24))])
    decoded = decode(data)
    assert decoded.format == "JPEG"
    assert np.abs(decoded.pixels - scene() / 255).mean() < 0.03


@pytest.mark.parametrize("kind", ["AVIF", "HEIF"])
def test_neutral_brand_finds_the_right_decoder(kind: str) -> None:
    data = saved(Image.fromarray(scene()), kind)
    assert data[4:8] == b"ftyp"
    decoded = decode(data[:8] + b"mif1" + data[12:])
    assert decoded.format == kind
    assert np.abs(decoded.pixels - scene() / 255).mean() < 0.05
