"""Image files and Pillow images to RGB floats: one strict door for everything that arrives from outside.

EXIF orientation is applied (unreadable EXIF counts as none; HEIC turns by its own property instead),
transparency is laid over white, ICC profiles are ignored: samples are taken as sRGB. Of an animation the
first frame is read, of a HEIC container the primary image. Whatever is wrong with an input leaves here as
a one-line `ImageError`; only libtiff may, on damaged data, also write to stderr on its own.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, ImageFile, UnidentifiedImageError
from pillow_heif import register_heif_opener

from dualshield.errors import ImageError, InputError

register_heif_opener()
# Without any handler Python prints what Pillow logs about a bad TIFF; applications still get the records.
logging.getLogger("PIL").addHandler(logging.NullHandler())

MAX_PIXELS = 120_000_000
MAX_BYTES = 512 * 2**20
IMAGE_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"}
    | {".heic", ".heif", ".hif", ".avif"}
)

# AVIF before HEIF: both take the neutral "mif1" brand, but only the AVIF plugin looks at the codec on opening.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "HEIF")
# By Pillow's mode, how far RGB floats move at most in l2 when samples scaled to [0,1] move by one. Grey moves three
# channels at once; behind alpha, r a + 1 - a, and CMYK, (1 - c)(1 - k), this is the Jacobian where it is largest.
GAINS = {"RGB": 1.0, "RGBX": 1.0, "LA": 6**0.5, "RGBA": 2.0, "CMYK": 2.0}
GAINS |= dict.fromkeys(("1", "L", "I", "F", "I;16", "I;16L", "I;16B", "I;16N"), 3**0.5)
_CONVERT = "convert it to JPEG or PNG"
_TILE_WIDTH, _TILE_LENGTH, _YCBCR = 322, 323, 6
ORIENTATIONS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True, eq=False)
class DecodedImage:
    """An upright image; `pixels` is (height, width, 3) RGB, float32 in [0,1], C-contiguous.

    `gain` is an l2 Lipschitz constant, for every pixel, of the map to `pixels` from the file's own samples, each
    scaled to [0,1]. Lossy codecs store none: there they are what the decoder returns. None: there is no constant.
    """

    pixels: npt.NDArray[np.float32]
    width: int
    height: int
    name: str
    format: str
    gain: float | None = None


def decode(
    source: str | os.PathLike[str] | bytes, *, name: str | None = None, max_pixels: int = MAX_PIXELS
) -> DecodedImage:
    """Decode a file, or the bytes of one (of file ``name``); its size is checked before any pixel is decoded."""
    if max_pixels < 1:
        raise InputError(f"max_pixels is {max_pixels}; give at least 1")
    name = name or ("<bytes>" if isinstance(source, bytes) else os.fsdecode(source))
    data = source if isinstance(source, bytes) else read_bytes(os.fsdecode(source))
    if not data:
        raise image_error(name, "the file is empty", "copy or download it again")
    if len(data) > MAX_BYTES:
        raise _too_many_bytes(name, len(data))
    with _refusing(name), pillow_guard(max_pixels), Image.open(BytesIO(data), formats=FORMATS) as image:
        return _decoded(image, name, max_pixels)


def decode_opened(image: Image.Image, *, name: str, max_pixels: int = MAX_PIXELS) -> DecodedImage:
    """An image that Pillow has opened, in whatever format, or made, by the rules for files."""
    with _refusing(name), pillow_guard(max_pixels):
        return _decoded(image, name, max_pixels)


def list_images(folder: str | os.PathLike[str]) -> list[Path]:
    """The image files directly in a folder, by suffix, sorted by name, hidden ones left out."""
    name = os.fsdecode(folder)
    try:
        # Not Path.iterdir: to it an empty name is the current folder, not a missing one.
        with os.scandir(name) as entries:
            shown = [Path(name, entry) for entry in sorted(e.name for e in entries) if not entry.startswith(".")]
        images = [path for path in shown if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file()]
    except FileNotFoundError as error:
        raise image_error(name, "no such folder", "check the path") from error
    except NotADirectoryError as error:
        raise image_error(name, "not a folder", "give the folder that holds the images") from error
    except (OSError, ValueError) as error:
        raise image_error(name, f"cannot be listed ({reason(error)})", "check its permissions") from error
    if not images:
        raise image_error(name, "holds no images", f"known suffixes are {' '.join(sorted(IMAGE_SUFFIXES))}")
    return images


def image_error(name: str, what: str, todo: str) -> ImageError:
    """One line: which file, what is wrong with it, what to do."""
    return ImageError(f"{name if name.isprintable() else ascii(name)}: {what}; {todo}")


def _too_many_bytes(name: str, size: int) -> ImageError:
    return image_error(name, f"{size:,} bytes is more than {MAX_BYTES:,}", f"{_CONVERT} of a smaller size")


def reason(error: Exception) -> str:
    """The gist of somebody else's exception, on one line."""
    return " ".join(str(getattr(error, "strerror", None) or error).split())[:200]


def read_bytes(name: str) -> bytes:
    """The whole of a regular file; pipes and devices are refused without waiting for them."""
    try:
        _regular_size(name, os.stat(name))  # noqa: PTH116 - to Path an empty name is the current folder
        # Non-blocking, because a pipe could take the file's place after the check above.
        flag: int = getattr(os, "O_NONBLOCK", 0)
        with open(name, "rb", opener=lambda path, flags: os.open(path, flags | flag)) as file:
            return file.read(_regular_size(name, os.fstat(file.fileno())))
    except FileNotFoundError as error:
        raise image_error(name, "no such file", "check the path") from error
    except PermissionError as error:
        raise image_error(name, "no permission to read it", "change its permissions") from error
    except (OSError, ValueError, MemoryError) as error:
        raise image_error(name, f"cannot be read ({reason(error)})", "check the path and the disk") from error


def _regular_size(name: str, status: os.stat_result) -> int:
    if stat.S_ISDIR(status.st_mode):
        raise image_error(name, "this is a folder", "give an image file")
    if not stat.S_ISREG(status.st_mode):
        raise image_error(name, "not a regular file (pipe, socket or device)", "save it as a file first")
    if status.st_size > MAX_BYTES:
        raise _too_many_bytes(name, status.st_size)
    return status.st_size


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    """Whatever Pillow raises becomes an ImageError."""
    try:
        yield
    except ImageError:
        raise
    except UnidentifiedImageError as error:
        what = "not a readable JPEG, PNG, WebP, GIF, BMP, TIFF, HEIC or AVIF image"
        raise image_error(name, what, f"{_CONVERT}, or replace it if it is damaged") from error
    except (Image.DecompressionBombError, MemoryError) as error:
        raise image_error(name, "too large to decode safely", "scale it down first") from error
    except Exception as error:  # Pillow's decoders raise almost anything on damaged data
        what = f"damaged or truncated image data ({type(error).__name__}: {reason(error)})"
        raise image_error(name, what, "replace it with an intact copy") from error


def _decoded(image: Image.Image, name: str, max_pixels: int) -> DecodedImage:
    check_size(image.size, max_pixels, name)
    # libtiff makes room for a whole tile, however small the image it belongs to.
    tags = getattr(image, "tag_v2", {})
    check_size((tags.get(_TILE_WIDTH, 1), tags.get(_TILE_LENGTH, 1)), max_pixels, name)
    faithful = _is_faithful(image)
    image.load()
    check_size(image.size, max_pixels, name)  # HEIF may only learn its true size while decoding
    pixels = _to_rgb(image, name)
    # MPO is what Pillow calls a JPEG with further pictures (previews, depth) behind the first one.
    kind = "JPEG" if image.format == "MPO" else str(image.format or "PIL")
    # Where a key says which sample or palette entry is transparent, the smallest change may jump to white.
    keyed = "transparency" in image.info and image.mode != "CMYK"
    gain = GAINS.get(image.mode) if faithful and not keyed else None
    return DecodedImage(pixels, pixels.shape[1], pixels.shape[0], name, kind, gain)


def check_size(size: tuple[int, int], max_pixels: int, name: str) -> None:
    """Refuses images of no pixels, and of too many."""
    width, height = size
    if width < 1 or height < 1:
        raise image_error(name, f"has no pixels ({width} x {height})", "replace it with an intact copy")
    if width * height > max_pixels:
        raise image_error(name, f"{width} x {height} is more than {max_pixels:,} pixels", "scale it down first")


def _is_faithful(image: Image.Image) -> bool:
    """Whether Pillow will load the samples as they are stored, as far as an image not yet loaded tells."""
    tags = getattr(image, "tag_v2", {})
    if tags.get(ExifTags.Base.PhotometricInterpretation) == _YCBCR:
        return False
    # Colour of 16 bits is cut to 8, colour of 5 is rounded to 8, and from some TIFFs alpha is divided out.
    shallow = max(tags.get(ExifTags.Base.BitsPerSample, (8,))) <= 8
    return _is_deep(image) or (shallow and not re.search(";1[56]|RGBa", str(getattr(image, "tile", [])[:1])))


def _is_deep(image: Image.Image) -> bool:
    return image.mode in ("I", "F") or image.mode.startswith("I;16")


def _to_rgb(image: Image.Image, name: str) -> npt.NDArray[np.float32]:
    try:  # a TIFF has been turned on loading and no longer says so
        turn = ORIENTATIONS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:
        turn = None
    upright = image if turn is None else image.transpose(turn)
    if _is_deep(image):
        return samples_to_rgb(deep_grey(upright, dict(getattr(image, "tag_v2", {})), name)[..., None])
    if image.mode == "CMYK":  # Pillow's own conversion rounds to 8 bits
        ink = np.asarray(upright)
        rgb: npt.NDArray[np.float32] = np.multiply(255 - ink[..., :3], 255 - ink[..., 3:], dtype=np.float32)
        rgb /= 255 * 255
        return rgb
    if not image.has_transparency_data:
        return samples_to_rgb(np.asarray(upright.convert("RGB")))
    if upright.mode == "La":  # Pillow has no direct way from premultiplied grey to RGBA
        upright = upright.convert("LA")
    return samples_to_rgb(np.asarray(upright.convert("RGBA")))


def samples_to_rgb(samples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Grey, RGB or RGBA (height, width, 1, 3 or 4), of whole numbers or in [0,1]: grey repeated, alpha over white."""
    white = np.iinfo(samples.dtype).max if samples.dtype.kind == "u" else 1
    rgb = samples[..., :3].astype(np.float32, order="C")
    rgb /= white
    if samples.shape[2] == 1:
        return np.repeat(rgb, 3, axis=2)
    if samples.shape[2] == 4:
        alpha = samples[..., 3:].astype(np.float32) / white
        rgb *= alpha
        rgb += 1 - alpha
        np.clip(rgb, 0, 1, out=rgb)
    return rgb


def deep_grey(image: Image.Image, tags: dict[int, object], name: str) -> npt.NDArray[np.float32]:
    """Grey of more than 8 bits; Pillow's own conversion would clip it to white."""
    samples = np.asarray(image)
    white = 1 if image.mode == "F" else 65535
    if tags.get(ExifTags.Base.BitsPerSample) == (12,):
        white = 4095
    # Written so that NaN fails too.
    if not (samples.min() >= 0 and samples.max() <= white):
        raise image_error(name, f"grey samples outside [0, {white}]", f"rescale it, or {_CONVERT}")
    grey = samples.astype(np.float32)
    grey /= white
    # WhiteIsZero, which Pillow itself undoes for up to 8 bits only.
    if tags.get(ExifTags.Base.PhotometricInterpretation) == 0:
        np.subtract(1, grey, out=grey)
    if isinstance(transparent := image.info.get("transparency"), int):
        grey[samples == transparent] = 1
    return grey


_guard_lock = threading.Lock()
_guard_limits: list[int] = []
_guard_saved: list[tuple[int | None, bool, warnings.catch_warnings[None]]] = []


@contextmanager
def pillow_guard(max_pixels: int) -> Iterator[None]:
    """Pillow's global switches set to what we need, and put back when the last decoding thread is done.

    Its pixel limit warns at one and raises at two times its value; with ours in place it stays a second
    barrier beside `check_size`, e.g. for WebP, which makes room for its pixels on opening already.
    """
    with _guard_lock:
        if not _guard_limits:
            quiet = warnings.catch_warnings()
            quiet.__enter__()
            warnings.filterwarnings("ignore", module=r"PIL\.|pillow_heif\.")
            _guard_saved.append((Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, quiet))
            ImageFile.LOAD_TRUNCATED_IMAGES = False
        _guard_limits.append(max_pixels)
        Image.MAX_IMAGE_PIXELS = max(_guard_limits)
    try:
        yield
    finally:
        with _guard_lock:
            _guard_limits.remove(max_pixels)
            if _guard_limits:
                Image.MAX_IMAGE_PIXELS = max(_guard_limits)
            else:
                Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, quiet = _guard_saved.pop()
                quiet.__exit__(None, None, None)
