"""Rewriting of image files with new pixels; format settings and metadata are kept.

JPEG segments and PNG chunks are copied byte for byte, because Pillow drops some (captions, extended XMP) and refuses
others (EXIF over 64 kB). Other formats, and changes of format, use Pillow's options. EXIF, Photoshop and JFXX blocks
may hold a thumbnail of the original picture; it is kept. Data that would no longer be true is dropped: colour profiles
of CMYK and Lab samples (which become RGB), C2PA signatures, and further pictures of a JPEG. HEIC is written upright,
because libheif reads it that way.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from PIL import ExifTags, Image, ImageFile, TiffTags
from PIL.JpegImagePlugin import JpegImageFile, get_sampling
from PIL.PngImagePlugin import PngInfo
from PIL.TiffImagePlugin import ImageFileDirectory_v2, TiffImageFile

from dualshield.images.decode import ORIENTATIONS

QUALITY = 95  # if the source's quality is unknown: high, because the result replaces the original

_INVERSE = {
    Image.Transpose.ROTATE_90: Image.Transpose.ROTATE_270,
    Image.Transpose.ROTATE_270: Image.Transpose.ROTATE_90,
}
_SEGMENTS: dict[str, tuple[bytes, ...]] = {
    "APP0": (b"JFIF\0", b"JFXX\0"),
    "APP1": (b"",),  # EXIF, XMP and its extensions
    "APP2": (b"ICC_PROFILE\0", b"FPXR\0"),
    "APP13": (b"",),  # Photoshop: captions and rights (IPTC)
    "COM": (b"",),
}
# PNG flags unknown chunks as safe to copy after a change of pixels; these known chunks are safe as well.
_CHUNKS = frozenset({b"iCCP", b"cHRM", b"gAMA", b"sRGB", b"cICP", b"mDCV", b"cLLI", b"tIME"})
_CHUNKS_OF_ONE_HEADER = frozenset({b"sBIT", b"bKGD"})  # layout depends on depth and colour type
_TIFF_LOSSLESS = frozenset({"raw", "packbits", "tiff_lzw", "tiff_deflate", "tiff_adobe_deflate", "lzma", "zstd"})
_PREDICTOR, _XMP, _IPTC, _PHOTOSHOP, _PHOTOSHOP_LAYERS, _ICC, _INTEROP = 317, 700, 33723, 34377, 37724, 34675, 40965
# The writer sets the layout tags itself; Photoshop's layers show the original picture.
_TIFF_LAYOUT = frozenset(
    {254, 255, 256, 257, 258, 259, 262, 263, 264, 265, 266, 273, 274, 277, 278, 279, 280, 281, 284, 288, 289, 290, 291}
    | {292, 293, 301, 320, 321, 322, 323, 324, 325, 330, 332, 333, 334, 336, 337, 338, 339, 340, 341, 342, 347}
    | {512, 513, 514, 515, 517, 518, 519, 520, 521, 529, 530, 531, 532, _PREDICTOR, _PHOTOSHOP_LAYERS}
)


@dataclass(frozen=True, eq=False)
class Source:
    """An opened file: its pixels in stored order, and its metadata."""

    image: ImageFile.ImageFile
    stored: Image.Image
    turn: Image.Transpose | None  # turns the stored picture upright
    tags: ImageFileDirectory_v2 | None  # of a TIFF
    data: bytes

    @classmethod
    def load(cls, image: ImageFile.ImageFile, data: bytes) -> Source:
        """Load the pixels. A TIFF's orientation is read first, because Pillow applies and removes it on loading."""
        if isinstance(image, TiffImageFile):
            tags = _descriptive_tags(image)
            turn = ORIENTATIONS.get(tags.get(ExifTags.Base.Orientation, 1))
            image.load()
            return cls(image, image if turn is None else image.transpose(inverse(turn)), turn, tags, data)
        image.load()
        try:  # as in decode: unreadable EXIF is ignored
            turn = ORIENTATIONS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
        except Exception:
            turn = None
        return cls(image, image, turn, None, data)

    @property
    def metadata(self) -> dict[str, Any]:
        """EXIF, XMP, colour profile and resolution, if present, as Pillow's save options."""
        info = self.image.info
        exif = info.get("exif")
        if self.tags is not None:
            exif = _exif(self.tags)
        elif "Raw profile type exif" in info and not exif:  # ImageMagick writes EXIF into PNG this way
            exif = self.image.getexif().tobytes()
        profile = None if self.image.mode in ("CMYK", "LAB") else info.get("icc_profile")
        xmp = info.get("xmp", info.get("XML:com.adobe.xmp")) if self.tags is None else self.tags.get(_XMP)
        dpi = tuple(float(value) for value in info.get("dpi", ()))
        if len(dpi) != 2 or not all(0 < value < 65536 for value in dpi):
            dpi = ()
        xmp = xmp.encode() if isinstance(xmp, str) else xmp
        found = {"exif": exif, "xmp": xmp, "icc_profile": profile, "dpi": dpi}
        return {name: value for name, value in found.items() if value}


def inverse(turn: Image.Transpose) -> Image.Transpose:
    """Return the transposition that undoes this one."""
    return _INVERSE.get(turn, turn)


def is_lossless(image: ImageFile.ImageFile, data: bytes) -> bool:
    """Return whether the file's own format is lossless, so that there is no quality to choose."""
    if image.format == "WEBP":
        return _is_lossless_webp(data)
    if image.format == "TIFF":
        return _tiff_compression(image) != "jpeg"
    return image.format in ("PNG", "BMP")


def write(pixels: Image.Image, kind: str, source: Source, quality: int | None) -> bytes:
    """Return a file of format `kind` with `pixels` (in stored order) and the metadata of `source`."""
    if kind == "JPEG":
        return _jpeg(pixels, source, quality)
    if kind == "PNG":
        return _png(pixels, source)
    if kind == "TIFF":
        return _tiff(pixels, source, quality)
    options = source.metadata
    if kind == "WEBP" and _is_lossless_webp(source.data):
        options |= {"lossless": True, "exact": True}
    elif kind != "BMP":
        options |= {"quality": quality or QUALITY}
        if kind == "AVIF":
            options["subsampling"] = _avif_subsampling(source.data)
        if kind == "HEIF":
            kept = ("chroma", "nclx_profile")
            options |= {name: source.image.info[name] for name in kept if source.image.info.get(name)}
    return _saved(pixels, kind, options)


def _saved(pixels: Image.Image, kind: str, options: dict[str, Any]) -> bytes:
    file = BytesIO()
    pixels.save(file, kind, **options)
    return file.getvalue()


def _jpeg(pixels: Image.Image, source: Source, quality: int | None) -> bytes:
    """Return a JPEG with the chroma subsampling of a JPEG source; for other sources 4:4:4 from quality 90 on."""
    if not isinstance(source.image, JpegImageFile):
        quality = quality or QUALITY
        options = source.metadata | {"quality": quality, "subsampling": 0 if quality >= 90 else 2}
        if "exif" in options:  # only JPEG needs this prefix
            options["exif"] = b"Exif\0\0" + options["exif"].removeprefix(b"Exif\0\0")
        return _saved(pixels, "JPEG", options)
    # 4:4:4 for subsamplings that Pillow cannot write (4:4:0, 4:1:1), and for CMYK, which has none.
    options = {"subsampling": max(0, get_sampling(source.image))}
    if quality is not None:
        options["quality"] = quality
    else:
        tables = [source.image.quantization[layer[3]] for layer in source.image.layer[:3]]
        options["qtables"] = tables[:2] if tables[1:2] == tables[2:3] else tables
    try:
        progressive = bool(source.image.info.get("progressive"))
        written = _saved(pixels, "JPEG", options | {"progressive": progressive})
    except OSError:  # Pillow's buffer for progressive files is too small for very noisy ones
        written = _saved(pixels, "JPEG", options)
    return _with_segments(written, source.image)


def _with_segments(written: bytes, image: JpegImageFile) -> bytes:
    kept = [
        (name, content)
        for name, content in image.applist
        if content.startswith(_SEGMENTS.get(name, ()))
        and not (image.mode == "CMYK" and content.startswith(b"ICC_PROFILE\0"))
    ]
    body = 4 + struct.unpack_from(">H", written, 4)[0]  # after Pillow's own JFIF header
    head = written[:2] if any(content.startswith(b"JFIF\0") for _, content in kept) else written[:body]
    copied = b"".join(
        struct.pack(">BBH", 0xFF, 0xFE if name == "COM" else 0xE0 + int(name[3:]), 2 + len(content)) + content
        for name, content in kept
    )
    return head + copied + written[body:]


def _png(pixels: Image.Image, source: Source) -> bytes:
    if source.image.format == "PNG":
        key = source.image.info.get("transparency") if pixels.mode == "I;16" else None
        return _with_chunks(_saved(pixels, "PNG", {"transparency": key}), source.data)
    options = source.metadata
    if xmp := options.pop("xmp", None):
        options["pnginfo"] = PngInfo()
        options["pnginfo"].add_itxt("XML:com.adobe.xmp", xmp)
    return _saved(pixels, "PNG", options)


def _with_chunks(written: bytes, original: bytes) -> bytes:
    same_header = written[24:26] == original[24:26]
    before: list[bytes] = []
    after: list[bytes] = []
    chunks = before
    for name, chunk in _chunks(original):
        if name == b"IDAT":
            chunks = after
        elif name in _CHUNKS or (name in _CHUNKS_OF_ONE_HEADER and same_header) or (name[0] & name[3] & 32):
            chunks.append(chunk)
    return written[:33] + b"".join(before) + written[33:-12] + b"".join(after) + written[-12:]


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = 8
    while place + 12 <= len(png):
        size, name = struct.unpack_from(">I4s", png, place)
        yield name, png[place : place + 12 + size]
        if name == b"IEND":
            return
        place += 12 + size


def _is_lossless_webp(data: bytes) -> bool:
    place = 12
    while place + 8 <= len(data):
        name, size = struct.unpack_from("<4sI", data, place)
        if name in (b"VP8 ", b"VP8L"):
            return bool(name == b"VP8L")
        place += 8 + size + size % 2
    return False


def _avif_subsampling(data: bytes) -> str:
    """Return the chroma subsampling in the first AV1 configuration that is not monochrome (as alpha is)."""
    for found in re.finditer(rb"av1C..(.)", data, re.DOTALL):
        flags = found[1][0]
        if not flags & 16:
            return {0: "4:4:4", 8: "4:2:2"}.get(flags & 12, "4:2:0")
    return "4:2:0"


def _descriptive_tags(image: TiffImageFile) -> ImageFileDirectory_v2:
    exif = image.getexif()
    tags = ImageFileDirectory_v2()
    for tag, value in image.tag_v2.items():
        if tag in TiffTags.TAGS_V2_GROUPS:  # EXIF and GPS are sub-directories
            inner = dict(exif.get_ifd(tag))
            if _INTEROP in inner:
                inner[_INTEROP] = exif.get_ifd(_INTEROP)
            tags[tag] = inner
        elif tag not in _TIFF_LAYOUT and not (tag == _ICC and image.mode in ("CMYK", "LAB")):
            tags.tagtype[tag] = image.tag_v2.tagtype[tag]
            tags[tag] = value
    if (orientation := exif.get(ExifTags.Base.Orientation)) in range(1, 9):
        tags[ExifTags.Base.Orientation] = orientation
    return tags


def _exif(tags: ImageFileDirectory_v2) -> bytes | None:
    """Return the tags as EXIF for other formats, without profile and XMP (stored elsewhere), IPTC and Photoshop."""
    exif = Image.Exif()
    for tag, value in tags.items():
        if tag not in (_XMP, _ICC, _IPTC, _PHOTOSHOP):
            exif[tag] = value
    return exif.tobytes() if exif else None


def _tiff_compression(image: ImageFile.ImageFile) -> str:
    compression = str(image.info.get("compression"))
    if compression in ("jpeg", "tiff_jpeg") and image.mode in ("L", "RGB"):
        return "jpeg"
    return compression if compression in _TIFF_LOSSLESS else "tiff_adobe_deflate"


def _tiff(pixels: Image.Image, source: Source, quality: int | None) -> bytes:
    compression = _tiff_compression(source.image)
    options: dict[str, Any] = {"compression": compression}
    if compression == "jpeg":
        options["quality"] = quality or QUALITY
    elif compression not in ("raw", "packbits") and getattr(source.image, "tag_v2", {}).get(_PREDICTOR) == 2:
        options["tiffinfo"] = {_PREDICTOR: 2}  # without it these codecs compress photos badly
    written = _saved(pixels, "TIFF", options)
    return _with_tags(written, source.tags) if source.tags else written


def _with_tags(written: bytes, tags: ImageFileDirectory_v2) -> bytes:
    """Append a new tag directory after the pixels, because libtiff accepts no sub-directories."""
    written += bytes(len(written) % 2)
    (place,) = struct.unpack_from("<I", written, 4)
    (count,) = struct.unpack_from("<H", written, place)
    own = [written[start : start + 12] for start in range(place + 2, place + 2 + 12 * count, 12)]
    own = [entry for entry in own if int.from_bytes(entry[:2], "little") not in tags]
    added = tags.tobytes(len(written) + 12 * len(own))  # count, entries, data
    end = 2 + 12 * len(tags)
    entries = own + [added[start : start + 12] for start in range(2, end, 12)]
    entries.sort(key=lambda entry: int.from_bytes(entry[:2], "little"))
    directory = struct.pack("<H", len(entries)) + b"".join(entries) + added[end:]
    return written[:4] + struct.pack("<I", len(written)) + written[8:] + directory
