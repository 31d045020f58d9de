"""Conversion of paths, bytes, Pillow images, arrays and tensors to canonical images, by the same rules as for files."""

from __future__ import annotations

import os
from dataclasses import replace
from io import BytesIO
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from dualshield.images.canonical import CanonicalImage, canonicalise
from dualshield.images.decode import (
    GAINS,
    MAX_PIXELS,
    DecodedImage,
    check_size,
    decode,
    decode_opened,
    image_error,
    reason,
    samples_to_rgb,
)

_FileLike: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview
NotTensor: TypeAlias = CanonicalImage | _FileLike | Image.Image | npt.NDArray[Any]
ImageLike: TypeAlias = NotTensor | torch.Tensor

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # Pillow mode by number of channels
_ARRAYS = (
    "give uint8, uint16, bool, or floats in [0, 1], of shape (height, width) or (height, width, channels) "
    "with 1, 3 or 4 channels"
)
_TENSORS = (
    "give uint8, or floats in [0, 1], of shape (height, width) or (channels, height, width) with 1, 3 or 4 channels"
)


def as_image(source: ImageLike, name: str | None = None) -> CanonicalImage:
    """Return the canonical image of a file name, the bytes of a file, a Pillow image, an array or a tensor.

    A canonical image is returned unchanged, or renamed if ``name`` is given. Transparent images are composited over
    white; grey is repeated in three channels. Any unusable input raises ImageError, also one of the wrong type.
    """
    if not isinstance(name, str | None):
        raise image_error("<image>", f"its name is of type {type(name).__name__}", "give a string")
    if isinstance(source, CanonicalImage):
        return source if name is None else replace(source, name=name)
    return canonicalise(_decoded(source, name))


def as_file(source: ImageLike) -> tuple[str, bytes]:
    """Return a name and the bytes of an image file: the bytes given, or a PNG of the pixels."""
    if isinstance(source, bytes | bytearray | memoryview):
        return "<bytes>", bytes(source)
    if isinstance(source, CanonicalImage):
        return source.name, source.to_png()
    decoded = _decoded(source, None)
    file = BytesIO()
    Image.fromarray(np.rint(decoded.pixels * 255).astype(np.uint8)).save(file, "PNG")
    return decoded.name, file.getvalue()


def _decoded(source: ImageLike, name: str | None) -> DecodedImage:
    if isinstance(source, str | os.PathLike):
        return decode(source, name=name)
    if isinstance(source, bytes | bytearray | memoryview):
        return decode(bytes(source), name=name)
    if isinstance(source, Image.Image):
        return decode_opened(source, name=name or _filename(source) or "<image>")
    if isinstance(source, np.ndarray):
        return _from_array(np.asarray(source), name or "<array>")  # drop subclasses, which may mask values
    if isinstance(source, torch.Tensor):
        return _from_tensor(source, name or "<tensor>")
    what = f"got an object of type {type(source).__name__}"
    raise image_error(name or "<image>", what, "give a file name, bytes, a PIL image, a NumPy array or a torch tensor")


def _filename(image: Image.Image) -> str:
    """Return the file name of a Pillow image, or an empty string."""
    found = getattr(image, "filename", "")
    return os.fsdecode(found) if isinstance(found, str | bytes | os.PathLike) else ""


def _from_array(array: npt.NDArray[Any], name: str) -> DecodedImage:
    channels = array.shape[2] if array.ndim == 3 else 1
    known = array.dtype.kind in "fb" or (array.dtype.kind == "u" and array.dtype.itemsize <= 2)
    if not known or array.ndim not in (2, 3) or channels not in _MODES or not array.size:
        raise image_error(name, f"got {array.dtype} of shape {array.shape}", _ARRAYS)
    return _from_samples(np.atleast_3d(array), "array", name, _ARRAYS)


def _from_tensor(tensor: torch.Tensor, name: str) -> DecodedImage:
    channels = tensor.shape[0] if tensor.ndim == 3 else 1
    got = f"got {tensor.dtype} of shape {tuple(tensor.shape)}"
    known = tensor.is_floating_point() or tensor.dtype == torch.uint8
    if not known or tensor.ndim not in (2, 3) or channels not in _MODES or not tensor.numel():
        raise image_error(name, got, _TENSORS)
    check_size((tensor.shape[-1], tensor.shape[-2]), MAX_PIXELS, name)  # before the copies below
    # NumPy has no bfloat16. float64 is kept, so that rounding moves no value into the allowed range.
    dtype = tensor.dtype if tensor.dtype in (torch.uint8, torch.float64) else torch.float32
    try:
        array = tensor.detach().to(dtype).numpy(force=True)
    except (RuntimeError, TypeError) as error:  # a sparse tensor, or one without data
        raise image_error(name, f"{got} that cannot be read ({reason(error)})", _TENSORS) from error
    samples = array[..., None] if array.ndim == 2 else np.moveaxis(array, 0, 2)
    return _from_samples(samples, "tensor", name, _TENSORS)


def _from_samples(samples: npt.NDArray[Any], kind: str, name: str, accepted: str) -> DecodedImage:
    height, width, channels = samples.shape
    check_size((width, height), MAX_PIXELS, name)
    if samples.dtype.kind == "f":
        low, high = float(samples.min()), float(samples.max())
        if not (low >= 0 and high <= 1):  # written so that NaN fails too
            finite = np.isfinite(low) and np.isfinite(high)
            what = f"values from {low:.6g} to {high:.6g}" if finite else "NaN or infinite values"
            raise image_error(name, f"got {what}", accepted)
    return DecodedImage(
        lambda start, stop: samples_to_rgb(samples[start:stop]), width, height, name, kind, GAINS[_MODES[channels]]
    )
