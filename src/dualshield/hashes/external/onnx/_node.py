"""A node of the graph, the table of operators, and what the operators share.

An operator is a function that takes the node and its inputs (None for one left out) and returns one tensor, or
several for an operator with several outputs. Shapes, axes and the like arrive as integer tensors and are read as
Python numbers; image data never is, so gradients and traces survive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# A small file can ask for an enormous tensor; no hash needs one of more than 1 GiB.
MAX_ELEMENTS = 1 << 28

DTYPES = {
    1: torch.float32,
    2: torch.uint8,
    3: torch.int8,
    5: torch.int16,
    6: torch.int32,
    7: torch.int64,
    9: torch.bool,
    10: torch.float16,
    11: torch.float64,
}


class OperatorError(ValueError):
    """A use of a known operator that this module does not compute."""


@dataclass(frozen=True)
class Node:
    """One node of the graph, with its attributes as plain values and tensors."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: dict[str, Any]
    opset: int

    def integer(self, key: str, default: int) -> int:
        """An integer attribute."""
        return int(self.attrs.get(key, default))

    def real(self, key: str, default: float) -> float:
        """A floating point attribute."""
        return float(self.attrs.get(key, default))

    def text(self, key: str, default: str) -> str:
        """A string attribute."""
        return str(self.attrs.get(key, default))

    def ints(self, key: str, default: Sequence[int] = ()) -> list[int]:
        """A list of integers, empty if left out."""
        return [int(value) for value in self.attrs.get(key, default)]


Result = Tensor | Sequence[Tensor]
OPERATORS: dict[str, Callable[..., Result]] = {}
# Outputs past the first exist only here; elsewhere they are training extras.
SEVERAL_OUTPUTS = frozenset({"Split", "Dropout"})
# Statistics that exporters name though nobody uses them.
SPARE_OUTPUTS = frozenset({"LayerNormalization"})


def operator(*names: str) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Enter a function in the table."""

    def add(function: Callable[..., Result]) -> Callable[..., Result]:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return add


def sizes(x: Tensor) -> list[int]:
    """The shape as Python numbers, also while tracing."""
    return [int(size) for size in x.shape]


def numbers(x: Tensor | None) -> list[int]:
    """An integer tensor, such as a shape or axes, as Python numbers."""
    return [] if x is None else [int(value) for value in x.reshape(-1).tolist()]


def on_one_device(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Constants stay in main memory until they meet data that is elsewhere."""
    device = next((t.device for t in tensors if t.device.type != "cpu"), None)
    return tensors if device is None else tuple(t.to(device) for t in tensors)


def bounded(shape: Sequence[int]) -> list[int]:
    """The shape, if a tensor of it may be made."""
    if any(size < 0 for size in shape) or math.prod(shape) > MAX_ELEMENTS:
        raise OperatorError(f"asks for a tensor of shape {list(shape)}")
    return list(shape)


def axes_of(node: Node, given: Tensor | None) -> list[int]:
    """Axes moved from an attribute to an input in later opsets."""
    return node.ints("axes") if given is None else numbers(given)


def picked(x: Tensor, axis: int, indices: Sequence[int]) -> Tensor:
    """The given places along one axis."""
    return x.index_select(axis, torch.tensor(indices, dtype=torch.int64, device=x.device))


def padded(x: Tensor, pairs: Sequence[tuple[int, int]], value: float = 0.0) -> Tensor:
    """Pad the last axes; torch wants the last axis first."""
    grown = [n + b + e for n, (b, e) in zip(sizes(x)[-len(pairs) :], pairs, strict=True)]
    bounded(sizes(x)[: -len(pairs)] + grown)
    return F.pad(x, [pad for pair in reversed(pairs) for pad in pair], value=value)
