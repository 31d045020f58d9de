"""The folder of imported weights.

    NAME.json                     which file is stored under NAME, and its sha256; replaced last, atomically
    NAME-<start of sha256>.pt     the file itself, as it was imported, byte for byte

A file is copied, hashed and loaded as its model before NAME.json points to it, so a failed import leaves the previous
file in use. Every later load compares the sha256.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dualshield._common.files import write_atomically
from dualshield._common.folders import weights_folder
from dualshield.errors import InputError, MissingWeightsError, WeightsError
from dualshield.weights.catalogue import CATALOGUE, WeightFile, weight_file
from dualshield.weights.checkpoint import weights_error
from dualshield.weights.download import DownloadError, Progress, download

CHUNK = 1 << 20
MAX_BYTES = 8 << 30
# Sizes in the catalogue are rounded, and the authors may publish a new version.
SIZE_TOLERANCE = 2

Check = Callable[["WeightFile", Path], object]
"""Loads a file as the model of the WeightFile; raises if it is not that model."""


@dataclass(frozen=True)
class StoredWeights:
    """An imported file."""

    weight: WeightFile
    path: Path
    sha256: str


@dataclass(frozen=True)
class WeightState:
    """Whether one file of the catalogue is imported and usable."""

    weight: WeightFile
    stored: StoredWeights | None
    problem: str | None = None  # why a stored file cannot be used


def find(*names: str) -> StoredWeights:
    """Return the first of these files that is imported, after a check of its sha256."""
    weights = [weight_file(name) for name in names]
    for weight in weights:
        stored = _recorded(weight)
        if stored is not None:
            _verify(stored)
            return stored
    ways = "; or ".join(weight.how_to_get for weight in weights)
    fetchable = next((weight for weight in weights if weight.address), None)
    hint = f" (or, if the address is a direct download: dualshield weights fetch {fetchable.name})" if fetchable else ""
    raise MissingWeightsError(f"hash {weights[0].hash}: no trained weights are imported; {ways}{hint}")


def import_file(name: str, source: Path, check: Check) -> StoredWeights:
    """Import a copy of ``source`` as the weights ``name``, if ``check`` can load it as that model."""
    weight = weight_file(name)
    try:
        if not source.is_file():
            what = "not a regular file; give the file itself" if source.exists() else "no such file; check the path"
            raise InputError(f"cannot import {source}: {what}")
    except OSError as error:
        raise InputError(f"cannot import {source}: {error.strerror}; check the path") from error

    def copy(target: Path) -> None:
        try:
            with source.open("rb") as reading, target.open("wb") as writing:
                while chunk := reading.read(CHUNK):
                    writing.write(chunk)
        except OSError as error:
            raise InputError(f"cannot copy {source} to {target.parent}: {error.strerror or error}") from error

    return _store(weight, source.name, copy, check)


def fetch(name: str, check: Check, progress: Progress | None = None) -> StoredWeights:
    """Download the weights ``name`` from their authors and import them."""
    weight = weight_file(name)
    if weight.address is None:
        raise MissingWeightsError(f"weights {name}: not published; {weight.how_to_get}")
    address = weight.address
    limit = MAX_BYTES if weight.megabytes is None else SIZE_TOLERANCE * weight.megabytes * 1_000_000
    try:
        return _store(weight, weight.file, lambda target: download(address, target, limit, progress), check)
    except DownloadError as error:
        raise MissingWeightsError(f"weights {name}: {error}; {weight.how_to_get}") from error


def states() -> list[WeightState]:
    """Return the state of every file in the catalogue, without reading file contents."""
    return [_state(weight, verified=False) for weight in CATALOGUE.values()]


def verify() -> list[WeightState]:
    """Return the state of every imported file, after reading it and comparing its sha256."""
    found = (_state(weight, verified=True) for weight in CATALOGUE.values())
    return [state for state in found if state.stored is not None or state.problem is not None]


def _state(weight: WeightFile, *, verified: bool) -> WeightState:
    stored = None
    try:
        stored = _recorded(weight)
        if stored is not None and verified:
            _verify(stored)
    except MissingWeightsError as error:
        return WeightState(weight, stored, str(error))
    return WeightState(weight, stored)


def _store(weight: WeightFile, name: str, fill: Callable[[Path], None], check: Check) -> StoredWeights:
    with _workplace() as place:
        partial = place / name
        fill(partial)
        digest = _digest(partial)
        if weight.sha256 is not None and digest != weight.sha256:
            raise weights_error(
                weight.hash, partial, f"sha256 {digest}, the authors' file has {weight.sha256}; download it again"
            )
        try:
            check(weight, partial)
        except WeightsError as error:
            raise WeightsError(f"{error}; {weight.how_to_get}") from error
        stored = StoredWeights(
            weight, weights_folder() / f"{weight.name}-{digest[:16]}{Path(weight.file).suffix}", digest
        )
        before = _file_before(weight)
        _replace(partial, stored.path)
    record = {"file": stored.path.name, "sha256": digest, "imported_as": name, "licence": weight.licence}
    write_atomically(_record_file(weight), (json.dumps(record, indent=1) + "\n").encode())
    if before is not None and before != stored.path:
        with suppress(OSError):
            before.unlink()
    return stored


@contextmanager
def _workplace() -> Iterator[Path]:
    """Create a temporary folder in which a file keeps its own name, so that errors mention that name."""
    home = weights_folder()
    try:
        home.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=".import-", dir=home))
    except OSError as error:
        raise InputError(
            f"cannot write to the weights folder {home}: {error.strerror}; set DUALSHIELD_WEIGHTS to another folder"
        ) from error
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _replace(partial: Path, target: Path) -> None:
    try:
        partial.replace(target)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from error


def _record_file(weight: WeightFile) -> Path:
    return weights_folder() / f"{weight.name}.json"


def _file_before(weight: WeightFile) -> Path | None:
    """Return the file that is imported now, or None if there is none or its record is damaged."""
    try:
        stored = _recorded(weight)
    except MissingWeightsError:
        return None
    return None if stored is None else stored.path


def _recorded(weight: WeightFile) -> StoredWeights | None:
    file = _record_file(weight)
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        name, digest = record["file"], record["sha256"]
        if Path(name).name != name or "\0" in name or not isinstance(digest, str):
            raise ValueError("invalid values")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise MissingWeightsError(
            f"weights {weight.name}: {file} cannot be read ({error}); {weight.how_to_get}"
        ) from error
    return StoredWeights(weight, file.parent / name, digest)


def _verify(stored: StoredWeights) -> None:
    weight = stored.weight
    try:
        digest = _digest(stored.path)
    except OSError as error:
        raise MissingWeightsError(
            f"weights {weight.name}: cannot read {stored.path} ({error.strerror}); {weight.how_to_get}"
        ) from error
    if digest != stored.sha256:
        raise MissingWeightsError(
            f"weights {weight.name}: {stored.path} has changed since it was imported (sha256 {digest[:12]}…, "
            f"expected {stored.sha256[:12]}…); {weight.how_to_get}"
        )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
