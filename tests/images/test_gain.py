"""The norm of the way from a file's own samples to the canonical image, mode by mode."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from dualshield.images import as_image, decode, load_image
from dualshield.images.decode import decode_opened

Samples = npt.NDArray[Any]
SIDE = 512
ROOT3, ROOT6 = math.sqrt(3), math.sqrt(6)

# mode: channels, dtype, white, file format, gain
FILES: dict[str, tuple[int, type[np.generic], int, str, float]] = {
    "RGB": (3, np.uint8, 255, "PNG", 1.0),
    "L": (1, np.uint8, 255, "PNG", ROOT3),
    "1": (1, np.bool_, 1, "PNG", ROOT3),
    "I;16": (1, np.uint16, 65535, "PNG", ROOT3),
    "I": (1, np.int32, 65535, "TIFF", ROOT3),
    "F": (1, np.float32, 1, "TIFF", ROOT3),
    "RGBA": (4, np.uint8, 255, "PNG", 2.0),
    "LA": (2, np.uint8, 255, "PNG", ROOT6),
    "CMYK": (4, np.uint8, 255, "TIFF", 2.0),
}
# Where the Jacobian is largest, and the direction of the sample change that it stretches most.
WORST: dict[str, tuple[tuple[float, ...], tuple[int, ...]]] = {
    "RGB": ((0, 0, 0), (1, 1, 1)),
    "L": ((0.4,), (1,)),
    "1": ((0,), (1,)),
    "I;16": ((0.4,), (1,)),
    "I": ((0.4,), (1,)),
    "F": ((0.4,), (1,)),
    "RGBA": ((0, 0, 0, 1), (1, 1, 1, -3)),
    "LA": ((0, 1), (1, -1)),
    "CMYK": ((0, 0, 0, 0), (1, 1, 1, 3)),
}


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def png(depth: int, colour: int, *samples: int) -> bytes:
    """One pixel of 16 bits a sample, which Pillow would not write."""
    raw = b"\0" + struct.pack(f">{len(samples)}H", *samples)
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", 1, 1, depth, colour, 0, 0, 0)), (b"IDAT", zlib.compress(raw))]
    body = b"".join(
        struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d)) for t, d in [*chunks, (b"IEND", b"")]
    )
    return b"\x89PNG\r\n\x1a\n" + body


def bmp16() -> bytes:
    """One pixel of 5 bits a sample."""
    return b"BM" + struct.pack("<IIIIiiHHIIIIIII", 58, 0, 54, 40, 1, 1, 1, 16, 0, 4, 0, 0, 0, 0, 0x7FFF)


def tiff16(photometric: int, channels: int) -> bytes:
    """One pixel of 16 bits a sample."""
    size = 2 * channels
    tags = {256: 1, 257: 1, 258: 16, 259: 1, 262: photometric, 273: 8, 277: channels, 278: 1, 279: size}
    directory = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    return b"II*\0" + struct.pack("<I", 8 + size) + bytes(size) + struct.pack("<H", len(tags)) + directory + bytes(4)


def file_of(mode: str, samples: Samples) -> bytes:
    flat = samples[..., 0] if samples.shape[2] == 1 else samples
    image = Image.fromarray(flat)
    if mode == "CMYK":
        image = Image.frombytes("CMYK", (samples.shape[1], samples.shape[0]), samples.tobytes())
    data = saved(image, FILES[mode][3])
    with Image.open(BytesIO(data)) as opened:
        assert opened.mode == mode
    return data


def stretch(mode: str, first: Samples, second: Samples) -> float:
    """How far the canonical image moves, in units of the bound."""
    one, two = (load_image(file_of(mode, samples)) for samples in (first, second))
    assert one.upload_norm is not None
    change = np.linalg.norm((first.astype(float) - second) / FILES[mode][2])
    return float((one.pixels.double() - two.pixels.double()).norm()) / (one.upload_norm * float(change))


def scaled(mode: str, unit: npt.NDArray[np.float64]) -> Samples:
    _, dtype, white, _, _ = FILES[mode]
    return (unit * white if dtype == np.float32 else np.rint(unit * white)).astype(dtype)


@pytest.mark.parametrize("mode", FILES)
def test_the_norm_of_a_512_upload_is_the_gain_of_its_mode(mode: str) -> None:
    image = load_image(file_of(mode, scaled(mode, np.ones((SIDE, SIDE, FILES[mode][0])))))
    assert image.upload_gain == pytest.approx(FILES[mode][4])
    assert image.upload_norm == pytest.approx(FILES[mode][4])


@pytest.mark.parametrize("mode", FILES)
def test_no_pair_of_files_moves_further_than_the_norm_says(mode: str) -> None:
    channels = FILES[mode][0]
    rng = np.random.default_rng(4)
    base, other = (rng.random((SIDE, SIDE, channels)) for _ in range(2))
    near = np.clip(base + rng.normal(0, 0.02, base.shape), 0, 1)
    one = base.copy()
    one[17, 300] = other[17, 300]
    ends, opposite = (rng.integers(0, 2, base.shape).astype(float) for _ in range(2))
    extreme = np.clip(np.array(WORST[mode][0]) + np.array(WORST[mode][1]) * other * 0.6, 0, 1)
    start = np.broadcast_to(np.array(WORST[mode][0], float), base.shape)
    for first, second in ((base, other), (base, near), (base, one), (ends, opposite), (start, extreme)):
        assert stretch(mode, scaled(mode, first), scaled(mode, second)) <= 1 + 1e-5


@pytest.mark.parametrize("mode", FILES)
def test_the_worst_change_reaches_the_norm(mode: str) -> None:
    start, direction = WORST[mode]
    base = np.broadcast_to(np.array(start, float), (SIDE, SIDE, len(start)))
    step = 1 if mode == "1" else 1 / 255
    assert 0.99 <= stretch(mode, scaled(mode, base), scaled(mode, base + np.array(direction) * step)) <= 1 + 1e-5


@pytest.mark.parametrize(("width", "height"), [(96, 64), (700, 600)])
@pytest.mark.parametrize("mode", ["L", "RGBA", "CMYK"])
def test_the_gain_multiplies_the_resize(mode: str, width: int, height: int) -> None:
    start, direction = WORST[mode]
    base = np.broadcast_to(np.array(start, float), (height, width, len(start)))
    assert 0.9 <= stretch(mode, scaled(mode, base), scaled(mode, base + np.array(direction) / 255)) <= 1 + 1e-5
    plain = load_image(saved(Image.new("RGB", (width, height)), "PNG")).upload_norm
    norm = load_image(file_of(mode, scaled(mode, base))).upload_norm
    assert plain is not None
    assert norm == pytest.approx(FILES[mode][4] * plain)


def paletted(**info: Any) -> Image.Image:
    image = Image.new("P", (4, 4))
    image.putpalette([255, 0, 0, 0, 51, 204])
    image.info.update(info)
    return image


def keyed(mode: str, key: object) -> Image.Image:
    image = Image.new(mode, (4, 4))
    image.info["transparency"] = key
    return image


def associated(mode: str) -> bytes:
    """A TIFF whose colour is already multiplied by alpha."""
    data = saved(Image.new(mode, (4, 4)), "TIFF")
    extra = struct.pack("<HHI", 338, 3, 1)
    assert data.count(extra + b"\x02") == 1
    return data.replace(extra + b"\x02", extra + b"\x01")


NOWHERE: dict[str, Callable[[], bytes]] = {
    "palette": lambda: saved(paletted(), "PNG"),
    "gif": lambda: saved(paletted(), "GIF"),
    "palette with a key": lambda: saved(paletted(), "PNG", transparency=0),
    "palette with alphas": lambda: saved(paletted(), "PNG", transparency=b"\x00\x80"),
    "palette and alpha": lambda: saved(Image.new("PA", (4, 4)), "TIFF"),
    "rgb key": lambda: saved(Image.new("RGB", (4, 4)), "PNG", transparency=(1, 2, 3)),
    "grey key": lambda: saved(Image.new("L", (4, 4)), "PNG", transparency=3),
    "one-bit key": lambda: saved(Image.new("1", (4, 4)), "PNG", transparency=0),
    "deep grey key": lambda: saved(Image.new("I;16", (4, 4)), "PNG", transparency=300),
    "premultiplied grey": lambda: associated("LA"),
    "premultiplied rgb": lambda: associated("RGBA"),
    "lab": lambda: saved(Image.new("LAB", (4, 4)), "TIFF"),
    "ycbcr": lambda: saved(Image.new("YCbCr", (4, 4)), "TIFF"),
    "compressed ycbcr": lambda: saved(Image.new("YCbCr", (16, 16)), "TIFF", compression="tiff_lzw"),
    "rgb of 16 bits": lambda: png(16, 2, 1, 2, 3),
    "rgba of 16 bits": lambda: png(16, 6, 1, 2, 3, 4),
    "grey and alpha of 16 bits": lambda: png(16, 4, 1, 2),
    "tiff of 16 bits": lambda: tiff16(2, 3),
    "cmyk of 16 bits": lambda: tiff16(5, 4),
    "bmp of 5 bits": bmp16,
}


@pytest.mark.parametrize("case", NOWHERE)
def test_files_without_such_a_norm(case: str) -> None:
    data = NOWHERE[case]()
    assert decode(data).gain is None
    image = load_image(data)
    assert image.upload_size is not None
    assert image.upload_norm is None
    with Image.open(BytesIO(data)) as opened:
        assert as_image(opened).upload_norm is None


@pytest.mark.parametrize(
    "image",
    [
        *(Image.new(mode, (4, 4)) for mode in ("P", "PA", "La", "RGBa", "LAB", "YCbCr", "HSV")),
        paletted(transparency=0),
        keyed("RGB", (1, 2, 3)),
        keyed("L", 3),
        keyed("1", 0),
        keyed("I;16", 300),
    ],
    ids=lambda image: f"{image.mode} {image.info}",
)
def test_pillow_images_without_such_a_norm(image: Image.Image) -> None:
    assert decode_opened(image, name="x").gain is None


def test_why_colour_of_16_bits_has_none() -> None:
    # Pillow keeps the upper byte only: next to each other in the file, a whole step apart for us.
    below, above = (load_image(png(16, 2, value, value, value)).pixels for value in (255, 256))
    assert float((above - below).abs().max()) == pytest.approx(1 / 255)


@pytest.mark.parametrize(("mode", "gain"), [("RGBX", 1.0), ("I;16B", ROOT3), ("I;16L", ROOT3)])
def test_modes_that_only_pillow_has(mode: str, gain: float) -> None:
    assert decode_opened(Image.new(mode, (4, 4)), name="x").gain == pytest.approx(gain)


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "HEIF", "AVIF", "BMP"])
def test_other_formats_of_rgb(kind: str) -> None:
    assert decode(saved(Image.new("RGB", (32, 32), (9, 99, 199)), kind)).gain == 1


@pytest.mark.parametrize("kind", ["TIFF", "JPEG"])
def test_cmyk_is_pillows_without_the_rounding(kind: str) -> None:
    samples = np.random.default_rng(5).integers(0, 256, (64, 64, 4), np.uint8)
    samples[:2] = np.tile(np.array([[0], [255]], np.uint8)[..., None], (1, 64, 4))
    data = saved(
        Image.frombytes("CMYK", (64, 64), samples.tobytes()), kind, **({"quality": 100} if kind == "JPEG" else {})
    )
    with Image.open(BytesIO(data)) as opened:
        assert opened.mode == "CMYK"
        ink = np.asarray(opened) / 255  # of a JPEG already un-inverted
        expected = np.asarray(opened.convert("RGB")) / 255
    pixels = decode(data).pixels
    assert pixels.dtype == np.float32
    assert pixels.flags.c_contiguous
    assert np.abs(pixels - expected).max() <= 1 / 255 + 1e-6
    assert np.abs(pixels - (1 - ink[..., :3]) * (1 - ink[..., 3:])).max() < 1e-6
