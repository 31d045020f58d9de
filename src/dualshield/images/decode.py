"""Strict decoding of image files and Pillow images to RGB floats; all external images pass through here.

EXIF orientation is applied (unreadable EXIF is ignored; HEIC uses its own rotation property instead),
transparent images are composited over white, and ICC profiles are ignored: samples are taken as sRGB. Only the
first frame of an animation and the primary image of a HEIC container are read. Every problem with an input raises
a one-line `ImageError`; only libtiff may also write to stderr by itself, on damaged data.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, ImageFile, UnidentifiedImageError
from pillow_heif import register_heif_opener

from dualshield.errors import ImageError, InputError

register_heif_opener()
# Without a handler, Python prints Pillow's log records about bad TIFFs; applications still get the records.
logging.getLogger("PIL").addHandler(logging.NullHandler())

MAX_PIXELS = 120_000_000
MAX_BYTES = 512 * 2**20
IMAGE_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"}
    | {".heic", ".heif", ".hif", ".avif"}
)

# AVIF before HEIF: both accept the neutral "mif1" brand, but only the AVIF plugin checks the codec on opening.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "HEIF")
# Per-pixel l2 Lipschitz constant from samples scaled to [0,1] to RGB floats, by Pillow mode. Grey moves three channels
# at once; for alpha, r a + 1 - a, and CMYK, (1 - c)(1 - k), it is the largest norm of the Jacobian.
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

    `rows(start, stop)` returns some of its rows. Use it to work on strips of a large image, because `pixels` takes
    12 bytes for each pixel of the whole image.

    `gain` is an l2 Lipschitz constant, for every pixel, of the map to `pixels` from the file's own samples, each
    scaled to [0,1] (for lossy codecs, from the samples that the decoder returns). None if there is no such constant.
    """

    rows: Callable[[int, int], npt.NDArray[np.float32]]
    width: int
    height: int
    name: str
    format: str
    gain: float | None = None

    @cached_property
    def pixels(self) -> npt.NDArray[np.float32]:
        """All rows of the image."""
        return self.rows(0, self.height)


def decode(
    source: str | os.PathLike[str] | bytes, *, name: str | None = None, max_pixels: int = MAX_PIXELS
) -> DecodedImage:
    """Decode a file, or the bytes of file ``name``; the image size is checked before any pixel is decoded."""
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
    """Convert an image that Pillow has opened or created, by the same rules as for files."""
    with _refusing(name), pillow_guard(max_pixels):
        return _decoded(image, name, max_pixels)


def list_images(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the image files directly in a folder, by suffix, sorted by name, without hidden files."""
    name = os.fsdecode(folder)
    try:
        # Not Path.iterdir, which takes an empty name for the current folder.
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
    """Return an error of one line: which file, what is wrong, what to do."""
    return ImageError(f"{name if name.isprintable() else ascii(name)}: {what}; {todo}")


def _too_many_bytes(name: str, size: int) -> ImageError:
    return image_error(name, f"{size:,} bytes is more than {MAX_BYTES:,}", f"{_CONVERT} of a smaller size")


def reason(error: Exception) -> str:
    """Return the message of a third-party exception on one line, shortened."""
    return " ".join(str(getattr(error, "strerror", None) or error).split())[:200]


def read_bytes(name: str) -> bytes:
    """Return the content of a regular file; refuse pipes and devices without blocking."""
    try:
        _regular_size(name, os.stat(name))  # noqa: PTH116 - Path takes an empty name for the current folder
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
    """Turn any exception that Pillow raises into an ImageError."""
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
    # libtiff allocates a whole tile, however small the image is.
    tags = getattr(image, "tag_v2", {})
    check_size((tags.get(_TILE_WIDTH, 1), tags.get(_TILE_LENGTH, 1)), max_pixels, name)
    faithful = _is_faithful(image)
    image.load()
    check_size(image.size, max_pixels, name)  # the true size of a HEIF may be known only after decoding
    tags = dict(getattr(image, "tag_v2", {}))
    upright = _upright(image)
    if _is_deep(upright):
        _check_deep(upright, tags, name)
    # Pillow calls a JPEG with further pictures (previews, depth) MPO.
    kind = "JPEG" if image.format == "MPO" else str(image.format or "PIL")
    # With a transparent colour key, the smallest change of a sample may jump to white.
    keyed = "transparency" in image.info and image.mode != "CMYK"
    gain = GAINS.get(image.mode) if faithful and not keyed else None
    width, height = upright.size

    def rows(start: int, stop: int) -> npt.NDArray[np.float32]:
        with _refusing(name):
            whole = (start, stop) == (0, height)
            return _to_rgb(upright if whole else upright.crop((0, start, width, stop)), tags)

    return DecodedImage(rows, width, height, name, kind, gain)


def check_size(size: tuple[int, int], max_pixels: int, name: str) -> None:
    """Raise ImageError for an image without pixels or with too many."""
    width, height = size
    if width < 1 or height < 1:
        raise image_error(name, f"has no pixels ({width} x {height})", "replace it with an intact copy")
    if width * height > max_pixels:
        raise image_error(name, f"{width} x {height} is more than {max_pixels:,} pixels", "scale it down first")


def _is_faithful(image: Image.Image) -> bool:
    """Return whether Pillow will load the samples as stored, judged from the header only."""
    tags = getattr(image, "tag_v2", {})
    if tags.get(ExifTags.Base.PhotometricInterpretation) == _YCBCR:
        return False
    # Pillow cuts 16-bit colour to 8 bits, rounds 5-bit colour to 8, and divides alpha out of some TIFFs.
    shallow = max(tags.get(ExifTags.Base.BitsPerSample, (8,))) <= 8
    return _is_deep(image) or (shallow and not re.search(";1[56]|RGBa", str(getattr(image, "tile", [])[:1])))


def _is_deep(image: Image.Image) -> bool:
    return image.mode in ("I", "F") or image.mode.startswith("I;16")


def _upright(image: Image.Image) -> Image.Image:
    try:  # Pillow has already rotated a TIFF on loading and removed its orientation
        turn = ORIENTATIONS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:
        turn = None
    return image if turn is None else image.transpose(turn)


def _to_rgb(image: Image.Image, tags: dict[int, object]) -> npt.NDArray[np.float32]:
    if _is_deep(image):
        return samples_to_rgb(deep_grey(image, tags)[..., None])
    if image.mode == "CMYK":  # Pillow's own conversion rounds to 8 bits
        ink = np.asarray(image)
        rgb: npt.NDArray[np.float32] = np.multiply(255 - ink[..., :3], 255 - ink[..., 3:], dtype=np.float32)
        rgb /= 255 * 255
        return rgb
    if not image.has_transparency_data:
        return samples_to_rgb(np.asarray(image.convert("RGB")))
    if image.mode == "La":  # Pillow cannot convert premultiplied grey directly to RGBA
        image = image.convert("LA")
    return samples_to_rgb(np.asarray(image.convert("RGBA")))


def samples_to_rgb(samples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return RGB floats of grey, RGB or RGBA samples (height, width, 1, 3 or 4): grey repeated, alpha over white."""
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


def _white_of_deep(image: Image.Image, tags: dict[int, object]) -> int:
    if tags.get(ExifTags.Base.BitsPerSample) == (12,):
        return 4095
    return 1 if image.mode == "F" else 65535


def _check_deep(image: Image.Image, tags: dict[int, object], name: str) -> None:
    samples, white = np.asarray(image), _white_of_deep(image, tags)
    # Written so that NaN fails too.
    if not (samples.min() >= 0 and samples.max() <= white):
        raise image_error(name, f"grey samples outside [0, {white}]", f"rescale it, or {_CONVERT}")


def deep_grey(image: Image.Image, tags: dict[int, object]) -> npt.NDArray[np.float32]:
    """Return grey of more than 8 bits as floats in [0,1]; Pillow's own conversion would clip it to white."""
    samples = np.asarray(image)
    grey = samples.astype(np.float32)
    grey /= _white_of_deep(image, tags)
    # WhiteIsZero; Pillow inverts it only for up to 8 bits.
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
    """Set Pillow's global switches for safe decoding, and restore them when the last decoding thread is done.

    Pillow's pixel limit warns above its value and raises above twice its value. It is a second barrier beside
    `check_size`, e.g. for WebP, whose pixels are allocated on opening.
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
