"""Read the list of images of an evaluation, so that others can check that they have the same images.

A CSV file with a header. The columns ``dataset``, ``file`` and ``sha256`` are required; others, such as source and
licence, are ignored.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dualshield._common.files import read_limited
from dualshield.errors import InputError

COLUMNS = ("dataset", "file", "sha256")
MAX_BYTES = 64 * 2**20
SHOWN = 3


@dataclass(frozen=True)
class Manifest:
    """The sha256 of every image, by dataset and file name."""

    file: Path
    images: Mapping[str, Mapping[str, str]]

    @staticmethod
    def read(file: Path) -> Manifest:
        """Read a manifest; raise an error if it is not valid."""
        try:
            text = read_limited(file, MAX_BYTES, InputError).decode("utf-8-sig")
            rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
        except (UnicodeDecodeError, csv.Error) as error:
            raise InputError(
                f"{file} is not a manifest: not a CSV file in UTF-8 ({error}); write one with tools/make_manifest.py"
            ) from error
        if not rows:
            raise InputError(f"{file} is not a manifest: it lists no images; write one with tools/make_manifest.py")
        missing = [name for name in COLUMNS if name not in rows[0]]
        if missing:
            raise InputError(f"{file} is not a manifest: it has no column {', '.join(missing)}; add it")
        images: dict[str, dict[str, str]] = {}
        for number, row in enumerate(rows, 2):
            dataset, name, digest = (row[column] or "" for column in COLUMNS)
            if not dataset or not name or Path(name).name != name or not re.fullmatch("[0-9a-f]{64}", digest):
                raise InputError(f"{file}, line {number}: needs a dataset, a file name and its sha256 in hex")
            if name in images.setdefault(dataset, {}):
                raise InputError(f"{file}, line {number}: {dataset}/{name} is listed twice; list it once")
            images[dataset][name] = digest
        return Manifest(file, images)

    def select(self, dataset: str, files: Sequence[Path]) -> list[Path]:
        """Return the listed files of a dataset, in their order; raise an error if a listed file is missing."""
        listed = self.images.get(dataset)
        if listed is None:
            known = ", ".join(self.images)
            raise InputError(
                f"{self.file} lists no dataset {dataset!r}, only {known}; rename the folder to one of these"
            )
        found = [file for file in files if file.name in listed]
        missing = sorted(listed.keys() - {file.name for file in found})
        if missing:
            shown = ", ".join(missing[:SHOWN]) + (", ..." if len(missing) > SHOWN else "")
            raise InputError(
                f"{dataset}: {len(missing)} of {len(listed)} images in {self.file} are missing: {shown}; "
                "add them, or leave out the manifest"
            )
        return found

    def check(self, dataset: str, name: str, digest: str) -> None:
        """Raise an error if a file does not have the listed sha256."""
        expected = self.images[dataset][name]
        if digest != expected:
            raise InputError(
                f"{dataset}/{name} differs from {self.file}: sha256 {digest[:12]}..., "
                f"expected {expected[:12]}...; replace the file, or leave out the manifest"
            )
