"""Perceptual hashes: the PerceptualHash class, the registry, and one module per hash."""

from dualshield.hashes.available import HashState, list_hashes
from dualshield.hashes.codes import bit_error_rate, from_hex, to_hex
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.hashes.registry import DEFAULT_HASH, get_hash, hash_names

__all__ = [
    "DEFAULT_HASH",
    "HashState",
    "PerceptualHash",
    "bit_error_rate",
    "from_hex",
    "get_hash",
    "hash_names",
    "list_hashes",
    "to_hex",
]
