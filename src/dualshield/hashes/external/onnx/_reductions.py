"""Operators over whole axes: matrix products, normalisation, reduction."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from dualshield.hashes.external.onnx._node import Node, OperatorError, axes_of, on_one_device, operator, sizes


@operator("MatMul")
def _mat_mul(node: Node, a: Tensor, b: Tensor) -> Tensor:
    return torch.matmul(*on_one_device(a, b))


@operator("Gemm")
def _gemm(node: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    a = a.transpose(0, 1) if node.integer("transA", 0) else a
    b = b.transpose(0, 1) if node.integer("transB", 0) else b
    y = torch.matmul(a, b)
    alpha, beta = node.real("alpha", 1.0), node.real("beta", 1.0)
    y = y if alpha == 1.0 else alpha * y
    if c is None:
        return y
    return y + (c if beta == 1.0 else beta * c)


@operator("BatchNormalization")
def _batch_norm(node: Node, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    if node.integer("training_mode", 0):
        raise OperatorError("is in training mode")
    return F.batch_norm(x, mean, var, scale, bias, False, 0.0, node.real("epsilon", 1e-5))


@operator("InstanceNormalization")
def _instance_normalization(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    # Not F.instance_norm, which refuses a single value per channel; ONNX allows it.
    return torch.instance_norm(x, scale, bias, None, None, True, 0.0, node.real("epsilon", 1e-5), False)


@operator("LayerNormalization")
def _layer_normalization(node: Node, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
    shape = sizes(x)[node.integer("axis", -1) :]
    bias = None if bias is None else bias.expand(shape)
    return F.layer_norm(x, shape, scale.expand(shape), bias, node.real("epsilon", 1e-5))


@operator("GroupNormalization")
def _group_normalization(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    groups, channels = node.integer("num_groups", 1), sizes(x)[1]
    if node.opset < 21:  # one scale per group; later one per channel
        scale, bias = (t.repeat_interleave(channels // groups) for t in (scale, bias))
    return torch.group_norm(x, groups, scale, bias, node.real("epsilon", 1e-5), False)


@operator("LpNormalization")
def _lp_normalization(node: Node, x: Tensor) -> Tensor:
    norm = torch.linalg.vector_norm(x, node.integer("p", 2), dim=node.integer("axis", -1), keepdim=True)
    return x / torch.where(norm == 0, torch.ones_like(norm), norm)


@operator("GlobalAveragePool")
def _global_average_pool(node: Node, x: Tensor) -> Tensor:
    return x.mean(list(range(2, x.dim())), keepdim=True)


@operator("GlobalMaxPool")
def _global_max_pool(node: Node, x: Tensor) -> Tensor:
    return x.amax(list(range(2, x.dim())), keepdim=True)


@operator("Softmax", "LogSoftmax")
def _softmax(node: Node, x: Tensor) -> Tensor:
    function = torch.softmax if node.op == "Softmax" else torch.log_softmax
    if node.opset >= 13:
        return function(x, node.integer("axis", -1))
    return function(x.flatten(node.integer("axis", 1)), -1).reshape(sizes(x))


REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "ReduceMean": torch.mean, "ReduceSum": torch.sum, "ReduceMax": torch.amax, "ReduceMin": torch.amin,
    "ReduceL1": lambda x, dim, keepdim: x.abs().sum(dim, keepdim),
    "ReduceL2": lambda x, dim, keepdim: torch.linalg.vector_norm(x, 2, dim, keepdim),
    "ReduceSumSquare": lambda x, dim, keepdim: (x * x).sum(dim, keepdim),
}  # fmt: skip


@operator(*REDUCTIONS)
def _reduction(node: Node, x: Tensor, axes: Tensor | None = None) -> Tensor:
    dims = axes_of(node, axes)
    if not dims and node.integer("noop_with_empty_axes", 0):
        if node.op in ("ReduceL1", "ReduceL2", "ReduceSumSquare"):
            raise OperatorError("uses noop_with_empty_axes")
        return x
    y = REDUCTIONS[node.op](x, dim=dims or list(range(x.dim())), keepdim=bool(node.integer("keepdims", 1)))
    return y.to(x.dtype)
