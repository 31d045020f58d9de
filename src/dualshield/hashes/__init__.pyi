from .available import HashState, list_hashes
from .codes import bit_error_rate, from_hex, to_hex
from .perceptual_hash import PerceptualHash
from .registry import DEFAULT_HASH, get_hash, hash_names

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
