"""Sliding-window operators: convolution and pooling."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from dualshield.hashes.external.onnx._node import Node, OperatorError, operator, padded, sizes


def _window(node: Node, x: Tensor, kernel: list[int]) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Return strides, dilations and (begin, end) padding of each spatial axis."""
    n = len(kernel)
    strides, dilations = node.ints("strides", [1] * n), node.ints("dilations", [1] * n)
    mode = node.text("auto_pad", "NOTSET")
    if mode == "NOTSET":
        pads = node.ints("pads", [0] * (2 * n))
        return strides, dilations, list(zip(pads[:n], pads[n:], strict=True))
    if mode == "VALID":
        return strides, dilations, [(0, 0)] * n
    pairs = []
    for size, k, stride, dilation in zip(sizes(x)[2:], kernel, strides, dilations, strict=True):
        total = max((-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size, 0)
        half = total // 2
        pairs.append((half, total - half) if mode == "SAME_UPPER" else (total - half, half))
    return strides, dilations, pairs


@operator("Conv")
def _conv(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    kernel = sizes(weight)[2:]
    strides, dilations, pairs = _window(node, x, kernel)
    padding = [begin for begin, _ in pairs]
    if any(begin != end for begin, end in pairs):
        x, padding = padded(x, pairs), [0] * len(kernel)
    function: Callable[..., Tensor] = (F.conv1d, F.conv2d, F.conv3d)[len(kernel) - 1]
    return function(x, weight, bias, strides, padding, dilations, node.integer("group", 1))


@operator("ConvTranspose")
def _conv_transpose(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if "output_shape" in node.attrs or node.text("auto_pad", "NOTSET").startswith("SAME"):
        raise OperatorError("uses output_shape or auto_pad")
    n = x.dim() - 2
    strides, dilations, pairs = _window(node, x, sizes(weight)[2:])
    function: Callable[..., Tensor] = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
    y = function(x, weight, None, strides, 0, 0, node.integer("group", 1), dilations)
    extra = node.ints("output_padding", [0] * n)
    y = padded(y, [(-b, more - e) for (b, e), more in zip(pairs, extra, strict=True)])
    return y if bias is None else y + bias.reshape([-1] + [1] * n)


def _pool_pads(node: Node, x: Tensor) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the requested padding, and the padding that ceil_mode adds at the end."""
    kernel = node.ints("kernel_shape")
    strides, dilations, pairs = _window(node, x, kernel)
    extra = []
    for size, k, s, d, (b, e) in zip(sizes(x)[2:], kernel, strides, dilations, pairs, strict=True):
        span, room = (k - 1) * d + 1, size + b + e
        count = -(-(room - span) // s) + 1
        if (count - 1) * s >= size + b:  # the last window must start inside the image
            count -= 1
        more = max((count - 1) * s + span - room, 0)
        extra.append((0, more if node.integer("ceil_mode", 0) else 0))
    return pairs, extra


def _pools_natively(node: Node, pairs: list[tuple[int, int]], extra: list[tuple[int, int]]) -> bool:
    halves = [k // 2 for k in node.ints("kernel_shape")]
    plain = all(b == e and b <= half for (b, e), half in zip(pairs, halves, strict=True))
    return plain and not any(more for _, more in extra)


@operator("MaxPool")
def _max_pool(node: Node, x: Tensor) -> Tensor:
    kernel = node.ints("kernel_shape")
    strides, dilations, _ = _window(node, x, kernel)
    pairs, extra = _pool_pads(node, x)
    padding = [begin for begin, _ in pairs]
    if not _pools_natively(node, pairs, extra):
        total = [(b, e + more) for (b, e), (_, more) in zip(pairs, extra, strict=True)]
        x, padding = padded(x, total, -math.inf), [0] * len(kernel)
    function: Callable[..., Tensor] = (torch.max_pool1d, torch.max_pool2d, torch.max_pool3d)[len(kernel) - 1]
    return function(x, kernel, strides, padding, dilations)


@operator("AveragePool")
def _average_pool(node: Node, x: Tensor) -> Tensor:
    kernel = node.ints("kernel_shape")
    strides, dilations, _ = _window(node, x, kernel)
    if any(dilation != 1 for dilation in dilations):
        raise OperatorError("uses dilations")
    pairs, extra = _pool_pads(node, x)
    counted = bool(node.integer("count_include_pad", 0))
    function: Callable[..., Tensor] = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(kernel) - 1]
    if _pools_natively(node, pairs, extra):
        return function(x, kernel, strides, [begin for begin, _ in pairs], False, counted)
    ones = torch.ones([1, 1, *sizes(x)[2:]], dtype=x.dtype, device=x.device)
    share = function(padded(padded(ones, pairs, float(counted)), extra), kernel, strides)
    return function(padded(padded(x, pairs), extra), kernel, strides) / share
