"""Hash codes as bool vectors and as hex, first bit first (most significant)."""

from __future__ import annotations

import numpy as np
import torch

from dualshield.errors import CodeError


def to_hex(code: torch.Tensor) -> str:
    """Return a bool vector as hex; the last digit is padded with zero bits if 4 does not divide the length."""
    packed = np.packbits(code.cpu().numpy().astype(np.uint8)).tobytes().hex()
    return packed[: hex_digits(code.numel())]


def from_hex(text: str, bits: int) -> torch.Tensor:
    """Return the bool vector of a hex string, which must have exactly as many digits as ``bits`` need."""
    digits = hex_digits(bits)
    if len(text) != digits:
        raise CodeError(f"code {text[:40]!r} has {len(text)} hex digits, a hash of {bits} bits needs {digits}")
    if not text.isascii() or not all(c in "0123456789abcdefABCDEF" for c in text):
        raise CodeError(f"code {text[:40]!r} is not hexadecimal; use the digits 0-9 and a-f")
    raw = np.frombuffer(bytes.fromhex(text + "0" * (len(text) % 2)), dtype=np.uint8)
    unpacked = np.unpackbits(raw)
    if unpacked[bits:].any():
        raise CodeError(f"code {text[:40]!r} has bits set beyond the {bits} of this hash")
    return torch.from_numpy(unpacked[:bits].astype(bool))


def hex_digits(bits: int) -> int:
    """Return the number of hex digits for ``bits`` bits."""
    return -(-bits // 4)


def bit_error_rate(code: torch.Tensor, other: torch.Tensor) -> float:
    """Return the fraction of differing bits."""
    return float((code ^ other).float().mean())
