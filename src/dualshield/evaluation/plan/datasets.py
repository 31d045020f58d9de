"""Read the image folders of an evaluation, in order, skip unreadable files, and find duplicates.

Two copies of one photo would count as a collision of unrelated images. Duplicates stay in the run, are reported, and
are never paired with each other.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import torch

from dualshield.errors import ImageError, InputError
from dualshield.evaluation.plan.manifest import Manifest
from dualshield.hashes import get_hash
from dualshield.images import CanonicalImage, canonicalise, decode, list_images
from dualshield.images.decode import read_bytes

# Largest PDQ distance (of 256 bits) at which two images count as the same photo.
NEAR = 16
# The name of all datasets together in results.
ALL = "all"
# Canonical images have 3 MB each. Work goes image by image, so a small cache is enough.
KEPT_IN_MEMORY = 64


@dataclass(frozen=True)
class Picture:
    """One image of a dataset; ``index`` is its position there, counting images that the run skips."""

    dataset: str
    name: str
    index: int
    file: Path
    sha256: str

    @property
    def label(self) -> str:
        """The name of the image in messages and results."""
        return f"{self.dataset}/{self.name}"

    def load(self) -> CanonicalImage:
        """Read the canonical image; raise an error if the file changed since the run started."""
        return _load(self)


@dataclass(frozen=True)
class Duplicate:
    """Two copies of one photo; ``distance`` is in PDQ bits, ``exact`` means equal canonical pixels."""

    image: str
    other: str
    distance: int
    exact: bool


@dataclass(frozen=True)
class Unreadable:
    """A skipped file and the reason."""

    image: str
    reason: str


@dataclass(frozen=True)
class Pool:
    """All images of a run, with the unreadable files and duplicates found among them."""

    pictures: tuple[Picture, ...]  # the first image of every dataset, then the second ones, ...
    unreadable: tuple[Unreadable, ...]
    duplicates: tuple[Duplicate, ...]
    limit: int | None  # images per dataset; None for all
    skip: int = 0

    def of(self, dataset: str) -> list[Picture]:
        """Return the images of one dataset, or of all datasets for the name ALL."""
        return [picture for picture in self.pictures if dataset in (ALL, picture.dataset)]

    @property
    def datasets(self) -> list[str]:
        """The names of the datasets, in the order given."""
        return list(dict.fromkeys(picture.dataset for picture in self.pictures))

    def related(self, picture: Picture, other: Picture) -> bool:
        """Return whether two images are duplicates of each other."""
        return frozenset((picture.label, other.label)) in self._related

    def next_unrelated(self, picture: Picture) -> Picture | None:
        """Return the next image that is not a duplicate of this one, starting over after the last; None without any."""
        place = self.pictures.index(picture)
        others = (*self.pictures[place + 1 :], *self.pictures[:place])
        return next((other for other in others if not self.related(picture, other)), None)

    @cached_property
    def _related(self) -> set[frozenset[str]]:
        return {frozenset((found.image, found.other)) for found in self.duplicates}

    def warnings(self) -> list[str]:
        """Return lines about unreadable files, missing images and duplicates."""
        lines = [f"unreadable, skipped: {found.reason}" for found in self.unreadable]
        counts = {name: len(self.of(name)) for name in self.datasets}
        after = f" after the first {self.skip}" if self.skip else ""
        lines += [
            f"{name} has {count} readable images{after}, fewer than the {self.limit} asked for"
            for name, count in counts.items()
            if self.limit is not None and count < self.limit
        ]
        for found in self.duplicates:
            how = "the same pixels" if found.exact else f"{found.distance} of 256 PDQ bits apart"
            lines.append(f"duplicates, never paired as unrelated: {found.image} and {found.other} ({how})")
        return lines


def gather(
    paths: Sequence[Path],
    limit: int | None,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    *,
    skip: int = 0,
    manifest: Manifest | None = None,
) -> Pool:
    """Read ``limit`` readable images of each folder after the first ``skip``, and find the duplicates among them.

    With a ``manifest`` only the listed images are used, and each file must have the listed sha256.

    A path may also be an image file: single files from one folder form a dataset with the name of the folder.
    """
    if limit is not None and limit < 1:
        raise InputError(f"limit {limit} is below 1; use at least 1")
    if skip < 0:
        raise InputError(f"skip {skip} is negative; use 0 or more")
    listed = _datasets(paths)
    if manifest is not None:
        listed = {name: manifest.select(name, files) for name, files in listed.items()}
    names = list(listed)
    last = math.inf if limit is None else skip + limit
    total = sum(int(max(0, min(last, len(files)) - skip)) for files in listed.values())
    pictures: list[Picture] = []
    unreadable: list[Unreadable] = []
    codes, pixels = [], []
    pdq = get_hash("pdq")
    for name, files in listed.items():
        place, reason = 0, ""
        for file in files:
            if place == last:
                break
            progress(f"reading {name}/{file.name}", len(pictures), total)
            try:
                data, image = _read(file, f"{name}/{file.name}")
            except ImageError as error:
                reason = str(error)
                if place >= skip:
                    unreadable.append(Unreadable(f"{name}/{file.name}", reason))
                continue
            if place >= skip:
                digest = hashlib.sha256(data).hexdigest()
                if manifest is not None:
                    manifest.check(name, file.name, digest)
                pictures.append(Picture(name, file.name, place, file, digest))
                codes.append(pdq.code(image.pixels))
                pixels.append(hashlib.sha256(image.to_8bit().tobytes()).digest())
            place += 1
        if not place:
            raise InputError(f"{name}: none of its {len(files)} images can be read; the last error: {reason}")
        if place <= skip:
            raise InputError(f"{name} has only {place} readable images, so skipping {skip} leaves none; skip fewer")
    duplicates = _duplicates(pictures, torch.stack(codes), pixels)
    pictures.sort(key=lambda picture: (picture.index, names.index(picture.dataset)))
    return Pool(tuple(pictures), tuple(unreadable), tuple(duplicates), limit, skip)


def _datasets(paths: Sequence[Path]) -> dict[str, list[Path]]:
    """Return the image files by dataset; raise an error if two datasets would have the same name."""
    if not paths:
        raise InputError("no data given; give a folder of images")
    found: dict[str, list[Path]] = {}
    single: dict[str, Path] = {}  # folders of which single files were given
    for path in paths:
        is_file = path.is_file()
        folder = Path(os.path.realpath(path.parent if is_file else path))
        name = folder.name
        if name in ("", ALL):
            raise InputError(f"a dataset cannot be named {name!r}; rename the folder or give another")
        if name in found and not (is_file and single.get(name) == folder):
            raise InputError(f"two folders are named {name!r}, so their results could not be told apart; rename one")
        if is_file:
            single[name] = folder
            if any(file.name == path.name for file in found.get(name, ())):
                raise InputError(f"{name}/{path.name} is given twice; give it once")
        found.setdefault(name, []).extend([path] if is_file else list_images(path))
    return found


def _duplicates(pictures: Sequence[Picture], codes: torch.Tensor, pixels: Sequence[bytes]) -> list[Duplicate]:
    found = []
    for index, picture in enumerate(pictures):
        distances = (codes[index + 1 :] ^ codes[index]).sum(-1)
        for offset in (distances <= NEAR).nonzero().flatten().tolist():
            other = index + 1 + offset
            exact = pixels[index] == pixels[other]
            found.append(Duplicate(picture.label, pictures[other].label, int(distances[offset]), exact))
    return found


def _read(file: Path, label: str) -> tuple[bytes, CanonicalImage]:
    path = os.fspath(file)
    try:
        data = read_bytes(path)
        return data, canonicalise(decode(data, name=label))
    except ImageError as error:  # results that are passed on must not contain local paths
        raise ImageError(str(error).replace(path, label)) from error


@lru_cache(maxsize=KEPT_IN_MEMORY)
def _load(picture: Picture) -> CanonicalImage:
    data, image = _read(picture.file, picture.label)
    if hashlib.sha256(data).hexdigest() != picture.sha256:
        raise InputError(f"{picture.label} changed during the run; restore the file and resume the run")
    return image
