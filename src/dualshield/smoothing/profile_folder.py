"""Find calibrated profiles: beside a hash card, in the user's profile folder, or in the package."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from dualshield._common.folders import PROFILES, profiles_folder
from dualshield.errors import InputError
from dualshield.hashes.registry import CARD_SUFFIXES

PROFILE_SUFFIX = ".profile.json"
LONGEST_NAME = 200


def is_card(spec: str) -> bool:
    """Whether ``spec`` is the path of a hash card."""
    return spec.lower().endswith(CARD_SUFFIXES)


def profile_file(spec: str) -> Path | None:
    """Return the path of a hash's profile: beside its card, or in the user's profile folder.

    None if there is no profile folder or the name cannot be a file name.
    """
    if is_card(spec):
        return Path(spec).with_suffix(PROFILE_SUFFIX)
    home = profiles_folder()
    return home / f"{spec}{PROFILE_SUFFIX}" if home is not None and _names_a_file(spec) else None


def shipped_file(spec: str) -> Traversable | None:
    """Return the package's profile for a hash name, or None."""
    if is_card(spec) or not _names_a_file(spec):
        return None
    file = resources.files("dualshield") / "profiles" / f"{spec}.json"
    return file if file.is_file() else None


def place_for(spec: str) -> Path:
    """Return the path for a new profile; creates the user's profile folder if needed."""
    file = profile_file(spec)
    if file is None:
        raise InputError(f"there is no default path for a profile of hash {spec!r}; name the output file")
    if not is_card(spec):
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"cannot create the profile folder {file.parent}: {error.strerror}; set {PROFILES} to another folder"
            ) from error
    return file


def is_there(file: Path) -> bool:
    """Whether the file exists; False if its folder cannot be read."""
    try:
        return file.exists()
    except (OSError, ValueError):
        return False


def _names_a_file(name: str) -> bool:
    """Whether a hash name is a safe file name; names are untrusted and must not lead out of the folder."""
    return (
        0 < len(name) <= LONGEST_NAME
        and name.isprintable()
        and not name.startswith(".")
        and not set(name) & set("/\\:")
    )
