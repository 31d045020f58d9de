"""The folder of a run: its configuration, its results, and the images kept with them.

    config.json                                       the configuration; a resumed run may only add images
    results.jsonl                                     one line per record, see `records`
    times.jsonl                                       seconds per piece, to estimate the time left
    images/original/DATASET/IMAGE.png                 for the report's gallery; all images are canonical, in 8 bits
    images/published/HASH/VARIANT/DATASET/IMAGE.png   as published; hardened images until the run is finished
    images/attacked/PART/HASH/VARIANT/DATASET/IMAGE/BUDGET.png
    features/...                                      for FID; kept, because images may be added later

IMAGE is the whole file name, as in ``photo.jpg.png``, because two files may differ only in their suffix.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
from filelock import FileLock, Timeout

from dualshield._common.files import write_atomically
from dualshield.errors import InputError
from dualshield.evaluation.plan.datasets import Picture
from dualshield.evaluation.plan.interface import budget_name
from dualshield.evaluation.run.records import CONFIG, RESULTS, SET_PARTS, TIMES, Key, Run, read_config
from dualshield.evaluation.run.resume import grows
from dualshield.images import CanonicalImage, load_image

FORMAT = 1
IMAGES = "images"
FEATURES = "features"
LOCK = ".lock"  # stays when the run is finished: to remove it could give the folder to two processes at once


class RunFiles:
    """The images and features of a run, and its finished records in ``known``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[Key, dict[str, Any]] = {}

    # -- images ------------------------------------------------------------------------------------

    def original_file(self, picture: Picture) -> Path:
        return self.path / IMAGES / "original" / picture.dataset / f"{picture.name}.png"

    def published_file(self, hash_: str, variant: str, picture: Picture) -> Path:
        return self.path / IMAGES / "published" / hash_ / variant / picture.dataset / f"{picture.name}.png"

    def attacked_file(self, part: str, hash_: str, variant: str, picture: Picture, budget: float) -> Path:
        folder = self.path / IMAGES / "attacked" / part / hash_ / variant / picture.dataset / picture.name
        return folder / f"{budget_name(budget)}.png"

    def save_image(self, file: Path, image: CanonicalImage) -> None:
        """Save an image as PNG, without loss, because all images of a run are rounded to 8 bits."""
        _write(file, image.to_png())

    def read_image(self, file: Path, name: str) -> CanonicalImage | None:
        """Return an image saved by `save_image`; None if there is none."""
        return CanonicalImage(load_image(file).pixels, name) if file.exists() else None

    def copy_image(self, source: Path, target: Path) -> None:
        """Copy an image file, if it exists and the target does not."""
        if source.exists() and not target.exists():
            _write(target, source.read_bytes())

    # -- features ----------------------------------------------------------------------------------

    def save_features(self, place: Sequence[str], features: torch.Tensor) -> None:
        """Save the feature vector of one image."""
        data = BytesIO()
        np.save(data, features.cpu().numpy().astype(np.float32))
        _write(self._features_file(place), data.getvalue())

    def read_features(self, place: Sequence[str]) -> torch.Tensor | None:
        """Return features saved by `save_features`; None if there are none."""
        file = self._features_file(place)
        return torch.from_numpy(np.load(file, allow_pickle=False)) if file.exists() else None

    def _features_file(self, place: Sequence[str]) -> Path:
        return self.path.joinpath(FEATURES, *place[:-1], f"{place[-1]}.npy")


class RunFolder(RunFiles):
    """A run folder opened for writing, and locked against other processes if the file system allows it."""

    def __init__(self, path: Path, config: dict[str, Any], *, resume: bool) -> None:
        super().__init__(path)
        config = json.loads(json.dumps(config))  # the same types as when read back
        self._lock: FileLock | None = None
        self._is_new = self._begins = False  # whether this object made the folder, and the run in it
        try:
            if not path.exists():
                path.mkdir(parents=True)
                self._is_new = True
            self._lock = _locked(path)
            self._begins = _prepare(path, config, resume)
            if os.path.lexists(path / RESULTS):
                self.known = {record.key: record.result for record in Run.open(path).records}
            self._results = _open_results(path / RESULTS)
        except OSError as error:
            self._unlock()
            raise InputError(f"cannot use {path} as a run folder: {error.strerror or error}; choose another") from error
        except InputError:
            self._unlock()
            raise

    def append(self, key: Key, result: dict[str, Any]) -> None:
        """Write one finished record and flush it."""
        result = {name: _plain(value) for name, value in result.items()}
        try:
            self._results.write(json.dumps({"key": key, "result": result}, allow_nan=False) + "\n")
            self._results.flush()
        except OSError as error:
            why = error.strerror or error
            raise InputError(
                f"cannot write {self.path / RESULTS}: {why}; earlier results are saved: make room and resume the run"
            ) from error
        self.known[key] = result

    def close(self) -> None:
        """Close the results; a new run without any result is removed, so that its folder can be used again."""
        with suppress(OSError):
            self._results.close()
        if self._begins and not self.known:
            self._remove()
        self._unlock()

    def _remove(self) -> None:
        for name in (IMAGES, FEATURES):
            shutil.rmtree(self.path / name, ignore_errors=True)
        with suppress(OSError):
            for name in (CONFIG, RESULTS, TIMES):
                (self.path / name).unlink(missing_ok=True)
            if self._is_new:
                (self.path / LOCK).unlink(missing_ok=True)
                self.path.rmdir()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
            if not os.path.lexists(self.path / CONFIG):
                with suppress(OSError):
                    (self.path / LOCK).unlink()  # not a run folder; leave it as it was

    def clean(self, gallery: Sequence[Picture]) -> None:
        """Remove published images that are not in the gallery."""
        shown = {(picture.dataset, f"{picture.name}.png") for picture in gallery}
        for file in (self.path / IMAGES / "published").glob("*/*/*/*.png"):
            if (file.parent.name, file.name) not in shown:
                with suppress(OSError):
                    file.unlink()


def _locked(path: Path) -> FileLock | None:
    """Lock the folder until release or the end of the process, because two processes would lose results.

    Return None if it cannot be locked, as on some network drives.
    """
    if not path.is_dir():
        return None
    lock = FileLock(path / LOCK, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise InputError(f"another process is using {path}; wait for it to finish, or choose another folder") from error
    except (OSError, NotImplementedError):
        return None
    return lock


def _prepare(path: Path, config: dict[str, Any], resume: bool) -> bool:
    """Write the configuration if it is new or has more images; return whether the run is new."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file, not a folder; choose a folder for the run")
    file = path / CONFIG
    begins = not os.path.lexists(file)
    if not begins:
        if not resume:
            raise InputError(f"{path} already contains a run; resume it, or choose another folder")
        if not grows(path, _read_config(file), config):
            return False
        if os.path.lexists(path / RESULTS):
            _drop_sets(path)  # before the configuration: an interruption here leaves a valid old run
    elif path.is_dir() and any(not entry.name.startswith(".") for entry in path.iterdir()):
        raise InputError(f"{path} is not empty and not a run folder; choose another folder")
    write_atomically(file, (json.dumps(config, indent=1) + "\n").encode())
    return begins


def _read_config(file: Path) -> dict[str, Any]:
    try:
        return read_config(file)
    except InputError as error:
        raise InputError(f"{error}; start again in another folder") from error


def _drop_sets(path: Path) -> None:
    """Remove the records about pairs and sets of images from the results."""
    kept = [record for record in Run.open(path).records if record.key.part not in SET_PARTS]
    lines = [json.dumps({"key": record.key, "result": record.result}) + "\n" for record in kept]
    write_atomically(path / RESULTS, "".join(lines).encode("ascii"))


def _open_results(file: Path) -> TextIO:
    cut = file.exists() and file.read_bytes()[-1:] not in (b"", b"\n")
    results = file.open("a", encoding="ascii")
    if cut:  # an interruption left half a line; start a new one
        results.write("\n")
    return results


def _write(file: Path, data: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create the folder {file.parent}: {error.strerror or error}") from error
    write_atomically(file, data)


def _plain(value: Any) -> Any:
    """Return None for NaN and infinity, which JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
