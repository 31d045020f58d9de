"""Published files: the perturbation arrives where it was computed, and everything else is as it was."""

from __future__ import annotations

import re
import struct
import threading
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
import torch.nn.functional as F
from PIL import Image, ImageCms, JpegImagePlugin
from PIL.PngImagePlugin import PngInfo
from PIL.TiffImagePlugin import ImageFileDirectory_v2

from dualshield.errors import ImageError, InputError
from dualshield.images import CANONICAL_SIZE, decode, load_image
from dualshield.images.publication import Format, Publication

Pixels = npt.NDArray[Any]
NOTHING = torch.zeros(3, CANONICAL_SIZE, CANONICAL_SIZE)
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"/></x:xmpmeta>'
SUFFIXES = {"JPEG": ".jpg", "MPO": ".jpg", "HEIF": ".heic"}
ALL_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "AVIF", "HEIF")
TURNED: dict[int, Callable[[Pixels], Pixels]] = {  # upright to stored
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a),
    7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    8: lambda a: np.rot90(a, -1),
}


def saved(image: Image.Image | Pixels, kind: str, **options: Any) -> bytes:
    buffer = BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(buffer, kind, **options)
    return buffer.getvalue()


def opened(data: bytes) -> Any:
    image = Image.open(BytesIO(data))
    image.load()
    return image


def scene(width: int = 200, height: int = 120) -> Pixels:
    """Soft texture without any symmetry, away from black and white so that nothing is clipped."""
    random = torch.Generator().manual_seed(5)
    coarse = 0.75 * torch.rand(1, 1, 6, 8, generator=random) + 0.25 * torch.rand(1, 3, 6, 8, generator=random)
    soft = F.interpolate(coarse, size=(height, width), mode="bicubic").clamp(0, 1)[0]
    return (soft.permute(1, 2, 0).numpy() * 175 + 40).round().astype(np.uint8)


def grey(width: int = 200, height: int = 120) -> Pixels:
    return scene(width, height)[..., 0]


def smooth() -> torch.Tensor:
    """Waves of amplitude 6/255, different in every channel and direction."""
    y, x = torch.meshgrid(*2 * [torch.linspace(0, 6.2832, CANONICAL_SIZE)], indexing="ij")
    return torch.stack([torch.cos(2 * x + y), torch.sin(x + 2 * y + 1), torch.cos(3 * x - y + 2)]) * 6 / 255


def exif(orientation: int = 1, model: str = "Camera 9") -> Image.Exif:
    found = Image.Exif()
    found[0x0110] = model
    found[0x0112] = orientation
    found.get_ifd(0x8769)[0x9286] = b"ASCII\0\0\0kept"
    return found


def publication(folder: Path, data: bytes, kind: str = "PNG") -> Publication:
    path = folder / f"photo{SUFFIXES.get(kind, '.' + kind.lower())}"
    path.write_bytes(data)
    return Publication.open(path)


def error_of(before: Publication, published: bytes, delta: torch.Tensor) -> float:
    moved = load_image(published).pixels - before.canonical.pixels
    return float((moved - delta).norm() / delta.norm())


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


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
    with pytest.raises(InputError, match=rf"{size[0]}x{size[1]} is too small to harden; at least 64 px"):
        publication(tmp_path, saved(scene(*size), "PNG"))
    assert publication(tmp_path, saved(scene(64, 64), "PNG")).size == (64, 64)


# --- nothing added, nothing changed ---

RGBA = np.dstack([scene(), np.linspace(0, 255, 200 * 120).reshape(120, 200).astype(np.uint8)])
DEEP = (grey().astype(np.uint16) * 257) ^ 0x55


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


@pytest.mark.parametrize("kind", ["WEBP", "AVIF", "HEIF", "PNG", "TIFF"])
def test_alpha_is_kept(kind: str, tmp_path: Path) -> None:
    before = publication(tmp_path, saved(RGBA, kind), kind)
    stored = np.asarray(opened(saved(RGBA, kind)))
    found = np.asarray(opened(before.encode(smooth())))
    assert found.shape == stored.shape == (120, 200, 4)
    assert np.abs(found[..., 3].astype(int) - stored[..., 3]).mean() < (0.5 if kind in ("AVIF", "HEIF") else 1e-9)


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


# --- the perturbation arrives ---

SHAPES = [(320, 200), (200, 320), (640, 420), (420, 640), (640, 560), (530, 600), (512, 512), (640, 100)]


@pytest.mark.parametrize("size", SHAPES)
@pytest.mark.parametrize(("kind", "limit"), [("PNG", 0.1), ("JPEG", 0.25)])
def test_a_smooth_perturbation_arrives(kind: str, limit: float, size: tuple[int, int], tmp_path: Path) -> None:
    options = {"quality": 85} if kind == "JPEG" else {}
    before = publication(tmp_path, saved(scene(*size), kind, **options), kind)
    published = before.encode(smooth())
    assert opened(published).size == size
    assert error_of(before, published, smooth()) < limit


@pytest.mark.parametrize("kind", ["WEBP", "TIFF", "BMP", "AVIF", "HEIF"])
def test_it_arrives_in_every_format(kind: str, tmp_path: Path) -> None:
    before = publication(tmp_path, saved(scene(300, 200), kind), kind)
    assert error_of(before, before.encode(smooth()), smooth()) < 0.25


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize(
    ("kind", "format"),
    [
        *((kind, "keep") for kind in ("JPEG", "PNG", "WEBP", "TIFF", "AVIF", "HEIF")),
        *((kind, "png") for kind in ("JPEG", "TIFF", "AVIF")),
        *((kind, "jpeg") for kind in ("PNG", "TIFF", "HEIF")),
    ],
)
def test_rotated_files_stay_rotated(kind: str, format: Format, orientation: int, tmp_path: Path) -> None:
    stored = TURNED[orientation](scene())
    data = saved(stored, kind, exif=exif(orientation).tobytes(), quality=85, lossless=True)
    before = publication(tmp_path, data, kind)
    assert before.size == (200, 120)
    published = before.encode(smooth(), format)
    assert load_image(published).upload_size == (200, 120)
    assert error_of(before, published, smooth()) < 0.25
    if kind == "HEIF":
        return  # is read and published upright
    found = Image.open(BytesIO(published))
    assert found.getexif()[0x0110] == "Camera 9"
    assert found.getexif().get(0x0112, 1) == orientation
    if found.format == "TIFF":  # Pillow turns it on loading
        assert (found.tag_v2[256], found.tag_v2[257]) == (stored.shape[1], stored.shape[0])  # type: ignore[attr-defined]
    else:
        assert np.abs(np.asarray(found).astype(int) - stored).max() < 30
        assert found.size == (stored.shape[1], stored.shape[0])


def test_orientation_in_xmp_alone(tmp_path: Path) -> None:
    xmp = XMP.replace(b"<rdf:RDF", b'<rdf:RDF tiff:Orientation="6"')
    for add in (PngInfo.add_itxt, PngInfo.add_text):
        text = PngInfo()
        add(text, "XML:com.adobe.xmp", xmp.decode())
        before = publication(tmp_path, saved(TURNED[6](scene()), "PNG", pnginfo=text))
        assert before.size == (200, 120)
        for format in ("keep", "jpeg"):
            assert error_of(before, before.encode(smooth(), format), smooth()) < 0.25


@pytest.mark.parametrize("image", [grey(), DEEP, RGBA[..., 0]])
def test_grey_files_get_the_luma(image: Pixels, tmp_path: Path) -> None:
    before = publication(tmp_path, saved(image, "PNG"))
    luma = (smooth() * torch.tensor([0.299, 0.587, 0.114])[:, None, None]).sum(0).expand(3, -1, -1)
    assert error_of(before, before.encode(smooth()), luma) < (0.01 if image.dtype == np.uint16 else 0.2)


def test_samples_are_clipped_and_do_not_wrap(tmp_path: Path) -> None:
    for value, sign, expected in ((250, 1, 255), (5, -1, 0)):
        before = publication(tmp_path, saved(np.full((80, 90, 3), value, np.uint8), "PNG"))
        assert np.all(np.asarray(opened(before.encode(NOTHING + sign * 40 / 255))) == expected)


def test_samples_are_rounded_to_nearest(tmp_path: Path) -> None:
    before = publication(tmp_path, saved(np.full((80, 90, 3), 100, np.uint8), "PNG"))
    for part, expected in ((0.4, 100), (0.6, 101), (-0.4, 100), (-0.6, 99)):
        assert np.all(np.asarray(opened(before.encode(NOTHING + part / 255))) == expected)


# --- transparency ---


@pytest.mark.parametrize("alpha", [255, 204, 128, 64])
@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_the_change_is_seen_through_the_alpha_channel(mode: str, alpha: int, tmp_path: Path) -> None:
    image = np.dstack([scene(), np.full((120, 200), alpha, np.uint8)])
    image[:, 0, 3] = 0  # so that there always is transparency
    data = saved(Image.fromarray(image).convert(mode), "PNG")
    before = publication(tmp_path, data)
    published = before.encode(NOTHING + 8 / 255)
    moved = (decode(published).pixels - decode(data).pixels) * 255
    assert moved[:, 1:].mean() == pytest.approx(8, abs=0.3)
    one, two = np.asarray(opened(data)), np.asarray(opened(published))
    assert np.array_equal(one[..., -1], two[..., -1])
    assert np.array_equal(one[:, 0], two[:, 0])
    assert np.abs(two.astype(int) - one).max() <= 33


def test_little_opacity_does_not_blow_the_change_up(tmp_path: Path) -> None:
    image = np.dstack([scene(), np.full((120, 200), 3, np.uint8)])
    found = np.asarray(opened(publication(tmp_path, saved(image, "PNG")).encode(NOTHING + 5 / 255)))
    assert np.abs(found.astype(int) - image).max() == 20


def test_opacity_is_canonical_and_upright(tmp_path: Path) -> None:
    image = np.dstack([scene(), np.full((120, 200), 255, np.uint8)])
    image[:60, :50, 3] = 0  # a corner that is not symmetric
    before = publication(tmp_path, saved(TURNED[6](image), "PNG", exif=exif(6)))
    assert before.opacity is not None
    assert before.opacity.shape == (512, 512)
    assert before.opacity[:250, :120].max() == 0
    assert before.opacity[262:].min() == before.opacity[:, 136:].min() == 1
    assert 0 < before.opacity[100, 128] < 1


def palette(transparency: int | bytes | None = None) -> bytes:
    image = Image.fromarray(scene()).quantize(16)
    options = {} if transparency is None else {"transparency": transparency}
    return saved(image, "PNG", **options)


@pytest.mark.parametrize(
    ("data", "mode"),
    [
        (palette(), "RGB"),
        (palette(3), "RGBA"),
        (palette(bytes([255, 80, 0, 255, 128])), "RGBA"),
        (saved(grey(), "PNG", transparency=int(grey()[5, 5])), "LA"),
        (saved(scene(), "PNG", transparency=tuple(scene()[5, 5].tolist())), "RGBA"),
        (saved(Image.fromarray(grey() > 120), "PNG", transparency=0), "LA"),
        (saved(DEEP, "PNG", transparency=int(DEEP[5, 5])), "I;16"),
    ],
    ids=["P", "P-index", "P-bytes", "L", "RGB", "1", "I;16"],
)
def test_palettes_and_transparent_colours(data: bytes, mode: str, tmp_path: Path) -> None:
    before = publication(tmp_path, data)
    published = before.encode(NOTHING)
    assert opened(published).mode == mode
    assert torch.equal(load_image(published).pixels, before.canonical.pixels)
    assert (before.opacity is None) == (mode == "RGB")
    hidden = (
        np.asarray(opened(data).convert("RGBA"))[..., 3] if mode != "I;16" else np.where(DEEP[5, 5] == DEEP, 0, 255)
    )
    onto_the_key = float(DEEP[5, 5]) - float(DEEP[DEEP[5, 5] != DEEP][0])
    for amount in (3 / 255, -3 / 255, onto_the_key / 65535):
        again = opened(before.encode(NOTHING + amount))
        found = np.where(np.asarray(again) == again.info["transparency"], 0, 255) if mode == "I;16" else None
        assert np.array_equal(np.asarray(again.convert("RGBA"))[..., 3] if found is None else found, hidden)


def test_transparent_gif_and_premultiplied_grey(tmp_path: Path) -> None:
    gif = saved(Image.fromarray(scene()).quantize(16), "GIF", transparency=3)
    alpha = struct.pack("<HHI", 338, 3, 1)
    tiff = saved(RGBA[..., [0, 3]], "TIFF").replace(alpha + b"\2", alpha + b"\1")
    assert opened(tiff).mode == "La"
    for data, kind, format, mode in ((gif, "GIF", "png", "RGBA"), (tiff, "TIFF", "keep", "LA")):
        before = publication(tmp_path, data, kind)
        assert before.opacity is not None
        published = before.encode(NOTHING, format)  # type: ignore[arg-type]
        assert opened(published).mode == mode
        assert torch.equal(load_image(published).pixels, before.canonical.pixels)


def test_colour_of_16_bits_is_reduced_to_8_as_decode_sees_it(tmp_path: Path) -> None:
    rows = b"".join(b"\0" + (row.astype(">u2") * 257).tobytes() for row in scene())
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 200, 120, 16, 2, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    assert np.array_equal(np.asarray(opened(publication(tmp_path, data).encode(NOTHING))), scene())


def test_an_opaque_alpha_channel_is_no_transparency(tmp_path: Path) -> None:
    image = np.dstack([scene(), np.full((120, 200), 255, np.uint8)])
    before = publication(tmp_path, saved(image, "PNG"))
    assert before.opacity is None
    assert opened(before.encode(NOTHING)).mode == "RGBA"
    assert opened(before.encode(NOTHING, "jpeg")).mode == "RGB"


# --- metadata ---


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


# --- formats and quality ---


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
    with pytest.raises(InputError, match="a GIF cannot be kept; use the format png"):
        before.encode(NOTHING)
    with pytest.raises(InputError, match="a GIF cannot be kept"):
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
        with pytest.raises(InputError, match=r"give finite \(3, 512, 512\)"):
            before.encode(wrong)


def test_what_pillow_cannot_write_is_one_line(tmp_path: Path) -> None:
    text = PngInfo()
    text.add_itxt("XML:com.adobe.xmp", "x" * 70_000)
    before = publication(tmp_path, saved(scene(), "PNG", pnginfo=text))
    with pytest.raises(
        ImageError, match=r"photo\.png: cannot be written as JPEG \(ValueError: XMP data is too long\); "
    ):
        before.encode(NOTHING, "jpeg")


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
