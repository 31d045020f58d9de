"""Operators that create constants and rearrange values: shapes, axes, slices."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from dualshield.hashes.external.onnx._node import (
    Node,
    OperatorError,
    Result,
    axes_of,
    bounded,
    numbers,
    on_one_device,
    operator,
    picked,
    sizes,
)


@operator("Shape")
def _shape_of(node: Node, x: Tensor) -> Tensor:
    return torch.tensor(sizes(x)[node.integer("start", 0) : node.attrs.get("end")], dtype=torch.int64)


@operator("Constant")
def _constant(node: Node) -> Tensor:
    for key, dtype in (("value_int", torch.int64), ("value_ints", torch.int64),
                       ("value_float", torch.float32), ("value_floats", torch.float32)):  # fmt: skip
        if key in node.attrs:
            return torch.tensor(node.attrs[key], dtype=dtype)
    if not isinstance(node.attrs.get("value"), Tensor):
        raise OperatorError("holds no tensor of numbers")
    return torch.as_tensor(node.attrs["value"])


@operator("ConstantOfShape")
def _constant_of_shape(node: Node, shape: Tensor) -> Tensor:
    value: Tensor = node.attrs.get("value", torch.zeros(1))
    return value.reshape(()).expand(bounded(numbers(shape)))


@operator("Range")
def _arange(node: Node, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    first, last, step = start.item(), limit.item(), delta.item()
    count = bounded([max(math.ceil((last - first) / step), 0)])[0]
    return (first + step * torch.arange(count, dtype=torch.float64)).to(start.dtype)


@operator("Flatten")
def _flatten(node: Node, x: Tensor) -> Tensor:
    shape, axis = sizes(x), node.integer("axis", 1)
    return x.reshape(math.prod(shape[:axis]), math.prod(shape[axis:]))


@operator("Reshape")
def _reshape(node: Node, x: Tensor, target: Tensor) -> Tensor:
    shape, keep = sizes(x), not node.integer("allowzero", 0)
    return x.reshape([shape[i] if n == 0 and keep else n for i, n in enumerate(numbers(target))])


@operator("Transpose")
def _transpose(node: Node, x: Tensor) -> Tensor:
    return x.permute(node.ints("perm", range(x.dim())[::-1]))


@operator("Expand")
def _expand(node: Node, x: Tensor, target: Tensor) -> Tensor:
    shape = np.broadcast_shapes(tuple(sizes(x)), tuple(numbers(target)))
    return x.expand(bounded(shape))


@operator("Tile")
def _tile(node: Node, x: Tensor, repeats: Tensor) -> Tensor:
    times = numbers(repeats)
    bounded([size * n for size, n in zip(sizes(x), times, strict=True)])
    return x.repeat(times)


@operator("Squeeze")
def _squeeze(node: Node, x: Tensor, axes: Tensor | None = None) -> Tensor:
    shape = sizes(x)
    dims = axes_of(node, axes) or [i for i, size in enumerate(shape) if size == 1]
    if any(shape[dim] != 1 for dim in dims):
        raise ValueError(f"cannot squeeze axes {dims} of shape {shape}")
    return x.squeeze(dims)


@operator("Unsqueeze")
def _unsqueeze(node: Node, x: Tensor, axes: Tensor | None = None) -> Tensor:
    dims = axes_of(node, axes)
    for dim in sorted(dim % (x.dim() + len(dims)) for dim in dims):
        x = x.unsqueeze(dim)
    return x


@operator("Concat")
def _concat(node: Node, *parts: Tensor) -> Tensor:
    return torch.cat(on_one_device(*parts), node.integer("axis", 0))


@operator("Split")
def _split(node: Node, x: Tensor, lengths: Tensor | None = None) -> Result:
    axis, count = node.integer("axis", 0), len(node.outputs)
    chosen = node.ints("split") or numbers(lengths)
    if chosen:
        return torch.split(x, chosen, axis)
    size = sizes(x)[axis]
    step = -(-size // count)
    return torch.split(x, [max(min(step, size - i * step), 0) for i in range(count)], axis)


@operator("Slice")
def _slice(node: Node, x: Tensor, *given: Tensor | None) -> Tensor:
    if given:
        starts, ends, axes, steps = (numbers(t) for t in (*given, None, None)[:4])
    else:
        starts, ends, axes, steps = node.ints("starts"), node.ints("ends"), node.ints("axes"), []
    axes, steps = axes or list(range(len(starts))), steps or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        first, last, step = slice(start, end, step).indices(sizes(x)[axis])
        if step > 0:
            x = x[(slice(None),) * (axis % x.dim()) + (slice(first, max(first, last), step),)]
        else:
            x = picked(x, axis, range(first, last, step))
    return x


@operator("Gather")
def _gather(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    x, indices = on_one_device(x, indices)
    shape, axis = sizes(x), node.integer("axis", 0) % x.dim()
    flat = indices.reshape(-1).to(torch.int64)
    flat = torch.where(flat < 0, flat + shape[axis], flat)
    return x.index_select(axis, flat).reshape(shape[:axis] + sizes(indices) + shape[axis + 1 :])
