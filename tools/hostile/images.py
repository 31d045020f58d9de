"""Image files: truncated, damaged, lying about their size, of odd modes, and no images at all."""

from __future__ import annotations

import gzip
import random
import struct
import zipfile
import zlib
from collections.abc import Iterator
from io import BytesIO

import numpy as np
from PIL import Image

from tools.hostile.kind import Call, Expected, Kind, encoded, photo, put

GROUP = "images"
SUFFIXES = {
    "JPEG": ".jpg",
    "PNG": ".png",
    "WEBP": ".webp",
    "GIF": ".gif",
    "BMP": ".bmp",
    "TIFF": ".tif",
    "HEIF": ".heic",
    "AVIF": ".avif",
}
# A GIF, WebP, JPEG or HEIF without its very end is still whole for its decoder.
TRUNCATIONS = {
    "after 1 byte": 0.0,
    "in its header": 0.02,
    "at a quarter": 0.25,
    "in the middle": 0.5,
    "near its end": 0.9,
}


def kinds() -> Iterator[Kind]:
    """All of this group."""
    for format, suffix in SUFFIXES.items():
        yield from _damaged(format, suffix)
    yield from _lies()
    yield from _odd()
    yield from _numbers()
    yield from _no_images()


def _kind(name: str, data: bytes, suffix: str, expected: Expected) -> Kind:
    file = f"it{suffix}"
    return Kind(GROUP, name, expected, lambda sandbox: Call(("hash", put(sandbox, file, data)), (file,)))


def _damaged(format: str, suffix: str) -> Iterator[Kind]:
    data = photo(format=format)
    for where, share in TRUNCATIONS.items():
        yield _kind(f"{format} cut {where}", data[: max(1, int(len(data) * share))], suffix, "failure")
    yield _kind(f"{format} without its last byte", data[:-1], suffix, "either")
    yield _kind(f"{format} with rubbish behind it", data + b"\x1b[31m" * 50, suffix, "either")
    yield _kind(f"{format} with one bit of its first bytes flipped", bytes([data[0] ^ 16]) + data[1:], suffix, "either")
    yield _kind(f"{format} with bits flipped all over", _flipped(data, 40, 0), suffix, "either")
    yield _kind(f"{format} with bits of its body flipped", _flipped(data, 40, len(data) // 3), suffix, "either")
    middle = len(data) // 2
    yield _kind(f"{format} with a hole of zeros", data[:middle] + bytes(len(data) - middle), suffix, "either")
    yield _kind(f"{format} twice in one file", data + data, suffix, "either")
    yield _kind(f"{format} behind a line of text", b"hello\n" + data, suffix, "failure")
    other = ".png" if format != "PNG" else ".jpg"
    yield _kind(f"{format} called {other}", data, other, "success")


def _flipped(data: bytes, count: int, start: int) -> bytes:
    dice, changed = random.Random(count + start), bytearray(data)
    for _ in range(count):
        changed[dice.randrange(start, len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def chunk(kind: bytes, data: bytes) -> bytes:
    """Of a PNG, with the right checksum."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, *middle: bytes, depth: int = 8, colour: int = 2, data: bytes | None = None) -> bytes:
    """A PNG of our own making, which may lie."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    body = zlib.compress(bytes(1000)) if data is None else data
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(middle) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def tiff(tags: dict[int, tuple[int, int, int]], body: bytes = bytes(64)) -> bytes:
    """A TIFF of one picture; a tag is its type, count and value. The body begins at byte 8."""
    entries = b"".join(struct.pack("<HHII", tag, *what) for tag, what in sorted(tags.items()))
    return b"II*\0" + struct.pack("<I", 8 + len(body)) + body + struct.pack("<H", len(tags)) + entries + bytes(4)


def _tiff_of(width: int, height: int, **more: tuple[int, int, int]) -> bytes:
    numbers = {"tile_width": 322, "tile_length": 323, "tile_offsets": 324, "tile_sizes": 325, "samples": 277}
    tags = {256: (4, 1, width), 257: (4, 1, height), 258: (3, 1, 8), 259: (3, 1, 1), 262: (3, 1, 1)}
    tags |= {273: (4, 1, 8), 277: (3, 1, 1), 278: (4, 1, height), 279: (4, 1, 64)}
    return tiff(tags | {numbers[name]: value for name, value in more.items()})


def _patched(data: bytes, marker: bytes, offset: int, new: bytes) -> bytes:
    place = data.index(marker) + offset
    return data[:place] + new + data[place + len(new) :]


def _lies() -> Iterator[Kind]:
    """Headers that promise what the file does not hold, and data that grows."""
    sizes = {"10^9 pixels": (31623, 31623), "no width": (0, 8), "no height": (8, 0), "2^31 wide": (2**31 - 1, 1)}
    sizes |= {"2^32 wide": (2**32 - 1, 2**32 - 1), "a line of 10^8": (10**8, 1), "too little data": (900, 900)}
    for what, (width, height) in sizes.items():
        yield _kind(f"PNG header: {what}", png(width, height), ".png", "failure")
        yield _kind(f"TIFF header: {what}", _tiff_of(width, height), ".tif", "failure")
        box = struct.pack("<II", width, height)
        yield _kind(f"BMP header: {what}", _patched(photo(format="BMP"), b"BM", 18, box), ".bmp", "failure")
    for what, (width, height) in {"2^32 pixels": (65535, 65535), "no pixels": (0, 0)}.items():
        pair = struct.pack(">HH", height, width)
        yield _kind(f"JPEG header: {what}", _patched(photo(format="JPEG"), b"\xff\xc0", 5, pair), ".jpg", "failure")
        pair = struct.pack("<HH", width, height)
        yield _kind(f"GIF header: {what}", _patched(photo(format="GIF"), b"GIF8", 6, pair), ".gif", "either")
        wide = struct.pack(">II", width * 16, height * 16)
        for format in ("HEIF", "AVIF"):
            data = _patched(photo(format=format), b"ispe", 8, wide)
            yield _kind(f"{format} header: {what}", data, SUFFIXES[format], "failure")
    canvas = b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + b"\xff" * 6
    yield _kind("WEBP header: 2^48 pixels", canvas, ".webp", "failure")
    bmp = photo(format="BMP")
    yield _kind("BMP header: negative width", _patched(bmp, b"BM", 18, b"\xff" * 4), ".bmp", "failure")
    yield _kind("BMP header: data behind its end", _patched(bmp, b"BM", 10, b"\xff" * 4), ".bmp", "failure")
    tile = {"tile_width": (4, 1, 2**20), "tile_length": (4, 1, 2**20), "tile_offsets": (4, 1, 8)}
    yield _kind("TIFF of a tile of 2^40 pixels", _tiff_of(8, 8, tile_sizes=(4, 1, 64), **tile), ".tif", "failure")
    yield _kind("TIFF of 65535 samples per pixel", _tiff_of(8, 8, samples=(3, 1, 65535)), ".tif", "failure")
    yield _kind("TIFF whose directory is its own next", b"II*\0" + struct.pack("<IHI", 8, 0, 8), ".tif", "failure")
    yield _kind("TIFF with a tag of 4 GB", tiff({256: (2, 2**32 - 1, 8), 257: (4, 1, 8)}), ".tif", "failure")
    zeros = zlib.compress(bytes(30_000 * 3751), 1)
    yield _kind("PNG bomb of 9*10^8 pixels", png(30000, 30000, depth=1, colour=0, data=zeros), ".png", "failure")
    bomb = zlib.compress(bytes(1 << 27), 1)
    text = {"zTXt": b"Comment\0\0" + bomb, "iTXt": b"Comment\0\1\0\0\0" + bomb, "iCCP": b"name\0\0" + bomb}
    for name, data in text.items():
        yield _kind(f"PNG with a bomb in {name}", png(8, 8, chunk(name.encode(), data)), ".png", "either")
    yield _kind("PNG of 20,000 empty pieces", png(8, 8, *[chunk(b"IDAT", b"")] * 20000), ".png", "either")
    yield _kind("PNG with a wrong checksum", png(8, 8)[:-20] + bytes(4) + png(8, 8)[-16:], ".png", "either")
    yield _kind("PNG without data", png(8, 8, data=b""), ".png", "failure")
    yield _kind("PNG of a palette without one", png(8, 8, colour=3), ".png", "either")
    yield _kind("PNG of 3 bits", png(8, 8, depth=3), ".png", "failure")
    yield _kind(
        "PNG with a chunk of 2^31 bytes", png(8, 8)[:33] + b"\x7f\xff\xff\xffIDAT" + bytes(9), ".png", "failure"
    )
    yield _kind("PNG with nothing but its end", b"\x89PNG\r\n\x1a\n" + chunk(b"IEND", b""), ".png", "failure")


def _odd() -> Iterator[Kind]:
    """Pictures that are allowed, and strange; metadata that is not."""
    modes = {"1": "PNG", "L": "PNG", "LA": "PNG", "P": "PNG", "RGBA": "PNG", "CMYK": "TIFF", "YCbCr": "TIFF"}
    for mode, format in {**modes, "LAB": "TIFF", "I": "TIFF", "I;16": "TIFF", "F": "TIFF"}.items():
        image = Image.new("RGB", (40, 40), "grey").convert("L" if mode in ("I;16", "I", "F") else "RGB")
        if mode == "LAB":
            image = Image.new("LAB", (40, 40))
        elif mode == "I;16":
            image = Image.fromarray(np.full((40, 40), 999, np.uint16))
        data = encoded(image if mode in ("LAB", "I;16") else image.convert(mode), format)
        yield _kind(f"{format} of mode {mode}", data, SUFFIXES[format], "either")
    for width, height in ((1, 1), (1, 5000), (5000, 1), (2, 3)):
        yield _kind(f"PNG of {width} x {height}", encoded(Image.new("RGB", (width, height)), "PNG"), ".png", "success")
    for what, exif in {
        "rubbish": b"Exif\0\0" + b"\xff" * 60,
        "orientation 9": _exif(9),
        "orientation 0": _exif(0),
        "a text as orientation": _exif(6, kind=2),
        "a directory that is its own": b"Exif\0\0II*\0\x08\0\0\0" + b"\0\0\x08\0\0\0",
    }.items():
        data = encoded(Image.new("RGB", (40, 40), "red"), "JPEG", exif=exif)
        yield _kind(f"JPEG with EXIF of {what}", data, ".jpg", "either")
    data = encoded(Image.new("RGB", (40, 40)), "JPEG", icc_profile=b"\xff" * 4000)
    yield _kind("JPEG with a colour profile of rubbish", data, ".jpg", "either")
    frames = [Image.new("P", (2, 2), index % 255) for index in range(500)]
    for format in ("GIF", "WEBP", "PNG"):
        pages = [frame.convert("RGB") for frame in frames[:100]] if format != "GIF" else frames
        data = encoded(pages[0], format, save_all=True, append_images=pages[1:])
        yield _kind(f"{format} of {len(pages)} frames", data, SUFFIXES[format], "success")
    key = png(4, 4, chunk(b"tRNS", b"\xff" * 6), data=zlib.compress(bytes(4 * 13)))
    yield _kind("PNG with a transparent colour that it has not", key, ".png", "either")


def _exif(orientation: int, kind: int = 3) -> bytes:
    return b"Exif\0\0II*\0\x08\0\0\0\x01\0" + struct.pack("<HHIHH", 274, kind, 1, orientation, 0) + bytes(4)


def _numbers() -> Iterator[Kind]:
    """Samples that are no grey values."""
    for name, value in {"NaN": np.nan, "infinity": np.inf, "-infinity": -np.inf, "-1": -1.0, "1e30": 1e30}.items():
        pixels = np.full((40, 40), 0.5, np.float32)
        pixels[3, 3] = value
        yield _kind(f"TIFF of floats with {name}", encoded(Image.fromarray(pixels), "TIFF"), ".tif", "failure")
    for name, whole in {"a negative one": -1, "2^31-1": 2**31 - 1}.items():
        grey = np.full((40, 40), 100, np.int32)
        grey[3, 3] = whole
        yield _kind(f"TIFF of integers with {name}", encoded(Image.fromarray(grey), "TIFF"), ".tif", "failure")


def _no_images() -> Iterator[Kind]:
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("a.png", photo())
    small = Image.new("RGB", (8, 8))
    others = {
        "an empty file": b"",
        "one byte": b"\0",
        "zeros": bytes(5000),
        "text": b"This is not an image.\n" * 20,
        "text in UTF-16": "an image".encode("utf-16"),
        "HTML": b"<!doctype html><script>alert(1)</script>",
        "SVG": b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>',
        "XML with entities": b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
        "a zip of an image": archive.getvalue(),
        "a gzipped image": gzip.compress(photo()),
        "a PDF": b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\n%%EOF",
        "PostScript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) (r) file\n%%EOF\n",
        "a program": b"\x7fELF" + bytes(200),
        "a script": b"#!/bin/sh\necho owned\n",
        "a pickle that runs a program": b"cos\nsystem\n(S'touch owned'\ntR.",
        "JSON": b'{"image": true}',
        "terminal escapes": b"\x1b[2J\x1b]0;owned\x07" * 30,
        "the magic of PNG alone": b"\x89PNG\r\n\x1a\n",
        "the magic of JPEG alone": b"\xff\xd8\xff",
        "the magic of GIF alone": b"GIF89a",
        "the magic of RIFF alone": b"RIFF\xff\xff\xff\xffWEBP",
        "the magic of HEIC alone": b"\0\0\0\x18ftypheic" + bytes(12),
        "the magic of AVIF alone": b"\0\0\0\x18ftypavif" + bytes(12),
        "PPM, a format that is not read": encoded(small, "PPM"),
        "ICO, a format that is not read": encoded(small, "ICO"),
        "TGA, a format that is not read": encoded(small, "TGA"),
        "JPEG 2000, a format that is not read": b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(60),
        "PSD, a format that is not read": b"8BPS\0\1" + bytes(60),
    }
    for name, data in others.items():
        yield _kind(f"{name}, called .png", data, ".png", "failure")
