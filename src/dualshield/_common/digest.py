"""One number for many: digests of values that can be written as JSON."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> str:
    """The same text for equal values, whatever the order of their keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest_of(value: Any) -> str:
    """The sha256 of that text, in hex."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
