"""Published files: the format and quality asked for, and what cannot be had."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, JpegImagePlugin
from PIL.PngImagePlugin import PngInfo

from dualshield.errors import ImageError, InputError
from dualshield.images import load_image
from dualshield.images.publication import Format
from tests.helpers.image_files import Pixels, saved
from tests.helpers.published import NOTHING, error_of, opened, publication, smooth
from tests.helpers.scenes import DEEP, PROFILE, RGBA, exif, grey, palette, scene


@pytest.mark.parametrize(("quality", "sampling"), [(None, 0), (90, 0), (89, 2)])
def test_png_to_jpeg(quality: int | None, sampling: int, tmp_path: Path) -> None:
    data = saved(scene(), "PNG", icc_profile=PROFILE, exif=exif(), dpi=(300, 300))
    before = publication(tmp_path, data)
    published = before.encode(smooth(), "jpeg", quality)
    two = opened(published)
    assert two.format == "JPEG"
    assert two.info["icc_profile"] == PROFILE
    assert two.info["dpi"] == (300, 300)
    assert two.getexif()[0x0110] == "Camera 9"
    assert two.quantization == opened(saved(scene(), "JPEG", quality=quality or 95)).quantization
    assert JpegImagePlugin.get_sampling(two) == sampling
    assert error_of(before, published, smooth()) < 0.25


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "HEIF"])
def test_everything_can_become_png(kind: str, tmp_path: Path) -> None:
    before = publication(tmp_path, saved(scene(), kind), kind)
    published = before.encode(NOTHING, "png")
    assert opened(published).format == "PNG"
    assert torch.equal(load_image(published).pixels, before.canonical.pixels)
    assert error_of(before, before.encode(smooth(), "png"), smooth()) < 0.1


@pytest.mark.parametrize(
    ("image", "mode"), [(DEEP, "I;16"), ((DEEP / 65535).astype(np.float32), "I;16"), (grey(), "L")]
)
def test_deep_grey_in_other_formats(image: Pixels, mode: str, tmp_path: Path) -> None:
    before = publication(tmp_path, saved(image, "TIFF"), "TIFF")
    found = opened(before.encode(NOTHING, "png"))
    assert found.mode == mode
    torch.testing.assert_close(
        load_image(before.encode(NOTHING, "png")).pixels, before.canonical.pixels, rtol=0, atol=1e-5
    )
    assert opened(before.encode(NOTHING, "jpeg")).mode == "L"
    assert (load_image(before.encode(NOTHING, "jpeg")).pixels - before.canonical.pixels).abs().mean() < 0.01


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "AVIF", "HEIF", "TIFF"])
def test_quality_is_used(kind: str, tmp_path: Path) -> None:
    options = {"compression": "jpeg"} if kind == "TIFF" else {}
    before = publication(tmp_path, saved(scene(), kind, **options), kind)
    low, high, usual = (len(before.encode(smooth(), quality=quality)) for quality in (20, 98, None))
    assert low < 0.8 * high
    assert low < usual


@pytest.mark.parametrize("quality", [0, -1, 101])
def test_impossible_quality(quality: int, tmp_path: Path) -> None:
    before = publication(tmp_path, saved(scene(), "JPEG"), "JPEG")
    with pytest.raises(InputError, match=rf"quality is {quality}; give 1 to 100"):
        before.encode(NOTHING, quality=quality)


@pytest.mark.parametrize(
    ("kind", "format", "match"),
    [
        ("PNG", "keep", "PNG has no quality"),
        ("PNG", "png", "PNG has no quality"),
        ("JPEG", "png", "PNG has no quality"),
        ("BMP", "keep", "BMP has no quality"),
        ("TIFF", "keep", "lossless TIFF has no quality"),
        ("WEBP", "keep", "lossless WEBP has no quality"),
    ],
)
def test_lossless_formats_have_no_quality(kind: str, format: Format, match: str, tmp_path: Path) -> None:
    before = publication(tmp_path, saved(scene(), kind, lossless=True), kind)
    with pytest.raises(InputError, match=match):
        before.encode(NOTHING, format, 90)


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF", "AVIF", "GIF"])
def test_animations_and_pages_become_png_only(kind: str, tmp_path: Path) -> None:
    second = Image.fromarray(255 - scene())
    data = saved(scene(), kind, save_all=True, append_images=[second], **({"lossless": True} if kind == "WEBP" else {}))
    before = publication(tmp_path, data, kind)
    with pytest.raises(InputError, match="cannot be kept; use the format png, which publishes"):
        before.encode(NOTHING)
    published = before.encode(NOTHING, "png")
    assert getattr(opened(published), "n_frames", 1) == 1
    assert torch.equal(load_image(published).pixels, before.canonical.pixels)


def test_a_still_gif_cannot_be_kept(tmp_path: Path) -> None:
    before = publication(tmp_path, saved(scene(), "GIF"), "GIF")
    with pytest.raises(InputError, match="GIF cannot be kept; use the format png"):
        before.encode(NOTHING)
    with pytest.raises(InputError, match="GIF cannot be kept"):
        before.check()


def test_transparency_cannot_become_jpeg(tmp_path: Path) -> None:
    for data in (saved(RGBA, "PNG"), palette(3), saved(DEEP, "PNG", transparency=int(DEEP[5, 5]))):
        with pytest.raises(InputError, match="JPEG cannot hold its transparency; use the format png"):
            publication(tmp_path, data).encode(NOTHING, "jpeg")


def test_transparent_bmp(tmp_path: Path) -> None:
    masks = struct.pack("<IIII", 0xFF0000, 0xFF00, 0xFF, 0xFF000000)
    header = struct.pack("<IiiHHIIIIII", 108, 200, -120, 1, 32, 3, 200 * 120 * 4, 0, 0, 0, 0) + masks + bytes(52)
    data = b"BM" + struct.pack("<IHHI", 122 + 200 * 120 * 4, 0, 0, 122) + header + RGBA[..., [2, 1, 0, 3]].tobytes()
    assert opened(data).mode == "RGBA"
    with pytest.raises(InputError, match="BMP cannot hold its transparency; use the format png"):
        publication(tmp_path, data, "BMP").encode(NOTHING)
    assert np.array_equal(np.asarray(opened(publication(tmp_path, data, "BMP").encode(NOTHING, "png"))), RGBA)


def test_unknown_format_and_wrong_perturbations(tmp_path: Path) -> None:
    before = publication(tmp_path, saved(scene(), "PNG"))
    with pytest.raises(InputError, match="format is 'gif'; use keep, png or jpeg"):
        before.encode(NOTHING, "gif")  # type: ignore[arg-type]
    for wrong in (NOTHING[:1], NOTHING[None], NOTHING + float("nan")):
        with pytest.raises(InputError, match=r"give finite numbers of shape \(3, 512, 512\)"):
            before.encode(wrong)


def test_what_pillow_cannot_write_is_one_line(tmp_path: Path) -> None:
    text = PngInfo()
    text.add_itxt("XML:com.adobe.xmp", "x" * 70_000)
    before = publication(tmp_path, saved(scene(), "PNG", pnginfo=text))
    with pytest.raises(
        ImageError, match=r"photo\.png: cannot be written as JPEG \(ValueError: XMP data is too long\); "
    ):
        before.encode(NOTHING, "jpeg")
