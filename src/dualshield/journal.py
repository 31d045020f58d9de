"""An append-only record of finished work, so that an interrupted run can continue where it stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dualshield.errors import InputError


class Journal:
    """A file of JSON lines: first the settings that the work depends on, then one record per finished piece."""

    def __init__(self, file: Path, settings: dict[str, Any]) -> None:
        self.file = file
        header = json.dumps(settings, sort_keys=True)
        try:
            if not file.exists():
                file.write_text(header + "\n", encoding="utf-8")
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as error:
            raise InputError(f"cannot use the journal {file}: {error.strerror}") from error
        if not lines or lines[0] != header:
            raise InputError(f"{file} belongs to a run with other settings; delete it or choose another output")
        self._lines = lines[1:]

    def records(self) -> Iterator[Any]:
        """What earlier runs finished; a line that an interruption cut short is passed over."""
        for line in self._lines:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            yield record

    def append(self, record: Any) -> None:
        """Write one finished piece, on a line of its own even behind one that was cut short."""
        with self.file.open("a", encoding="utf-8") as file:
            file.write("\n" + json.dumps(record) + "\n")
