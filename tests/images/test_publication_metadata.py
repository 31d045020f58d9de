"""Published files keep their metadata: EXIF, XMP, colour profiles, tables, tags and chunks."""

from __future__ import annotations

import re
import struct
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, JpegImagePlugin
from PIL.PngImagePlugin import PngInfo
from PIL.TiffImagePlugin import ImageFileDirectory_v2

from dualshield.images import load_image
from dualshield.images.publication import Format
from tests.helpers.image_files import chunk, saved
from tests.helpers.published import NOTHING, error_of, opened, publication, smooth
from tests.helpers.scenes import PROFILE, RGBA, TURNED, XMP, exif, grey, palette, scene


def test_jpeg_keeps_all_its_blocks(tmp_path: Path) -> None:
    icc = PROFILE + bytes(70_000)  # more than fits in one segment
    data = saved(scene(), "JPEG", quality=85, exif=exif(), icc_profile=icc, xmp=XMP, dpi=(300, 300), comment=b"by hand")
    iptc = b"Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\x0a\x1c\x02\x78\0\x05Hello"
    extended = b"http://ns.adobe.com/xmp/extension/\0" + b"x" * 60_000
    signature = b"JP\0\x01\0\0\0\x01jumb"
    blocks = [(0xE1, extended), (0xEB, signature), (0xED, iptc)]
    extra = b"".join(struct.pack(">BBH", 0xFF, code, len(text) + 2) + text for code, text in blocks)
    before = publication(tmp_path, data[:2] + data[2:20] + extra + data[20:], "JPEG")
    one, two = opened(before._data), opened(before.encode(smooth()))
    assert two.info["exif"] == one.info["exif"]
    assert two.info["icc_profile"] == icc
    assert two.info["xmp"] == XMP
    assert two.info["dpi"] == (300, 300)
    assert two.info["comment"] == b"by hand"
    assert two.info["photoshop"] == one.info["photoshop"] != {}
    kept = [(name, content) for name, content in one.applist if name != "APP11"]
    assert two.applist == kept


@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("progressive", [False, True])
def test_jpeg_keeps_its_tables(subsampling: int, progressive: bool, tmp_path: Path) -> None:
    data = saved(scene(), "JPEG", quality=71, subsampling=subsampling, progressive=progressive)
    two = opened(publication(tmp_path, data, "JPEG").encode(smooth()))
    assert two.quantization == opened(data).quantization
    assert JpegImagePlugin.get_sampling(two) == subsampling
    assert bool(two.info.get("progressive")) is progressive
    chosen = opened(publication(tmp_path, data, "JPEG").encode(smooth(), "jpeg", 96))
    assert chosen.quantization == opened(saved(scene(), "JPEG", quality=96)).quantization
    assert JpegImagePlugin.get_sampling(chosen) == subsampling


def test_grey_jpeg_and_one_without_a_jfif_header(tmp_path: Path) -> None:
    data = saved(grey(), "JPEG", quality=60)
    two = opened(publication(tmp_path, data, "JPEG").encode(smooth()))
    assert two.mode == "L"
    assert two.quantization == opened(data).quantization
    data = saved(scene(), "JPEG", exif=exif())
    assert data[2:4] == b"\xff\xe0"
    two = opened(publication(tmp_path, data[:2] + data[20:], "JPEG").encode(smooth()))
    assert [name for name, _ in two.applist] == ["APP0", "APP1"]


def test_three_tables_and_unusual_sampling(tmp_path: Path) -> None:
    tables = [[1 + i // 8] * 64 for i in (0, 16, 40)]
    data = saved(scene(), "JPEG", qtables=tables, subsampling=1)
    two = opened(publication(tmp_path, data, "JPEG").encode(smooth()))
    assert list(two.quantization.values()) == tables
    place = data.index(b"\xff\xc0") + 4 + 6
    assert data[place + 1] == 0x21
    # Declaring 4:4:0 turns 4:2:2 data into a picture of half the width and twice the height.
    upright = (
        data[: place - 5] + struct.pack(">HH", 240, 100) + data[place - 1 : place + 1] + b"\x12" + data[place + 2 :]
    )
    before = publication(tmp_path, upright, "JPEG")
    assert JpegImagePlugin.get_sampling(opened(upright)) == -1
    assert JpegImagePlugin.get_sampling(opened(before.encode(NOTHING))) == 0


def test_noisy_progressive_jpeg(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (200, 300, 3), np.uint8)
    data = saved(noise, "JPEG", quality=92, progressive=True, subsampling=2)
    before = publication(tmp_path, data, "JPEG")
    assert float((load_image(before.encode(NOTHING, quality=100)).pixels - before.canonical.pixels).abs().mean()) < 0.02
    capfd.readouterr()  # libjpeg may say that its buffer was too small


def test_cmyk_jpeg_becomes_rgb_without_its_profile(tmp_path: Path) -> None:
    image = Image.fromarray(scene()).convert("CMYK")
    data = saved(image, "JPEG", quality=90, icc_profile=b"a profile of inks", exif=exif())
    before = publication(tmp_path, data, "JPEG")
    for format in ("keep", "png"):
        two = opened(before.encode(smooth(), format))
        assert two.mode == "RGB"
        assert "icc_profile" not in two.info
        assert two.getexif()[0x0110] == "Camera 9"
        assert error_of(before, before.encode(smooth(), format), smooth()) < 0.25


def test_mpo_keeps_its_first_picture(tmp_path: Path) -> None:
    data = saved(scene(), "MPO", save_all=True, append_images=[Image.fromarray(255 - scene())], quality=85)
    before = publication(tmp_path, data, "MPO")
    published = before.encode(smooth())
    assert opened(published).format == "JPEG"
    assert "mp" not in opened(published).info
    assert opened(published).quantization == opened(data).quantization
    assert error_of(before, published, smooth()) < 0.25


def test_png_keeps_all_its_chunks(tmp_path: Path) -> None:
    text = PngInfo()
    text.add_text("Author", "Ada")
    text.add_text("Long", "zip" * 500, zip=True)
    text.add_itxt("Title", "Größe", lang="de", tkey="Titel")
    text.add_itxt("XML:com.adobe.xmp", XMP.decode())
    data = saved(scene(), "PNG", pnginfo=text, icc_profile=PROFILE, exif=exif(), dpi=(300, 150))
    copied = chunk(b"gAMA", struct.pack(">I", 45455)) + chunk(b"bKGD", bytes(6)) + chunk(b"teSt", b"safe to copy")
    stale = chunk(b"caBX", b"a signature of the old pixels")
    late = chunk(b"tEXt", b"Late\0after the pixels")
    data = data[:33] + copied + stale + data[33:-12] + late + data[-12:]
    before = publication(tmp_path, data)
    published = before.encode(smooth())
    one, two = opened(data), opened(published)
    assert two.info == one.info
    assert two.text == one.text
    assert set(two.text) == {"Author", "Long", "Title", "XML:com.adobe.xmp", "Late"}
    assert two.info["dpi"] == pytest.approx((300, 150), abs=0.02)
    assert copied in published
    assert published.endswith(late + data[-12:])
    assert b"caBX" not in published


def test_a_background_goes_with_the_palette_it_points_into(tmp_path: Path) -> None:
    data = palette()
    published = publication(tmp_path, data[:33] + chunk(b"sBIT", b"\5\5\5") + data[33:]).encode(NOTHING)
    assert b"sBIT" not in published
    assert b"PLTE" not in published


@pytest.mark.parametrize("kind", ["WEBP", "AVIF", "HEIF"])
@pytest.mark.parametrize("format", ["keep", "png", "jpeg"])
def test_other_formats_keep_profile_exif_and_xmp(kind: str, format: Format, tmp_path: Path) -> None:
    data = saved(scene(), kind, icc_profile=PROFILE, exif=exif(), xmp=XMP)
    two = opened(publication(tmp_path, data, kind).encode(smooth(), format))
    assert two.info["icc_profile"] == PROFILE
    assert two.info["xmp"] == XMP
    assert two.getexif()[0x0110] == "Camera 9"
    assert two.getexif().get_ifd(0x8769)[0x9286] == b"ASCII\0\0\0kept"


def with_directory(tiff: bytes, tag: int, inner: bytes) -> bytes:
    """Replaces the dummy value of `tag` by a directory with one entry of bytes, which Pillow would not write."""
    tiff += bytes(len(tiff) % 2)
    (entry,) = (
        found.start() for found in re.finditer(re.escape(struct.pack("<H", tag)) + rb"[\x04\x0d]\0\x01\0\0\0", tiff)
    )
    place = len(tiff)
    directory = struct.pack("<HHHIII", 1, 0x9286, 7, len(inner), place + 18, 0) + inner
    return tiff[: entry + 8] + struct.pack("<I", place) + tiff[entry + 12 :] + directory


@pytest.mark.parametrize("compression", ["raw", "tiff_lzw", "jpeg"])
def test_tiff_keeps_its_tags(compression: str, tmp_path: Path) -> None:
    tags = {0x0110: "Camera 9", 0x010E: "a description", 0x0112: 3, 0xC000: "private", 700: XMP, 0x8769: 8}
    options = {"quality": 90} if compression == "jpeg" else {}
    data = saved(
        scene(), "TIFF", compression=compression, tiffinfo=tags, icc_profile=PROFILE, dpi=(300, 150), **options
    )
    before = publication(tmp_path, with_directory(data, 0x8769, b"ASCII\0\0\0kept"), "TIFF")
    published = before.encode(smooth())
    assert error_of(before, published, smooth()) < 0.25
    two = Image.open(BytesIO(published))
    again = two.getexif()
    assert again[0x0112] == 3
    assert again[0x0110] == "Camera 9"
    assert again[0x010E] == "a description"
    assert again[0xC000] == "private"
    assert again.get_ifd(0x8769)[0x9286] == b"ASCII\0\0\0kept"
    assert two.info["xmp"] == XMP
    assert two.info["icc_profile"] == PROFILE
    assert two.info["dpi"] == (300, 150)
    assert two.info["compression"] == compression
    for format in ("png", "jpeg"):
        three = opened(before.encode(smooth(), format))
        assert three.info["icc_profile"] == PROFILE
        assert three.info["xmp"] == XMP
        assert three.info["dpi"] == pytest.approx((300, 150), abs=0.02)
        assert three.getexif()[0x010E] == "a description"
        assert three.getexif().get_ifd(0x8769)[0x9286] == b"ASCII\0\0\0kept"
        assert 273 not in three.getexif()


def test_tiff_keeps_directories_within_directories(tmp_path: Path) -> None:
    tags = ImageFileDirectory_v2()
    tags[0x8825] = {1: "N"}
    tags[0x8769] = {0x9286: b"kept", 40965: {1: "R98"}}
    data = saved(scene(), "TIFF", tiffinfo=tags)
    assert Image.open(BytesIO(data)).getexif().get_ifd(40965)[1] == "R98"
    before = publication(tmp_path, data, "TIFF")
    for format in ("keep", "png"):
        again = opened(before.encode(smooth(), format)).getexif()
        assert again.get_ifd(0x8825)[1] == "N"
        assert again.get_ifd(40965)[1] == "R98"


def test_tiff_predictor_and_unwritable_compression(tmp_path: Path) -> None:
    data = saved(scene(), "TIFF", compression="tiff_lzw", tiffinfo={317: 2})
    published = publication(tmp_path, data, "TIFF").encode(NOTHING)
    assert opened(published).tag_v2[317] == 2
    assert len(published) < 1.1 * len(data)
    data = saved(Image.fromarray(grey() > 120), "TIFF", compression="group4")
    two = opened(publication(tmp_path, data, "TIFF").encode(NOTHING))
    assert (two.mode, two.info["compression"]) == ("L", "tiff_adobe_deflate")


def test_bmp_keeps_its_resolution(tmp_path: Path) -> None:
    two = opened(publication(tmp_path, saved(scene(), "BMP", dpi=(300, 300)), "BMP").encode(smooth()))
    assert two.info["dpi"] == pytest.approx((300, 300), abs=0.1)


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
def test_avif_and_heic_keep_their_chroma(subsampling: str, tmp_path: Path) -> None:
    configuration = re.compile(rb"av1C..(.)", re.DOTALL)
    data = saved(RGBA, "AVIF", subsampling=subsampling)
    published = publication(tmp_path, data, "AVIF").encode(smooth())
    one, two = (configuration.search(file) for file in (data, published))
    assert one is not None
    assert two is not None
    assert one[1][0] & 28 == two[1][0] & 28
    heic = saved(scene(), "HEIF", subsampling=subsampling)
    chroma = int(subsampling.replace(":", ""))
    assert opened(publication(tmp_path, heic, "HEIF").encode(smooth())).info["chroma"] == chroma


def test_exif_that_image_magick_writes_as_text(tmp_path: Path) -> None:
    raw = exif(6).tobytes()
    text = PngInfo()
    text.add_text("Raw profile type exif", f"\nexif\n{len(raw):8}\n{raw.hex()}\n")
    before = publication(tmp_path, saved(TURNED[6](scene()), "PNG", pnginfo=text))
    assert before.size == (200, 120)
    for format in ("keep", "jpeg"):
        published = before.encode(smooth(), format)
        assert opened(published).getexif()[0x0112] == 6
        assert error_of(before, published, smooth()) < 0.25


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_broken_exif_stays_as_it_is(kind: str, tmp_path: Path) -> None:
    data = saved(scene(), kind, exif=b"Exif\0\0II*\0\xff\xff\xff\xff")
    published = publication(tmp_path, data, kind).encode(smooth())
    assert b"II*\0\xff\xff\xff\xff" in published
    assert load_image(published).upload_size == (200, 120)
