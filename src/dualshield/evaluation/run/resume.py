"""Decide whether a run can be resumed: only with the same configuration, or the same with more images.

Records about one image do not depend on the other images. Records about sets of images do, and are measured again when
images are added.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

from dualshield.errors import InputError

# Fields that do not affect results.
CIRCUMSTANCES = ("date", "machine")
# Fields that change with the images.
IMAGES = ("limit", "data", "unreadable", "duplicates", "warnings")
GROWING = (*IMAGES, "attack_limit")
# Fields that follow from the other fields.
DERIVED = ("expected",)
# Values of fields that older runs lack.
DEFAULTS = {"plan": "evaluate", "skip": 0}


def grows(path: Path, before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Return whether images are added to the run in ``path``; raise an error if its configuration differs otherwise."""
    if _has_other_transforms(before, now):
        raise InputError(
            f"{path} is a run with another list of transformations, and some of the same name have changed since; "
            "choose another folder"
        )
    more = _has_more_images(before, now)
    found = difference(before, now, (*CIRCUMSTANCES, *GROWING) if more else CIRCUMSTANCES)
    if found is not None:
        where, then, today = found
        raise InputError(
            f"{path} is a run with another configuration: {where} was {then}, now {today}; "
            "use the options it was started with (only the limits may be larger), or choose another folder"
        )
    return more and any(before.get(name) != now.get(name) for name in GROWING)


def difference(first: dict[str, Any], second: dict[str, Any], free: Collection[str]) -> tuple[str, str, str] | None:
    """Return the first field in which two configurations differ, and both values; ``free`` fields are not compared."""
    first, second = DEFAULTS | first, DEFAULTS | second
    # The kind of plan first, then options, then images: a different option often causes different images.
    for name in sorted(first.keys() | second.keys(), key=lambda name: (name in IMAGES, name != "plan", name)):
        if name not in (*free, *DERIVED) and first.get(name) != second.get(name):
            where, one, other = _difference(name, first.get(name), second.get(name))
            return where, _shown(one), _shown(other)
    return None


def _has_other_transforms(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Return whether both runs measure transformations, but not the same; older runs have no list of them."""
    parts = (before.get("parts"), now.get("parts"))
    return all(isinstance(names, list) and "transforms" in names for names in parts) and (
        before.get("transforms") != now.get("transforms")
    )


def _has_more_images(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Return whether the datasets are the same, each starting with its old images, and no limit is smaller."""
    try:
        old, new = before["data"], now["data"]
        return (
            _most(before["limit"]) <= _most(now["limit"])
            and _most(before.get("attack_limit")) <= _most(now.get("attack_limit"))
            and list(old) == list(new)
            and all(list(new[name].items())[: len(old[name])] == list(old[name].items()) for name in old)
        )
    except (KeyError, TypeError, AttributeError):  # the file was changed by hand; `difference` finds where
        return False


def _most(limit: float | None) -> float:
    return math.inf if limit is None else limit


def _difference(name: str, before: Any, now: Any) -> tuple[str, Any, Any]:
    """Return the innermost field that differs, and both values."""
    if isinstance(before, dict) and isinstance(now, dict):
        # A digest of everything differs too, but says nothing.
        names = sorted(before.keys() | now.keys(), key=lambda key: (key == "deployment", key))
        inner = next(key for key in names if before.get(key) != now.get(key))
        return _difference(f"{name}.{inner}", before.get(inner), now.get(inner))
    return name, before, now


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."
