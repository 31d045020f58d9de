"""Codes as numpy bool vectors and as hex, first bit first (most significant). `codes` has the same for torch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dualshield.errors import CodeError

Bits = npt.NDArray[np.bool_]


def to_hex(code: Bits) -> str:
    """Return a bool vector as hex; the last digit is padded with zero bits if 4 does not divide the length."""
    return np.packbits(code).tobytes().hex()[: hex_digits(len(code))]


def from_hex(text: str, bits: int) -> Bits:
    """Return the bool vector of a hex string, which must have exactly as many digits as ``bits`` need."""
    digits = hex_digits(bits)
    if len(text) != digits:
        raise CodeError(f"code {text[:40]!r} has {len(text)} hex digits, a hash of {bits} bits needs {digits}")
    if not text.isascii() or not all(c in "0123456789abcdefABCDEF" for c in text):
        raise CodeError(f"code {text[:40]!r} is not hexadecimal; use the digits 0-9 and a-f")
    unpacked = np.unpackbits(np.frombuffer(bytes.fromhex(text + "0" * (len(text) % 2)), dtype=np.uint8))
    if unpacked[bits:].any():
        raise CodeError(f"code {text[:40]!r} has bits set beyond the {bits} of this hash")
    return unpacked[:bits].astype(np.bool_)


def hex_digits(bits: int) -> int:
    """Return the number of hex digits for ``bits`` bits."""
    return -(-bits // 4)
