"""Image files in memory: as Pillow writes them, and by hand where it would not."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import Any

import numpy.typing as npt
from PIL import Image

Pixels = npt.NDArray[Any]
SUFFIXES = {"JPEG": ".jpg", "MPO": ".jpg", "HEIF": ".heic"}


def saved(image: Image.Image | Pixels, kind: str, **options: Any) -> bytes:
    buffer = BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(buffer, kind, **options)
    return buffer.getvalue()


def chunk(name: bytes, content: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def png(width: int, height: int, depth: int, colour: int, raw: bytes, *extra: tuple[bytes, bytes]) -> bytes:
    """A PNG by hand, for headers and chunks that Pillow would not write."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    chunks = [(b"IHDR", header), *extra, (b"IDAT", zlib.compress(raw)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(name, content) for name, content in chunks)


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
