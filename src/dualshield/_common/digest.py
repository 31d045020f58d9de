"""Digests of values that can be written as JSON."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> str:
    """Return the value as JSON with sorted keys, so that equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest_of(value: Any) -> str:
    """Return the sha256 of the value's canonical JSON, in hex."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
