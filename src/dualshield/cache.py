"""What can be made again lies in one folder: ``$DUALSHIELD_CACHE``, or this user's cache."""

from __future__ import annotations

import os
from pathlib import Path


def folder() -> Path:
    """The folder, which may not exist yet."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("DUALSHIELD_CACHE") or Path(cache) / "dualshield")
