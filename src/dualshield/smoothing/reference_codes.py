"""The codes of a reference as text, in its file.

A code of bits is the number of bits and their hex, ``"256:88629e..."``. A code of values (a native rule, pixels) is the
shape and the little-endian float32 values, compressed, in base64, ``"f4:144:eJx..."``. Sizes are limited before
anything is unpacked.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dualshield.hashes.bits import from_hex, to_hex

if TYPE_CHECKING:  # torch takes a second to load, and exact references do not need it
    import torch

Code = npt.NDArray[np.bool_ | np.float32]
MAX_BITS = 2**20
MAX_NUMBERS = 2**22


def as_array(code: torch.Tensor | Code) -> Code:
    """Return the code as a numpy array, where it is not one already."""
    return code if isinstance(code, np.ndarray) else code.detach().cpu().numpy()


def to_text(code: Code) -> str:
    """Return a code as text."""
    if code.dtype == np.bool_:
        return f"{code.size}:{to_hex(code.astype(np.bool_))}"
    return f"f4:{_shape(code)}:{base64.b64encode(zlib.compress(_bytes(code), 6)).decode()}"


def identified(code: Code) -> str:
    """Return what identifies a code; it does not depend on the compression."""
    if code.dtype == np.bool_:
        return to_text(code)
    return f"f4:{_shape(code)}:{hashlib.sha256(_bytes(code)).hexdigest()}"


def _shape(code: Code) -> str:
    return "x".join(map(str, code.shape))


def _bytes(code: Code) -> bytes:
    return np.ascontiguousarray(code, dtype="<f4").tobytes()


def from_text(text: Any) -> Code:
    """Read a code."""
    if not isinstance(text, str):
        raise TypeError("a code is not text")
    kind, _, rest = text.partition(":")
    if kind != "f4":
        return from_hex(rest, _whole(kind, MAX_BITS))
    shape_text, _, packed = rest.partition(":")
    shape = _shape_of(shape_text)
    size = math.prod(shape)
    if not 1 <= size <= MAX_NUMBERS:
        raise ValueError(f"a code has the invalid shape {shape_text}")
    return _unpacked(packed, size).reshape(shape)


def _unpacked(packed: str, size: int) -> Code:
    """Return ``size`` unpacked numbers; unpacking stops as soon as there are more."""
    try:
        compressed = base64.b64decode(packed, validate=True)
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(compressed, 4 * size + 1)
    except (binascii.Error, zlib.error) as error:
        raise ValueError("a code cannot be unpacked") from error
    if len(data) != 4 * size or not unpacker.eof or unpacker.unused_data:
        raise ValueError(f"a code does not have its {size} numbers")
    values = np.frombuffer(data, dtype="<f4").astype(np.float32)
    if not np.isfinite(values).all():
        raise ValueError("a code has numbers that are not finite")
    return values


def _whole(text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise ValueError(f"{text[:20]!r} is not a whole number from 1 to {most}")
    return int(text)


def stack_of(entries: list[Any], like: str) -> Code:
    """Read several codes; their shape (that of ``like``) and total size are checked before unpacking."""
    kind = _kind(like)
    if not all(isinstance(entry, str) and _kind(entry) == kind for entry in entries):
        raise ValueError("its codes do not have the same shape")
    if len(entries) * _size(kind) > MAX_NUMBERS:
        raise ValueError(f"its codes have more than {MAX_NUMBERS} values")
    return np.stack([from_text(entry) for entry in entries])


def _kind(text: str) -> str:
    """Return the header of a code, its type and shape, without the values."""
    return text.rpartition(":")[0]


def _size(kind: str) -> int:
    """Return how many numbers a code has, from its header."""
    bits_or_f4, _, shape = kind.partition(":")
    return math.prod(_shape_of(shape)) if bits_or_f4 == "f4" else _whole(bits_or_f4, MAX_BITS)


def _shape_of(text: str) -> tuple[int, ...]:
    sides = text.split("x", 3)
    if len(sides) > 3:
        raise ValueError("a code has more than three sides")
    return tuple(_whole(side, MAX_NUMBERS) for side in sides)
