"""The folder of a run: its configuration, its growing results, and the images kept beside them.

    config.json                                       what the run is; a resumed one is the same, or has more images
    results.jsonl                                     one line per finished piece, see `records`
    times.jsonl                                       how long pieces took, for the time left after an interruption
    images/original/DATASET/IMAGE.png                 for the report's gallery, 8-bit canonical images like all here
    images/published/HASH/VARIANT/DATASET/IMAGE.png   as published; hardened ones until the run is finished
    images/attacked/PART/HASH/VARIANT/DATASET/IMAGE/BUDGET.png
    features/...                                      for FID; they stay, because a run may grow

IMAGE is the whole file name, ``photo.jpg.png``: two files may differ in their suffix only.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

from dualshield._common.files import write_atomically
from dualshield.errors import InputError
from dualshield.evaluation.plan.datasets import Picture
from dualshield.evaluation.run.records import CONFIG, RESULTS, SET_PARTS, Key, Run
from dualshield.evaluation.run.resume import grows
from dualshield.images import CanonicalImage, load_image

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FORMAT = 1


class RunFiles:
    """The images and features of a run, and what is known of its results."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[Key, dict[str, Any]] = {}

    # -- images ------------------------------------------------------------------------------------

    def original_file(self, picture: Picture) -> Path:
        return self.path / "images" / "original" / picture.dataset / f"{picture.name}.png"

    def published_file(self, hash_: str, variant: str, picture: Picture) -> Path:
        return self.path / "images" / "published" / hash_ / variant / picture.dataset / f"{picture.name}.png"

    def attacked_file(self, part: str, hash_: str, variant: str, picture: Picture, budget: float) -> Path:
        folder = self.path / "images" / "attacked" / part / hash_ / variant / picture.dataset / picture.name
        return folder / f"{budget:g}.png"

    def save_image(self, file: Path, image: CanonicalImage) -> None:
        """Losslessly: all images of a run lie on the 8-bit grid."""
        _write(file, image.to_png())

    def read_image(self, file: Path, name: str) -> CanonicalImage | None:
        """What `save_image` kept, if it did."""
        return CanonicalImage(load_image(file).pixels, name) if file.exists() else None

    def copy_image(self, source: Path, target: Path) -> None:
        """The same image under another name, if there is one and the name is free."""
        if source.exists() and not target.exists():
            _write(target, source.read_bytes())

    # -- features ----------------------------------------------------------------------------------

    def save_features(self, place: Sequence[str], features: torch.Tensor) -> None:
        """Of one image, as a vector."""
        data = BytesIO()
        np.save(data, features.cpu().numpy().astype(np.float32))
        _write(self._features_file(place), data.getvalue())

    def read_features(self, place: Sequence[str]) -> torch.Tensor | None:
        """What `save_features` kept, if it did."""
        file = self._features_file(place)
        return torch.from_numpy(np.load(file, allow_pickle=False)) if file.exists() else None

    def _features_file(self, place: Sequence[str]) -> Path:
        return self.path.joinpath("features", *place[:-1], f"{place[-1]}.npy")


class RunFolder(RunFiles):
    """Opened for writing results; everything in it is a whole piece or is not there."""

    def __init__(self, path: Path, config: dict[str, Any], *, resume: bool) -> None:
        super().__init__(path)
        config = json.loads(json.dumps(config))  # as it will be read again
        self._lock: int | None = None
        try:
            if not path.exists():
                path.mkdir(parents=True)
            self._lock = _locked(path)
            _prepare(path, config, resume)
            if (path / RESULTS).exists():
                self.known = {record.key: record.result for record in Run.open(path).records}
            self._results = _open_results(path / RESULTS)
        except OSError as error:
            self._unlock()
            raise InputError(f"cannot use {path} as a run folder: {error.strerror or error}") from error
        except InputError:
            self._unlock()
            raise

    def append(self, key: Key, result: dict[str, Any]) -> None:
        """Keep one finished piece; it is on its way to the disk when this returns."""
        result = {name: _plain(value) for name, value in result.items()}
        try:
            self._results.write(json.dumps({"key": key, "result": result}, allow_nan=False) + "\n")
            self._results.flush()
        except OSError as error:
            why = error.strerror or error
            raise InputError(
                f"cannot write {self.path / RESULTS}: {why}; all before is kept: make room and resume the run"
            ) from error
        self.known[key] = result

    def close(self) -> None:
        """No more results."""
        with suppress(OSError):
            self._results.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def clean(self, gallery: Sequence[Picture]) -> None:
        """Remove what only the work itself needed."""
        shown = {(picture.dataset, f"{picture.name}.png") for picture in gallery}
        for file in (self.path / "images" / "published").glob("*/*/*/*.png"):
            if (file.parent.name, file.name) not in shown:
                with suppress(OSError):
                    file.unlink()


def _locked(path: Path) -> int | None:
    """The folder, open and held until it is closed or the process ends: two of them would lose results.

    None where it cannot be held, as on some systems and network drives.
    """
    if fcntl is None or not path.is_dir():
        return None
    held = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(held)
        if isinstance(error, BlockingIOError):
            raise InputError(f"another process works on {path}; wait for it, or choose another folder") from error
        return None
    return held


def _prepare(path: Path, config: dict[str, Any], resume: bool) -> None:
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file; give a folder for the run")
    file = path / CONFIG
    if file.exists():
        if not resume:
            raise InputError(f"{path} holds a run already; resume that run, or choose another folder")
        if not grows(path, _read_config(file), config):
            return
        if (path / RESULTS).exists():
            _forget_sets(path)  # first: interrupted here, it is the old run without them
    elif path.is_dir() and any(not entry.name.startswith(".") for entry in path.iterdir()):
        raise InputError(f"{path} is not empty and not a run folder; choose another folder")
    write_atomically(file, (json.dumps(config, indent=1) + "\n").encode())


def _read_config(file: Path) -> dict[str, Any]:
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError("not an object")
    except ValueError as error:
        raise InputError(f"{file} cannot be read ({error}); start anew in another folder") from error
    return config


def _forget_sets(path: Path) -> None:
    """Leave only the records about single images."""
    kept = [record for record in Run.open(path).records if record.key.part not in SET_PARTS]
    lines = [json.dumps({"key": record.key, "result": record.result}) + "\n" for record in kept]
    write_atomically(path / RESULTS, "".join(lines).encode("ascii"))


def _open_results(file: Path) -> TextIO:
    cut = file.exists() and file.read_bytes()[-1:] not in (b"", b"\n")
    results = file.open("a", encoding="ascii")
    if cut:  # an interruption left half a line; what follows needs one of its own
        results.write("\n")
    return results


def _write(file: Path, data: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {file.parent}: {error.strerror or error}") from error
    write_atomically(file, data)


def _plain(value: Any) -> Any:
    """JSON has no infinities."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
