"""Type checks of arguments, which raise a one-line InputError."""

from __future__ import annotations

import os
from typing import Any

from dualshield.errors import InputError

NUMBER = (int, float)
PATH = (str, os.PathLike)


def require(what: str, value: Any, *kinds: type, or_none: bool = False) -> None:
    """Raise InputError unless ``value`` has one of these types; a bool does not count as a number."""
    if or_none and value is None:
        return
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        names = [kind.__name__ for kind in kinds] + (["None"] if or_none else [])
        raise InputError(f"{what} is of type {type(value).__name__}; give {' or '.join(names)}")
