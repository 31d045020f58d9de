"""Whether a run may be continued under a configuration: that of the same run, or of the same with more images.

Records about one image do not depend on the others. Records about sets of images do, and have to be made anew when a
run grows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

from dualshield.errors import InputError

# When and where a run is continued does not change what it measures.
CIRCUMSTANCES = ("date", "machine")
# What other images change.
IMAGES = ("limit", "data", "unreadable", "duplicates", "warnings")
GROWING = (*IMAGES, "attack_limit")
# What follows from all the rest.
DERIVED = ("expected",)
# What older runs do not say.
DEFAULTS = {"plan": "evaluate", "skip": 0}


def grows(path: Path, before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether the run in ``path`` gets more images; a run of another configuration is refused."""
    more = _has_more_images(before, now)
    found = difference(before, now, (*CIRCUMSTANCES, *GROWING) if more else CIRCUMSTANCES)
    if found is not None:
        where, then, today = found
        raise InputError(
            f"{path} is a run of another configuration: {where} was {then}, now {today}; "
            "repeat the options it was started with (only the limits may grow), "
            "or choose another folder"
        )
    return more and any(before.get(name) != now.get(name) for name in GROWING)


def difference(first: dict[str, Any], second: dict[str, Any], free: Collection[str]) -> tuple[str, str, str] | None:
    """The first field, beside the ``free`` ones, in which two configurations differ, and what it is in each."""
    first, second = DEFAULTS | first, DEFAULTS | second
    # Options first: another one of them often means other images. Before them the kind of run, which has its own.
    for name in sorted(first.keys() | second.keys(), key=lambda name: (name in IMAGES, name != "plan", name)):
        if name not in (*free, *DERIVED) and first.get(name) != second.get(name):
            where, one, other = _difference(name, first.get(name), second.get(name))
            return where, _shown(one), _shown(other)
    return None


def _has_more_images(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """The same folders, each beginning with the images it had: what an image is asked depends on its place."""
    try:
        old, new = before["data"], now["data"]
        return (
            _most(before["limit"]) <= _most(now["limit"])
            and _most(before.get("attack_limit")) <= _most(now.get("attack_limit"))
            and list(old) == list(new)
            and all(list(new[name].items())[: len(old[name])] == list(old[name].items()) for name in old)
        )
    except (KeyError, TypeError, AttributeError):  # not written by us; the comparison will say where
        return False


def _most(limit: float | None) -> float:
    return math.inf if limit is None else limit


def _difference(name: str, before: Any, now: Any) -> tuple[str, Any, Any]:
    """The innermost field that differs."""
    if isinstance(before, dict) and isinstance(now, dict):
        inner = next(key for key in sorted(before.keys() | now.keys()) if before.get(key) != now.get(key))
        return _difference(f"{name}.{inner}", before.get(inner), now.get(inner))
    return name, before, now


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."
