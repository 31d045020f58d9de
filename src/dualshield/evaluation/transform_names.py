"""Names of transformations in records: their families and levels, and which of them are everyday edits."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from dualshield.errors import InputError
from dualshield.transforms import EVERYDAY_EDITS, Chain, parse

PLACES = {edit.name: place for place, edit in enumerate(EVERYDAY_EDITS)}
# The place of the first edit of each family.
FAMILIES = {edit.family: place for place, edit in reversed(list(enumerate(EVERYDAY_EDITS)))}


@lru_cache(maxsize=4096)
def split(name: str) -> tuple[str, str]:
    """Return family and level, such as ``caption-bar`` and ``0.08``; those of a chain are joined by "+".

    Names that are not listed, as in records of old runs, are split at the first hyphen.
    """
    try:
        found = parse(name)
    except InputError:
        family, _, level = name.partition("-")
        return family, level
    parts = found.parts if isinstance(found, Chain) else (found,)
    return found.family, "+".join(f"{part.level:.12g}" for part in parts)


def family(name: str) -> str:
    """Return the family of a transformation, such as ``jpeg`` for ``jpeg-80``."""
    return split(name)[0]


def is_edit(name: str, paper: bool) -> bool:
    """Return whether a transformation is an everyday edit: listed as one, or not one of the paper's."""
    return name in PLACES or not paper


def in_order(names: Iterable[str]) -> list[str]:
    """Return edits in the order of EVERYDAY_EDITS; others follow those of their family, or come last."""
    last = len(PLACES)
    return sorted(names, key=lambda name: (FAMILIES.get(family(name), last), PLACES.get(name, last)))
