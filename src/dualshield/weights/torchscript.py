"""Reading of tensors from a TorchScript archive without running its code.

``torch.jit.load`` would compile the archive's code and may run parts of it. Here only ``data.pkl`` is read, by an
unpickler that accepts nothing but plain objects and tensors.
"""

from __future__ import annotations

import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from dualshield.errors import WeightsError
from dualshield.weights.checkpoint import checked_tensor, weights_error

MAX_PICKLE_BYTES = 1 << 26
MAX_DEPTH = 32
STORAGES = {
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "BoolStorage": torch.bool,
}


class Scripted:
    """Stand-in for an object of the archive; holds its attributes."""


def read_script_state(path: Path, hash_name: str) -> dict[str, torch.Tensor]:
    """Return the parameters and buffers of the scripted or traced module in ``path``, all finite."""

    def wrong(why: str) -> WeightsError:
        return weights_error(hash_name, path, why)

    try:
        with zipfile.ZipFile(path) as archive:
            root = _unpickle(archive, wrong)
    except WeightsError:
        raise
    except OSError as error:
        raise wrong(f"cannot be read ({error.strerror or error})") from error
    except Exception as error:  # damaged data raises almost anything
        first = " ".join(str(error).split())[:120] or type(error).__name__
        raise wrong(f"not a readable TorchScript archive, or a truncated one ({first}); download it again") from error
    if not isinstance(root, Scripted):
        raise wrong("not a TorchScript module")
    state = {key: checked_tensor(key, tensor, wrong) for key, tensor in _walk(root, "", set(), 0, wrong)}
    if not state:
        raise wrong("a frozen module, whose weights have no names; use a file with a state_dict instead")
    return state


def _unpickle(archive: zipfile.ZipFile, wrong: Callable[[str], WeightsError]) -> Any:
    names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
    if len(names) != 1 or not any(name.endswith("/constants.pkl") for name in archive.namelist()):
        raise wrong("not a TorchScript archive")
    folder = names[0].removesuffix("data.pkl")

    def record(name: str, most: int) -> bytes:
        info = archive.getinfo(folder + name)
        if info.file_size > most or info.compress_type != zipfile.ZIP_STORED:
            raise wrong(f"its record {name} is compressed or too large")
        return archive.read(info)

    class Reader(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if module.startswith("__torch__"):
                return Scripted
            if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
                return _rebuild
            if (module, name) == ("collections", "OrderedDict"):
                return OrderedDict
            if (module, name) == ("torch.jit._pickle", "build_intlist"):
                return list
            if module == "torch" and name in STORAGES:
                return STORAGES[name]
            raise wrong(f"holds more than numbers ({module}.{name}), which could run code; refused")

        def persistent_load(self, pid: Any) -> torch.Tensor:
            _, dtype, key, _, count = pid
            data = record(f"data/{key}", most=count * dtype.itemsize)
            if len(data) != count * dtype.itemsize:
                raise wrong(f"its record data/{key} is truncated")
            return torch.frombuffer(bytearray(data), dtype=dtype) if count else torch.empty(0, dtype=dtype)

    with archive.open(archive.getinfo(names[0])) as file:
        if archive.getinfo(names[0]).file_size > MAX_PICKLE_BYTES:
            raise wrong("its data.pkl is too large")
        return Reader(file).load()


def _rebuild(
    storage: torch.Tensor, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any
) -> torch.Tensor:
    if math.prod(size) > storage.numel():
        raise ValueError(f"a tensor of shape {size} on a storage of {storage.numel()} numbers")
    return torch.as_strided(storage, size, stride, offset)


def _walk(
    node: Scripted, prefix: str, seen: set[int], depth: int, wrong: Callable[[str], WeightsError]
) -> Iterator[tuple[str, torch.Tensor]]:
    if id(node) in seen or depth > MAX_DEPTH:
        raise wrong(f"its modules are nested too deeply or shared ({prefix[:80]})")
    seen.add(id(node))
    for name, value in vars(node).items():
        if isinstance(value, torch.Tensor):
            yield f"{prefix}{name}", value
        elif isinstance(value, Scripted):
            yield from _walk(value, f"{prefix}{name}.", seen, depth + 1, wrong)
