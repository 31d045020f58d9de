"""What a command may write: regular files, never one that it reads, and none that exists unless that was allowed.

A link counts as the file it leads to: that one is written, and the link stays.
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
    """The rule for all outputs of one command."""

    inputs: tuple[Path, ...]
    overwrite: bool = False
    allow: str = "allow overwriting"  # what its user has to do for that

    def check(self, *files: Path | None) -> None:
        """Refuse what must not be written: before any work, and again before writing, as time has passed by then."""
        given = [file for file in files if file is not None]
        for index, file in enumerate(given):
            check_output(file, overwrite=self.overwrite, inputs=self.inputs, allow=self.allow)
            for other in given[:index]:
                if _same(file, other):
                    raise InputError(f"cannot write {file} twice: two outputs are the same file; choose another name")

    def write(self, file: Path, data: bytes) -> None:
        """As a whole or not at all, if it is still allowed."""
        self.check(file)
        write_atomically(file, data)


def check_output(
    file: Path, *, overwrite: bool = False, inputs: Iterable[Path] = (), allow: str = "allow overwriting"
) -> None:
    """Refuse to write ``file`` where that would destroy something, or cannot be done."""
    try:
        if file.is_dir():
            raise InputError(f"cannot write {file}: it is a folder; give the name of a file")
        if not is_regular_or_new(file):
            raise InputError(f"cannot write {file}: it is not a regular file; choose another name")
        folder = Path(os.path.realpath(file)).parent
        if not folder.is_dir():
            raise InputError(f"cannot write {file}: the folder {folder} does not exist; make it, or choose another")
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
    """Whether two names are one file, also through links; of a file that does not exist yet, one path."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return os.path.realpath(one) == os.path.realpath(other)
