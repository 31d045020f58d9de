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
    """A JSON Lines file: first the settings of the run, then one record per finished item.

    The file is created with the first record, so a run that finishes no item leaves no file.
    """

    def __init__(self, file: Path, settings: dict[str, Any]) -> None:
        self.file = file
        self._header = json.dumps(settings, sort_keys=True)
        lines = self._read()
        self._begun = lines is not None
        self._lines = lines or []

    def records(self) -> Iterator[Any]:
        """Yield the records of earlier runs (lists and dictionaries); skip truncated lines."""
        for line in self._lines:
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict | list):  # a truncated number would still parse as a number
                yield record

    def append(self, record: Any) -> None:
        """Append one record, on its own line even if the file ends in a truncated line."""
        if not self._begun:
            self._begun = self._read() is not None  # another run may have created the file
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
        """Return the lines after the settings, or None if the file does not exist yet but can be created."""
        try:
            self.file.lstat()
        except FileNotFoundError:
            if os.access(self.file.parent, os.W_OK | os.X_OK):
                return None
            raise InputError(
                f"cannot use the journal {self.file}: cannot write to {self.file.parent}; check the folder"
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
    """Write into a regular file only: since it was read, a device or a pipe may have taken its place."""
    flags = os.O_WRONLY | how | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    with os.fdopen(os.open(file, flags, 0o666), "wb") as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise InputError(f"cannot write the journal {file}: it is not a regular file; choose another journal")
        opened.write(text.encode())
