"""Graph nodes, the table of operators, and helpers of the operators.

An operator is a function that takes the node and its inputs (None for an omitted one) and returns one tensor, or
several for an operator with several outputs. Shapes, axes and the like are integer tensors and are converted to
Python numbers; image data never is, so gradients and traces are preserved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# A small file can request an enormous tensor; no hash needs more than 1 GiB.
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
    """An unsupported use of a known operator."""


@dataclass(frozen=True)
class Node:
    """One node of the graph, with attributes as plain values and tensors."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: dict[str, Any]
    opset: int

    def integer(self, key: str, default: int) -> int:
        """Return an integer attribute."""
        return int(self.attrs.get(key, default))

    def real(self, key: str, default: float) -> float:
        """Return a floating-point attribute."""
        return float(self.attrs.get(key, default))

    def text(self, key: str, default: str) -> str:
        """Return a string attribute."""
        return str(self.attrs.get(key, default))

    def ints(self, key: str, default: Sequence[int] = ()) -> list[int]:
        """Return an attribute that is a list of integers; empty if omitted."""
        return [int(value) for value in self.attrs.get(key, default)]


Result = Tensor | Sequence[Tensor]
OPERATORS: dict[str, Callable[..., Result]] = {}
# Operators with more than one output; further outputs of other operators matter only in training.
SEVERAL_OUTPUTS = frozenset({"Split", "Dropout"})
# Operators whose further outputs are statistics that exporters declare but graphs do not use.
SPARE_OUTPUTS = frozenset({"LayerNormalization"})


def operator(*names: str) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Register a function as the implementation of these operators."""

    def add(function: Callable[..., Result]) -> Callable[..., Result]:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return add


def sizes(x: Tensor) -> list[int]:
    """Return the shape as Python numbers, also while tracing."""
    return [int(size) for size in x.shape]


def numbers(x: Tensor | None) -> list[int]:
    """Return an integer tensor, such as a shape or axes, as Python numbers."""
    return [] if x is None else [int(value) for value in x.reshape(-1).tolist()]


def on_one_device(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Move tensors to the device of the first one that is not on the CPU (constants stay in main memory)."""
    device = next((t.device for t in tensors if t.device.type != "cpu"), None)
    return tensors if device is None else tuple(t.to(device) for t in tensors)


def bounded(shape: Sequence[int]) -> list[int]:
    """Return the shape if it is valid and not too large, else raise OperatorError."""
    if any(size < 0 for size in shape) or math.prod(shape) > MAX_ELEMENTS:
        raise OperatorError(f"requests a tensor of shape {list(shape)}")
    return list(shape)


def axes_of(node: Node, given: Tensor | None) -> list[int]:
    """Return the axes, which are an attribute in old opsets and an input in later ones."""
    return node.ints("axes") if given is None else numbers(given)


def picked(x: Tensor, axis: int, indices: Sequence[int]) -> Tensor:
    """Return the entries at ``indices`` along one axis."""
    return x.index_select(axis, torch.tensor(indices, dtype=torch.int64, device=x.device))


def padded(x: Tensor, pairs: Sequence[tuple[int, int]], value: float = 0.0) -> Tensor:
    """Pad the last axes; torch expects the last axis first."""
    grown = [n + b + e for n, (b, e) in zip(sizes(x)[-len(pairs) :], pairs, strict=True)]
    bounded(sizes(x)[: -len(pairs)] + grown)
    return F.pad(x, [pad for pair in reversed(pairs) for pad in pair], value=value)
