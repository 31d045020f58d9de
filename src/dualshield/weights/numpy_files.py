"""Safe loading of .npy and .npz files that may be damaged or hostile: numbers only, never a pickle."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from dualshield.errors import WeightsError
from dualshield.weights.checkpoint import weights_error

MAX_ARCHIVE_BYTES = 1 << 28
SHOWN = 120


def read_numbers(file: IO[bytes]) -> torch.Tensor:
    """Return an .npy array as float32; an invalid file may raise any exception."""
    array = np.lib.format.read_array(file, allow_pickle=False)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"it holds {array.dtype}")
    # Via native float64, because torch supports neither foreign byte orders nor long doubles.
    return torch.tensor(array.astype(np.float64), dtype=torch.float32)


def read_npy(path: Path, hash_name: str) -> torch.Tensor:
    """Return the array of an .npy file, which must be finite."""
    try:
        with path.open("rb") as file:
            numbers = read_numbers(file)
    except Exception as error:  # a damaged header raises almost anything
        raise weights_error(hash_name, path, f"not an .npy array of numbers ({_reason(error)})") from error
    return _finite(numbers, path.name, lambda why: weights_error(hash_name, path, why))


def read_npz(path: Path, hash_name: str, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the arrays of an .npz file, which must have exactly these ``names``; scalars as Python values."""

    def wrong(why: str) -> WeightsError:
        return weights_error(hash_name, path, why)

    try:
        with zipfile.ZipFile(path) as archive:
            found = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
            size = sum(entry.file_size for entry in archive.infolist())
            if set(found) != set(names):
                listed = ", ".join(sorted(found))[:SHOWN]
                raise wrong(f"expected the arrays {', '.join(names)}, found {listed or 'none'}")
            if size > MAX_ARCHIVE_BYTES:
                raise wrong(f"it would expand to {size} bytes, more than the {MAX_ARCHIVE_BYTES} allowed")
            values = {}
            for name, entry in found.items():
                with archive.open(entry) as file:
                    values[name] = np.lib.format.read_array(file, allow_pickle=False)
    except WeightsError:
        raise
    except Exception as error:  # damaged data raises almost anything
        raise wrong(f"not a readable .npz file ({_reason(error)})") from error
    return {name: _value(name, value, wrong) for name, value in values.items()}


def _value(name: str, value: Any, wrong: Callable[[str], WeightsError]) -> Any:
    if value.ndim == 0:
        return value.item()
    if value.dtype not in (np.float32, np.float16):
        raise wrong(f"array {name!r} holds {value.dtype}, expected float32 or float16")
    return _finite(torch.from_numpy(value).float(), f"array {name!r}", wrong)


def _finite(numbers: torch.Tensor, name: str, wrong: Callable[[str], WeightsError]) -> torch.Tensor:
    if not torch.isfinite(numbers).all():
        raise wrong(f"{name} holds numbers that are not finite in float32")
    return numbers


def _reason(error: Exception) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:SHOWN]
