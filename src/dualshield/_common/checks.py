"""Arguments of the wrong type, answered in one line and by an error of ours."""

from __future__ import annotations

import os
from typing import Any

from dualshield.errors import InputError

NUMBER = (int, float)
PATH = (str, os.PathLike)


def require(what: str, value: Any, *kinds: type, or_none: bool = False) -> None:
    """Refuse a value of none of these types; True and False are no numbers."""
    if or_none and value is None:
        return
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        names = [kind.__name__ for kind in kinds] + (["None"] if or_none else [])
        raise InputError(f"{what} is of type {type(value).__name__}; give {' or '.join(names)}")
