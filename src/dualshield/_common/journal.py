"""An append-only record of finished work, so that an interrupted run can continue where it stopped."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dualshield._common.files import read_limited
from dualshield.errors import InputError

MAX_BYTES = 256 * 2**20


class Journal:
    """A file of JSON lines: first the settings that the work depends on, then one record per finished piece.

    The file begins with the first record: a run that finishes nothing leaves nothing.
    """

    def __init__(self, file: Path, settings: dict[str, Any]) -> None:
        self.file = file
        self._header = json.dumps(settings, sort_keys=True)
        lines = self._read()
        self._begun = lines is not None
        self._lines = lines or []

    def records(self) -> Iterator[Any]:
        """What earlier runs finished, as lists and dictionaries; a line that was cut short is passed over."""
        for line in self._lines:
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict | list):  # of a number, the beginning would be one too
                yield record

    def append(self, record: Any) -> None:
        """Write one finished piece, on a line of its own even behind one that was cut short."""
        if not self._begun:
            self._begun = self._read() is not None  # another run may have begun it
        line = "\n" + json.dumps(record) + "\n"
        try:
            try:
                _write(self.file, line, os.O_APPEND)
            except FileNotFoundError:
                _write(self.file, self._header + "\n" + line, os.O_CREAT | os.O_EXCL)
        except OSError as error:
            raise InputError(f"cannot write the journal {self.file}: {error.strerror or error}") from error
        self._begun = True

    def _read(self) -> list[str] | None:
        """The lines behind the settings; None where there is no file yet, but can be one."""
        try:
            self.file.lstat()
        except FileNotFoundError:
            if os.access(self.file.parent, os.W_OK | os.X_OK):
                return None
            raise InputError(
                f"cannot use the journal {self.file}: nothing can be written into {self.file.parent}; check the folder"
            ) from None
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise InputError(f"cannot use the journal {self.file}: {why}; choose another journal") from error
        try:
            data = read_limited(self.file, MAX_BYTES)
        except InputError as error:
            raise InputError(f"cannot use the journal: {error}") from error
        lines = data.decode("utf-8", errors="replace").splitlines()
        if not lines or lines[0] != self._header:
            raise InputError(
                f"the journal {self.file} belongs to a run with other settings; remove it, or choose another journal"
            )
        return lines[1:]


def _write(file: Path, text: str, how: int) -> None:
    """Write into a regular file only: what was one when it was read may have become a device or a pipe."""
    flags = os.O_WRONLY | how | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    with os.fdopen(os.open(file, flags, 0o666), "wb") as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise InputError(f"cannot write the journal {file}: it is not a regular file")
        opened.write(text.encode())
