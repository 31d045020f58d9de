"""Defaults for the command line (only), read from ``dualshield.toml``.

    hash = "efflite"         # a name from 'dualshield hashes', or a hash card
    profile = "mine.json"    # of 'dualshield calibrate'
    engine = "auto"          # auto, openvino or torch
    threads = 4

The file in the current folder takes precedence over the one in the user's configuration folder. If
``$DUALSHIELD_CONFIG`` is set, only that file is read. Paths are relative to the file that contains them.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platformdirs import user_config_path

from dualshield._common.files import read_limited
from dualshield._common.folders import APP
from dualshield.errors import InputError

FILE = "dualshield.toml"
CONFIG = "DUALSHIELD_CONFIG"
# Precedence: command-line option, environment variable, files.
VARIABLES = {
    "hash": "DUALSHIELD_HASH",
    "profile": "DUALSHIELD_PROFILE",
    "engine": "DUALSHIELD_ENGINE",
    "threads": "DUALSHIELD_THREADS",
}
ENGINES = ("auto", "openvino", "torch")
MAX_THREADS = 1024
MAX_BYTES = 1 << 16
MAX_TEXT = 4096


@dataclass(frozen=True)
class Setting:
    """One value, and the file that sets it."""

    value: str | int
    file: Path
    is_local: bool = False  # found in the current folder, so possibly not written by this user

    def beside(self, name: str) -> str:
        """Return a path relative to the settings file as a path relative to the current folder."""
        return str(self.file.parent / name)


def load_settings() -> dict[str, Setting]:
    """Return all settings by name; an invalid file raises an error that names the file."""
    found: dict[str, Setting] = {}
    for file, is_local in reversed(settings_files()):
        found |= {name: Setting(value, file, is_local) for name, value in _read(file).items()}
    return found


def settings_files() -> list[tuple[Path, bool]]:
    """Return the files that exist, highest precedence first, and whether each was found in the current folder."""
    given = os.environ.get(CONFIG)
    if given:
        return [(Path(given), False)]
    users = user_settings_file()
    places = [(Path(FILE), True), *([] if users is None else [(users, False)])]
    # A dangling link counts as existing, so that reading it raises an error.
    return [(file, is_local) for file, is_local in places if os.path.lexists(file)]


def user_settings_file() -> Path | None:
    """Return the path of the user's own settings file, or None for a user without a home directory."""
    try:
        Path.home()
    except RuntimeError:
        return None
    return user_config_path(APP, appauthor=False) / FILE


def _read(file: Path) -> dict[str, str | int]:
    data = read_limited(file, MAX_BYTES)
    try:
        values = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is not a valid TOML file: {error}; correct it") from error
    for name, value in values.items():
        if name not in VARIABLES:
            raise InputError(f"{file}: unknown setting {name[:80]!r}; use {', '.join(VARIABLES)}")
        if problem := _problem(name, value):
            raise InputError(f"{file}: {name} {problem}")
    return values


def _problem(name: str, value: Any) -> str | None:
    """Return why a setting cannot have this value, or None if it can."""
    if name == "threads":
        if type(value) is int and 1 <= value <= MAX_THREADS:
            return None
        return f"must be a whole number from 1 to {MAX_THREADS}"
    if not isinstance(value, str) or not value or len(value) > MAX_TEXT or "\0" in value:
        return "must be text in quotation marks"
    if name == "engine" and value not in ENGINES:
        return f"must be one of {', '.join(ENGINES)}"
    return None
