"""Digests of values that can be written as JSON, and of matrices."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

_CELL_EDGE = 0.3819660113
# Characters of one value in an error message.
MAX_SHOWN = 80


def canonical_json(value: Any) -> str:
    """Return the value as JSON with sorted keys, so that equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest_of(value: Any) -> str:
    """Return the sha256 of the value's canonical JSON, in hex."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def digest_of_matrices(*matrices: npt.NDArray[np.float64]) -> str:
    """Return a sha256 (hex) of matrices; differences in the last digits, from rounding, do not change it."""
    digest = hashlib.sha256()
    for matrix in matrices:
        # The offset keeps cell edges away from simple fractions, which rounding could push to either side.
        cells = np.floor(np.asarray(matrix, np.float64) * 1e6 + _CELL_EDGE).astype("<i8")
        digest.update(f"{cells.shape}".encode() + cells.tobytes())
    return digest.hexdigest()


def difference_of(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    """Say in which fields of ``ours`` another description differs; empty if in none."""
    return "" if theirs is ours else "; ".join(_differences(theirs, ours))


def _differences(theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[str]:
    for name, value in ours.items():
        other = theirs.get(name)
        if isinstance(other, dict) and isinstance(value, dict):
            yield from (f"{name} {difference}" for difference in _differences(other, value))
        elif canonical_json(other) != canonical_json(value):
            yield f"{name} {_short(other)}, here {_short(value)}"


def _short(value: Any) -> str:
    text = canonical_json(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
