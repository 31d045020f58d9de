"""Transfer of a perturbation from the canonical image to the file that will be published.

The canonical image is 512 x 512; the published file keeps its own size, stored orientation, format, mode and metadata
(see `encode`). Only its samples change, by the perturbation resampled to the file's size. A thumbnail of the original
picture in EXIF is kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from PIL import Image, ImageFile

from dualshield.errors import ImageError, InputError
from dualshield.images.accept import ImageLike, as_file
from dualshield.images.canonical import CanonicalImage, canonicalise
from dualshield.images.decode import (
    FORMATS,
    MAX_PIXELS,
    decode,
    deep_grey,
    image_error,
    pillow_guard,
    read_bytes,
    reason,
)
from dualshield.images.encode import Source, inverse, is_lossless, write
from dualshield.images.space import CANONICAL_SIZE, LUMA

Format = Literal["keep", "png", "jpeg"]
MIN_SIDE = 64

# Below this opacity, a sample would have to change too much to have a visible effect.
_LEAST_OPACITY = 0.25


def published_suffix(file: str | os.PathLike[str], format: Format) -> str:
    """Return the suffix of the published file's name."""
    return {"png": ".png", "jpeg": ".jpg"}.get(format, Path(file).suffix)


@dataclass(frozen=True, eq=False)
class Publication:
    """An image file to be published with a perturbation and otherwise unchanged."""

    canonical: CanonicalImage  # equal to the result of load_image
    opacity: torch.Tensor | None  # canonical (512, 512) in [0, 1]; None if fully opaque
    size: tuple[int, int]  # width, height, upright
    format: str
    _data: bytes = field(repr=False)
    _multiple: bool = field(repr=False)
    _lossless: bool = field(repr=False)

    @classmethod
    def open(cls, file: ImageLike) -> Publication:
        """Read the file. It is read only once, so replacing it later has no effect.

        Pixels in memory (an array, a PIL image) are published as PNG.
        """
        if isinstance(file, str | os.PathLike):
            name = os.fsdecode(file)
            data = read_bytes(name)
        else:
            name, data = as_file(file)
        decoded = decode(data, name=name)
        size = (decoded.width, decoded.height)
        if min(size) < MIN_SIDE:
            raise image_error(name, f"{size[0]}x{size[1]} is too small to harden", f"give at least {MIN_SIDE} px")
        canonical = canonicalise(decoded)
        with _opened(data, name, decoded.format) as image:
            multiple = image.format != "MPO" and bool(getattr(image, "is_animated", False))
            lossless = is_lossless(image, data)
            opacity = None
            if image.has_transparency_data:
                opacity = _canonical_opacity(Source.load(image, data), name)
        return cls(canonical, opacity, size, decoded.format, data, multiple, lossless)

    def suffix(self, format: Format) -> str:
        """Return the suffix of the published file's name; bytes without a name get one from their format."""
        own = Path(self.canonical.name).suffix or f".{self.format.lower().replace('jpeg', 'jpg')}"
        return published_suffix(f"file{own}", format)

    def check(self, format: Format = "keep", quality: int | None = None) -> str:
        """Return the format that `encode` will write; raises its errors early, before a long computation."""
        if format not in get_args(Format):
            raise InputError(f"format is {format!r}; use keep, png or jpeg")
        kind = self.format if format == "keep" else format.upper()
        name = self.canonical.name
        if format == "keep" and kind == "GIF":
            raise image_error(name, "GIF cannot be kept", "use the format png, which publishes its first frame")
        if format == "keep" and self._multiple:
            what = "a file of several frames or pages cannot be kept"
            raise image_error(name, what, "use the format png, which publishes the first")
        if kind in ("JPEG", "BMP") and self.opacity is not None:
            raise image_error(name, f"{kind} cannot hold its transparency", "use the format png")
        if quality is not None:
            if not 1 <= quality <= 100:
                raise InputError(f"quality is {quality}; give 1 to 100")
            if kind == "PNG" or (kind == self.format and self._lossless):
                what = kind if kind in ("PNG", "BMP") else f"lossless {kind}"
                raise InputError(f"{what} has no quality; leave the quality out, or use the format jpeg")
        return kind

    def encode(self, delta: torch.Tensor, format: Format = "keep", quality: int | None = None) -> bytes:
        """Return the bytes of the published file; `delta` is ``(3, 512, 512)`` in units of the pixel range."""
        kind = self.check(format, quality)
        delta = delta.detach().to("cpu", torch.float32)
        if delta.shape != self.canonical.pixels.shape or not delta.isfinite().all():
            raise InputError(f"perturbation of shape {tuple(delta.shape)}; give finite numbers of shape (3, 512, 512)")
        with _opened(self._data, self.canonical.name, kind) as image:
            source = Source.load(image, self._data)
            samples = _Samples.of(source, self.canonical.name)
            return write(samples.perturbed(_stored_order(delta, source), kind), kind, source, quality)


@contextmanager
def _opened(data: bytes, name: str, kind: str) -> Iterator[ImageFile.ImageFile]:
    """Open bytes that `decode` has accepted; only metadata that Pillow cannot read or write can still fail."""
    try:
        with pillow_guard(MAX_PIXELS), Image.open(BytesIO(data), formats=FORMATS) as image:
            yield image
    except ImageError:
        raise
    except Exception as error:  # Pillow's encoders raise almost anything, like its decoders
        what = f"cannot be written as {kind} ({type(error).__name__}: {reason(error)})"
        raise image_error(name, what, "convert it to another format, or remove its metadata") from error


@dataclass(frozen=True, eq=False)
class _Samples:
    """The samples of a file in stored order, in the mode in which they can be changed and written."""

    colour: npt.NDArray[Any]  # (height, width, 1 or 3): uint8, or float32 in [0, 1] for grey of more than 8 bits
    alpha: npt.NDArray[np.uint8] | None
    deep: str  # Pillow's mode of grey of more than 8 bits, else ""
    key: int | None = None  # the sample value that means transparent

    @classmethod
    def of(cls, source: Source, name: str) -> _Samples:
        image = source.stored
        if image.mode in ("I", "F") or image.mode.startswith("I;16"):
            grey = deep_grey(image, dict(getattr(source.image, "tag_v2", {})))[..., None]
            key = image.info.get("transparency")
            if not isinstance(key, int):
                return cls(grey, None, image.mode)
            return cls(grey, np.where(np.asarray(image) == key, 0, 255).astype(np.uint8), image.mode, key)
        grey_mode = image.mode in ("1", "L", "LA", "La")
        if not image.has_transparency_data:
            colour = np.asarray(image.convert("L" if grey_mode else "RGB"))
            return cls(np.atleast_3d(colour), None, "")
        both = np.asarray(image.convert("LA" if grey_mode else "RGBA"))
        return cls(both[..., :-1], both[..., -1], "")

    def perturbed(self, delta: torch.Tensor, kind: str) -> Image.Image:
        """Return the samples changed by `delta` (as seen through alpha), rounded to the precision of `kind`."""
        height, width, channels = self.colour.shape
        parts = delta if channels == 3 else torch.einsum("c,chw->hw", torch.tensor(LUMA), delta)[None]
        white, dtype = self._target(kind)
        scale = np.float32(white if self.deep else 1)
        seen = None
        if self.alpha is not None:
            opacity = self.alpha.astype(np.float32) / 255
            seen = np.where(self.alpha > 0, 1 / np.maximum(opacity, _LEAST_OPACITY), 0).astype(np.float32)
        moved = np.empty(self.colour.shape, dtype)
        for channel in range(channels):  # one at a time, to save memory
            change = _resampled(parts[channel], width, height)
            change *= white
            if seen is not None:
                change *= seen
            change += self.colour[..., channel] * scale
            if dtype != np.float32:
                np.rint(change, out=change)
            moved[..., channel] = np.clip(change, 0, white, out=change)
        if self.key is not None and self.alpha is not None and dtype == np.uint16:
            # No sample may become transparent or opaque.
            moved[moved == self.key] = self.key - 1 if self.key else 1
            moved[self.alpha == 0] = self.key
        elif self.alpha is not None and kind not in ("JPEG", "BMP"):
            moved = np.concatenate([moved, self.alpha[..., None]], axis=2)
        return Image.fromarray(moved[..., 0] if moved.shape[2] == 1 else moved)

    def _target(self, kind: str) -> tuple[int, type[np.generic]]:
        if not self.deep or kind == "JPEG":
            return 255, np.uint8
        if kind == "TIFF" and self.deep in ("F", "I"):
            return (1, np.float32) if self.deep == "F" else (65535, np.int32)
        return 65535, np.uint16


def _resampled(channel: torch.Tensor, width: int, height: int) -> npt.NDArray[np.float32]:
    """Resample one channel of the perturbation to the file's size; antialiasing acts only when shrinking."""
    mode = "bicubic" if min(width, height) >= CANONICAL_SIZE else "bilinear"
    found = F.interpolate(channel[None, None], size=(height, width), mode=mode, antialias=True)
    return np.array(found[0, 0].numpy())  # a copy: without a change of size, interpolate returns a view


def _stored_order(delta: torch.Tensor, source: Source) -> torch.Tensor:
    """Turn the perturbation to the file's stored orientation, while it is still small and square."""
    if source.turn is None:
        return delta
    back = inverse(source.turn)
    turned = [np.array(Image.fromarray(channel.numpy()).transpose(back)) for channel in delta.contiguous()]
    return torch.from_numpy(np.stack(turned))


def _canonical_opacity(source: Source, name: str) -> torch.Tensor | None:
    """Return the canonical opacity, or None if the image is fully opaque (such a file can become a JPEG)."""
    alpha = _Samples.of(source, name).alpha
    if alpha is None or alpha.min() == 255:
        return None
    upright = Image.fromarray(alpha) if source.turn is None else Image.fromarray(alpha).transpose(source.turn)
    opacity = torch.from_numpy(np.asarray(upright).astype(np.float32) / 255)[None, None]
    size = (CANONICAL_SIZE, CANONICAL_SIZE)
    return F.interpolate(opacity, size=size, mode="bilinear", antialias=True)[0, 0].clamp(0, 1)
