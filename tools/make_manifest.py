"""Write the manifest of folders of images: ``python tools/make_manifest.py FOLDER... -o FILE``.

Where a folder has a ``manifest.csv`` of its own that says where its images come from, that is copied: source, version,
original path, licence.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
from collections.abc import Iterator
from pathlib import Path

from dualshield.images.decode import list_images

ORIGIN = ("source", "commit_or_version", "original_path", "licence")


def rows(folder: Path) -> Iterator[dict[str, str]]:
    """One for every image."""
    origins: dict[str, dict[str, str]] = {}
    known = folder / "manifest.csv"
    if known.is_file():
        with known.open(encoding="utf-8", newline="") as file:
            origins = {row["file"]: row for row in csv.DictReader(file)}
    for image in list_images(folder):
        digest = hashlib.sha256(image.read_bytes()).hexdigest()
        origin = origins.get(image.name, {})
        yield {"dataset": folder.resolve().name, "file": image.name, "sha256": digest} | {
            name: origin.get(name, "") for name in ORIGIN
        }


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("-o", "--out", required=True, type=Path)
    options = parser.parse_args()
    with options.out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["dataset", "file", "sha256", *ORIGIN], lineterminator="\n")
        writer.writeheader()
        for folder in options.folders:
            writer.writerows(rows(folder))


if __name__ == "__main__":
    main()
