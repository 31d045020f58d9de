"""The operators Pad and Resize, applied axis by axis as selections or weighted sums of pixels."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dualshield.hashes.external.onnx._node import Node, OperatorError, bounded, numbers, operator, padded, picked, sizes

Floats = NDArray[np.float32]


def _outside(index: int, size: int, mode: str) -> int:
    """Return the pixel to use for `index`, which may be outside the image."""
    if mode == "edge" or size == 1:
        return min(max(index, 0), size - 1)
    index %= 2 * (size - 1)
    return min(index, 2 * (size - 1) - index)


@operator("Pad")
def _pad(node: Node, x: Tensor, *given: Tensor | None) -> Tensor:
    pads, value, axes = (*given, None, None, None)[:3]
    mode, amounts = node.text("mode", "constant"), node.ints("pads") or numbers(pads)
    chosen = [axis % x.dim() for axis in numbers(axes)] or list(range(x.dim()))
    pairs = [(0, 0)] * x.dim()
    for i, axis in enumerate(chosen):
        pairs[axis] = (amounts[i], amounts[i + len(chosen)])
    if mode == "constant":
        return padded(x, pairs, node.real("value", 0.0) if value is None else value.item())
    if mode not in ("reflect", "edge"):
        raise OperatorError(f"uses mode {mode}")
    bounded([size + begin + end for size, (begin, end) in zip(sizes(x), pairs, strict=True)])
    for axis, (begin, end) in enumerate(pairs):
        if begin or end:
            size = sizes(x)[axis]
            x = picked(x, axis, [_outside(i, size, mode) for i in range(-begin, size + end)])
    return x


def _positions(node: Node, size: int, out: int, scale: np.float32) -> Floats:
    """Return the input position of each output pixel, in float32 as in other runtimes."""
    at = np.arange(out, dtype=np.float32)
    mode = node.text("coordinate_transformation_mode", "half_pixel" if node.opset >= 11 else "asymmetric")
    half = np.float32(0.5)
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and out > 1):
        return (at + half) / scale - half
    if mode == "pytorch_half_pixel":
        return np.zeros_like(at)
    if mode == "asymmetric":
        return at / scale
    if mode == "align_corners":
        return at * np.float32(size - 1) / np.float32(max(out - 1, 1))
    raise OperatorError(f"uses coordinate_transformation_mode {mode}")


def _cubic(node: Node, part: Floats) -> list[Floats]:
    a = np.float32(node.real("cubic_coeff_a", -0.75))

    def near(d: Floats) -> Floats:
        return np.asarray(((a + 2) * d - (a + 3)) * d * d + 1, np.float32)

    def far(d: Floats) -> Floats:
        return np.asarray(((a * d - 5 * a) * d + 8 * a) * d - 4 * a, np.float32)

    return [far(part + 1), near(part), near(1 - part), far(2 - part)]


NEAREST: dict[str, Callable[[Floats], Floats]] = {
    "round_prefer_floor": lambda x: np.ceil(x - np.float32(0.5)),
    "round_prefer_ceil": lambda x: np.floor(x + np.float32(0.5)),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _taps(node: Node, at: Floats, size: int) -> list[tuple[Floats, Floats]]:
    """Return pairs of (pixel index, weight) to be summed."""
    mode, base = node.text("mode", "nearest"), np.floor(at)
    if mode == "nearest":
        rounding = NEAREST[node.text("nearest_mode", "round_prefer_floor" if node.opset >= 11 else "floor")]
        return [(rounding(at), np.ones_like(at))]
    if mode == "linear":
        return [(base, 1 - (at - base)), (base + 1, at - base)]
    if mode != "cubic":
        raise OperatorError(f"uses mode {mode}")
    taps = [(base + i - 1, weight) for i, weight in enumerate(_cubic(node, at - base))]
    if node.integer("exclude_outside", 0):
        taps = [(i, np.where((i >= 0) & (i < size), w, np.float32(0))) for i, w in taps]
        total = np.sum([w for _, w in taps], axis=0)
        taps = [(i, w / total) for i, w in taps]
    return taps


@operator("Resize", "Upsample")
def _resize(node: Node, x: Tensor, *given: Tensor | None) -> Tensor:
    if node.integer("antialias", 0) or node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise OperatorError("uses antialias or keep_aspect_ratio_policy")
    _, scales, lengths = (None, *given, None)[:3] if node.opset < 11 else (*given, None, None)[:3]
    axes, factors, outs = node.ints("axes", range(x.dim())), [], numbers(lengths)
    if outs:
        factors = [np.float32(out) / np.float32(sizes(x)[a]) for a, out in zip(axes, outs, strict=True)]
    elif scales is not None:
        factors = [np.float32(scale) for scale in scales.reshape(-1).tolist()]
        outs = [math.floor(sizes(x)[a] * f) for a, f in zip(axes, factors, strict=True)]
    bounded(outs)
    for axis, out, factor in zip(axes, outs, factors, strict=True):
        size = sizes(x)[axis]
        if out == size and factor == 1:
            continue
        y = None
        for at, weight in _taps(node, _positions(node, size, out, factor), size):
            part = picked(x, axis, [int(i) for i in np.clip(at, 0, size - 1)])
            if node.text("mode", "nearest") != "nearest":
                shape = [-1] + [1] * (x.dim() - 1 - axis % x.dim())
                part = part * torch.tensor(weight.tolist(), dtype=x.dtype, device=x.device).reshape(shape)
            y = part if y is None else y + part
        x = x if y is None else y
    return x
