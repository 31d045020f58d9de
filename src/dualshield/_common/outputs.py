"""Checks before a command writes: only regular files, never an input, no existing file unless overwriting is allowed.

Symbolic links are followed and kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dualshield._common.files import is_regular_or_new, write_atomically
from dualshield.errors import InputError


@dataclass(frozen=True)
class Outputs:
    """What one command may write."""

    inputs: tuple[Path, ...]
    overwrite: bool = False
    allow: str = "allow overwriting"  # how the error message tells the user to overwrite

    def check(self, *files: Path | None) -> None:
        """Raise InputError for a file that must not be written. Call it before the work and again before writing."""
        given = [file for file in files if file is not None]
        for index, file in enumerate(given):
            check_output(file, overwrite=self.overwrite, inputs=self.inputs, allow=self.allow)
            for other in given[:index]:
                if _same(file, other):
                    raise InputError(f"cannot write {file} twice: two outputs are the same file; choose another name")

    def write(self, file: Path, data: bytes) -> None:
        """Check ``file`` again, then write it atomically."""
        self.check(file)
        write_atomically(file, data)


def check_output(
    file: Path, *, overwrite: bool = False, inputs: Iterable[Path] = (), allow: str = "allow overwriting"
) -> None:
    """Raise InputError if writing ``file`` is impossible or would destroy something."""
    try:
        if file.is_dir():
            raise InputError(f"cannot write {file}: it is a folder; give the name of a file")
        if not is_regular_or_new(file):
            raise InputError(f"cannot write {file}: it is not a regular file; choose another name")
        folder = Path(os.path.realpath(file)).parent
        if not folder.is_dir():
            raise InputError(f"cannot write {file}: the folder {folder} does not exist; create it, or choose another")
        if not os.access(folder, os.W_OK):
            raise InputError(f"cannot write {file}: no permission to write into {folder}; choose another")
        exists = file.exists()
        read = next((name for name in inputs if _same(file, name)), None)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot write {file}: {why}; choose another name") from error
    if read is not None:
        raise InputError(f"cannot write {file}: it is the same file as the input {read}; choose another name")
    if exists and not overwrite:
        raise InputError(f"{file} exists already; {allow}, or choose another name")


def _same(one: Path, other: Path) -> bool:
    """Return whether two names refer to the same file, also through links and before it exists."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return os.path.realpath(one) == os.path.realpath(other)
