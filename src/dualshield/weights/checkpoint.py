"""Safe loading of third-party checkpoints; an error names the key that is wrong.

No code in a file is executed: torch unpickles with ``weights_only``, and anything but plain tensors is refused.
"""

from __future__ import annotations

import argparse
import re
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dualshield.errors import WeightsError

SHOWN_KEYS = 4
# May be missing: it has no effect in evaluation mode, and old versions of torch did not save it.
COUNTER = "num_batches_tracked"


def read_state(path: Path, hash_name: str, *, inside: str | None = None) -> dict[str, torch.Tensor]:
    """Return the tensors of a checkpoint by name, all finite; ``inside`` names the entry that holds them, if nested."""

    def wrong(why: str) -> WeightsError:
        return weights_error(hash_name, path, why)

    data = _unpickle(path, wrong)
    if inside is not None:
        if not isinstance(data, Mapping) or inside not in data:
            raise wrong(f"expected a checkpoint with an entry {inside!r}, found {_shown(data)}")
        data = data[inside]
    if not isinstance(data, Mapping) or not data:
        raise wrong(f"expected a dictionary of tensors, found {_shown(data)}")
    state: dict[str, torch.Tensor] = {}
    for key, value in data.items():
        if not isinstance(key, str) or not isinstance(value, torch.Tensor):
            raise wrong(f"key {key!r} holds {type(value).__name__}, expected a tensor")
        state[key] = checked_tensor(key, value.detach(), wrong)
    return state


def checked_tensor(key: str, tensor: torch.Tensor, wrong: Any) -> torch.Tensor:
    """Return the tensor if it is dense and finite, else raise the error that ``wrong`` creates."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_complex() or tensor.device.type != "cpu":
        raise wrong(f"key {key!r} is not a plain tensor")
    # A view may claim terabytes over a few stored numbers; reading its values would then need that memory.
    if tensor.numel() > tensor.untyped_storage().nbytes() // tensor.element_size():
        raise wrong(f"key {key!r} claims a shape of {tuple(tensor.shape)}, which the file does not hold")
    if tensor.is_floating_point() and not torch.isfinite(tensor).all():
        raise wrong(f"key {key!r} holds NaN or infinity")
    return tensor


def load_strict(
    module: nn.Module, state: Mapping[str, torch.Tensor], hash_name: str, file: str, *, ignore: Iterable[str] = ()
) -> None:
    """Copy ``state`` into ``module``; names and shapes must agree exactly.

    ``ignore`` lists prefixes of keys that the authors save but the hash does not use.
    """
    prefixes = tuple(ignore)
    own = module.state_dict()
    given = {key: value for key, value in state.items() if not key.startswith(prefixes)} if prefixes else dict(state)
    missing = [key for key in own if key not in given and not key.endswith(COUNTER)]
    unexpected = [key for key in given if key not in own]
    shared = [key for key in own if key in given]
    misshaped = [
        f"{key} {tuple(given[key].shape)} instead of {tuple(own[key].shape)}"
        for key in shared
        if given[key].shape != own[key].shape
    ]
    mistyped = [
        f"{key} ({given[key].dtype})"
        for key in shared
        if given[key].is_floating_point() != own[key].is_floating_point()
    ]
    problems = [
        f"{what}: {', '.join(keys[:SHOWN_KEYS])}{f' and {len(keys) - SHOWN_KEYS} more' if keys[SHOWN_KEYS:] else ''}"
        for what, keys in (
            ("missing keys", missing),
            ("unexpected keys", unexpected),
            ("wrong shapes", misshaped),
            ("wrong number types", mistyped),
        )
        if keys
    ]
    if problems:
        raise weights_error(hash_name, file, f"not the weights of this model; {'; '.join(problems)}")
    with torch.no_grad():
        for key in shared:
            own[key].copy_(given[key])


def weights_error(hash_name: str, file: Path | str, why: str) -> WeightsError:
    """Return an error of one line; control characters from the file are replaced."""
    name = file.name if isinstance(file, Path) else file
    text = "".join(c if c.isprintable() else "?" for c in f"hash {hash_name}: {name}: {why}")
    return WeightsError(text)


def _unpickle(path: Path, wrong: Any) -> Any:
    try:
        with path.open("rb"):
            archive = zipfile.is_zipfile(path)
    except OSError as error:
        raise wrong(f"cannot be read ({error.strerror or error})") from error
    if archive:
        _check_archive(path, wrong)
    try:
        # Older checkpoints store the training script's arguments beside the weights; a Namespace holds values, no code.
        with torch.serialization.safe_globals([argparse.Namespace]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # unusual pickle protocols get our own error below
            return torch.load(path, map_location="cpu", weights_only=True, mmap=archive)
    except Exception as error:  # damaged data raises almost anything
        named = re.search(r"GLOBAL ([\w.]+)|Unsupported (?:class|global):? ([\w.]+)", str(error))
        if named:
            raise wrong(f"holds more than numbers ({named[1] or named[2]}), which could run code; refused") from error
        raise wrong("not a readable PyTorch checkpoint of tensors, or a truncated one; download it again") from error


def _check_archive(path: Path, wrong: Any) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise wrong(f"a damaged archive ({error}); download it again") from error
    if any(entry.filename.endswith("/constants.pkl") for entry in entries):
        raise wrong("this is a TorchScript archive, expected a state_dict")
    # torch.save never compresses, and a compressed entry may expand to any size.
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise wrong("a compressed archive, not a PyTorch checkpoint")


def _shown(data: Any) -> str:
    if isinstance(data, Mapping):
        keys = [str(key)[:40] for key in data]
        return f"a dictionary of {', '.join(keys[:SHOWN_KEYS])}{' ...' if keys[SHOWN_KEYS:] else ''}" if keys else "{}"
    return type(data).__name__
