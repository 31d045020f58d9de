"""Where calibrated profiles lie: beside a card, in this user's folder, or shipped with the package."""

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
    """Whether a hash is given as the path of a card."""
    return spec.lower().endswith(CARD_SUFFIXES)


def profile_file(spec: str) -> Path | None:
    """Where the profile of a hash is looked for, and written: beside its card, or by its name in the user's folder.

    None where there is no such place.
    """
    if is_card(spec):
        return Path(spec).with_suffix(PROFILE_SUFFIX)
    home = profiles_folder()
    return home / f"{spec}{PROFILE_SUFFIX}" if home is not None and _names_a_file(spec) else None


def shipped_file(spec: str) -> Traversable | None:
    """The profile that the package has for a name."""
    if is_card(spec) or not _names_a_file(spec):
        return None
    file = resources.files("dualshield") / "profiles" / f"{spec}.json"
    return file if file.is_file() else None


def place_for(spec: str) -> Path:
    """Where a new profile goes; the user's folder is made if it is missing."""
    file = profile_file(spec)
    if file is None:
        raise InputError(f"there is no place for a profile of hash {spec!r}: say which file it goes to")
    if not is_card(spec):
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"cannot make the folder of profiles {file.parent}: {error.strerror}; set {PROFILES} to another one"
            ) from error
    return file


def is_there(file: Path) -> bool:
    """Whether something lies there; in a folder that this user may not enter, nothing does."""
    try:
        return file.exists()
    except (OSError, ValueError):
        return False


def _names_a_file(name: str) -> bool:
    """Names come from outside: none may lead out of the folder."""
    return (
        0 < len(name) <= LONGEST_NAME
        and name.isprintable()
        and not name.startswith(".")
        and not set(name) & set("/\\:")
    )
