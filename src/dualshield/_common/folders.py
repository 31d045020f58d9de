"""The user's folders: cache, imported weights, calibrated profiles."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path, user_data_path

APP = "dualshield"
CACHE, WEIGHTS, PROFILES = "DUALSHIELD_CACHE", "DUALSHIELD_WEIGHTS", "DUALSHIELD_PROFILES"


def cache_folder() -> Path:
    """Return the user cache directory, or ``$DUALSHIELD_CACHE``; it may not exist yet, and is safe to delete."""
    return _given(CACHE) or user_cache_path(APP, appauthor=False)


def weights_folder() -> Path:
    """Return the folder of imported weights: in the user data directory, or ``$DUALSHIELD_WEIGHTS``.

    Version 0.1 kept them in the cache directory; if that folder exists, it stays in use.
    """
    given = _given(WEIGHTS)
    if given is not None:
        return given
    before = user_cache_path(APP, appauthor=False) / "weights"
    return before if before.is_dir() else user_data_path(APP, appauthor=False) / "weights"


def profiles_folder() -> Path | None:
    """Return the folder of calibrated profiles: in the user data directory, or ``$DUALSHIELD_PROFILES``.

    Return None for a user without a home directory.
    """
    given = _given(PROFILES)
    if given is not None:
        return given
    try:
        Path.home()
    except RuntimeError:
        return None
    return user_data_path(APP, appauthor=False) / "profiles"


def _given(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value) if value else None
