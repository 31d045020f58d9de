from __future__ import annotations

import importlib
import logging
import os
import struct
import threading
import warnings
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageFile

from dualshield.errors import ImageError, InputError
from dualshield.images.decode import IMAGE_SUFFIXES, MAX_BYTES, MAX_PIXELS, decode, list_images

Pixels = npt.NDArray[Any]
decode_module = importlib.import_module("dualshield.images.decode")  # the package may export a function decode
LOSSLESS = ("PNG", "BMP", "TIFF", "WEBP")
SUFFIXES = {"JPEG": ".jpg", "HEIF": ".heic"}


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def scene(height: int = 24, width: int = 40) -> Pixels:
    """Smooth and without any symmetry, so that codecs keep it and a wrong turn shows."""
    y, x = np.mgrid[0:height, 0:width]
    channels = [x / (width - 1), y / (height - 1), (x + 2 * y) / (width + 2 * height)]
    return (np.stack(channels, axis=2) * 235 + 10).round().astype(np.uint8)


def png(width: int, height: int, depth: int, colour: int, raw: bytes, *extra: tuple[bytes, bytes]) -> bytes:
    """A PNG by hand, for headers and chunks that Pillow would not write."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    chunks = [(b"IHDR", header), *extra, (b"IDAT", zlib.compress(raw)), (b"IEND", b"")]
    body = b"".join(struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d)) for t, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + body


def tiff(
    samples: Pixels,
    photometric: int,
    bits: int,
    kind: int = 1,
    order: str = "<",
    tags: dict[int, int] | None = None,
    height: int = 0,
    width: int = 0,
) -> bytes:
    """An uncompressed one-strip grey TIFF by hand: `kind` is 1 unsigned, 2 signed, 3 float."""
    data = samples.tobytes()
    height, width = height or int(samples.shape[0]), width or int(samples.shape[1])
    basic: dict[int, int] = {256: width, 257: height, 258: bits, 259: 1, 262: photometric, 277: 1, 339: kind}
    all_tags = basic | (tags or {273: 8, 278: height, 279: len(data)})
    ifd = struct.pack(order + "H", len(all_tags))
    ifd += b"".join(struct.pack(order + "HHII", tag, 4, 1, value) for tag, value in sorted(all_tags.items()))
    magic = b"II*\0" if order == "<" else b"MM\0*"
    return magic + struct.pack(order + "I", 8 + len(data)) + data + ifd + bytes(4)


def refused(source: str | os.PathLike[str] | bytes, match: str, max_pixels: int = MAX_PIXELS) -> None:
    with pytest.raises(ImageError, match=match) as caught:
        decode(source, max_pixels=max_pixels)
    message = str(caught.value)
    assert "\n" not in message
    assert "; " in message  # what; what to do next
    assert message.startswith("<bytes>" if isinstance(source, bytes) else os.fspath(source))


@pytest.fixture(autouse=True)
def pillow_left_alone(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """No decoding may print anything or leave Pillow's switches or the warning filters changed."""
    before = (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, list(warnings.filters))
    yield
    assert (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, list(warnings.filters)) == before
    assert capfd.readouterr() == ("", "")


# --- formats and modes ---


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


DEEP = np.array([[0, 1, 255, 256], [4095, 32768, 65534, 65535]])


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


# --- orientation ---

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


# --- hostile inputs ---


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


# --- folders ---


def test_list_images(tmp_path: Path) -> None:
    for name in ("b.JPG", "a.png", "c.heic", ".hidden.png", "notes.txt", "noext", "d.tar.webp"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "folder.png" / "inner.png").write_bytes(b"x")
    (tmp_path / "dangling.png").symlink_to(tmp_path / "nowhere.png")
    os.mkfifo(tmp_path / "pipe.png")
    expected = [tmp_path / name for name in ("a.png", "b.JPG", "c.heic", "d.tar.webp")]
    assert list_images(tmp_path) == expected
    assert list_images(str(tmp_path)) == expected


def test_list_images_refuses_what_is_no_folder_of_images(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="no such folder"):
        list_images(tmp_path / "missing")
    with pytest.raises(ImageError, match="no such folder"):
        list_images("")
    with pytest.raises(ImageError, match="holds no images"):
        list_images(tmp_path)
    (tmp_path / "a.txt").write_bytes(b"x")
    with pytest.raises(ImageError, match="holds no images"):
        list_images(tmp_path)
    with pytest.raises(ImageError, match="not a folder"):
        list_images(tmp_path / "a.txt")
    with pytest.raises(ImageError, match="cannot be listed"):
        list_images("a\0b")
