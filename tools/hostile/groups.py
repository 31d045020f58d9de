"""All kinds of all groups."""

from __future__ import annotations

from functools import cache

from tools.hostile import (
    cards,
    choices,
    files,
    images,
    manifests,
    numeric,
    outputs,
    profiles,
    references,
    runs,
    settings,
    stdin,
    views,
    weights,
)
from tools.hostile.kind import Kind

INPUTS = (
    images,
    files,
    numeric,
    choices,
    cards,
    profiles,
    references,
    views,
    weights,
    runs,
    manifests,
    settings,
    stdin,
)


@cache
def all_kinds() -> tuple[Kind, ...]:
    """In the order of their groups."""
    return tuple(kind for group in (*INPUTS, outputs) for kind in group.kinds())
