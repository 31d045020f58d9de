"""Every ONNX operator against onnxruntime, and its gradient."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx.helper import make_node

from dualshield.hashes.external.onnx import OnnxModule
from dualshield.hashes.external.onnx._node import OPERATORS

RNG = np.random.default_rng(7)
Case = tuple[str, tuple[int, ...], list[Any], int, dict[str, Any]]
CASES: list[Case] = []


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def case(op: str, shape: tuple[int, ...], *extra: Any, opset: int = 17, **attrs: Any) -> None:
    CASES.append((op, shape, list(extra), opset, attrs))


IMAGE, ROW = (4, 9, 11), (6,)
POSITIVE = {"Log", "Sqrt", "Reciprocal", "Pow"}
FLAT = {"Ceil", "Floor", "Round", "Sign"}

PLAIN = """
    Abs Cos Erf Exp HardSigmoid HardSwish Identity LeakyRelu Log Neg Reciprocal Relu Sigmoid Sin Softplus Sqrt
    Tanh Elu Selu Ceil Floor Round Sign Softmax LogSoftmax GlobalAveragePool GlobalMaxPool Flatten Dropout
    LpNormalization ReduceMean ReduceSum ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceSumSquare
    Squeeze Max Min Sum
"""
for unary in PLAIN.split():
    case(unary, IMAGE)
for binary in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum"):
    case(binary, IMAGE, floats(4, 1, 1))
case("Pow", IMAGE, 1.5)
case("Pow", ROW, [2])
case("LeakyRelu", ROW, alpha=0.3)
case("Elu", ROW, alpha=0.7)
case("Selu", ROW, alpha=1.2, gamma=0.9)
case("HardSigmoid", ROW, alpha=0.3, beta=0.4)
case("PRelu", IMAGE, floats(4, 1, 1))
case("Gelu", ROW, opset=20)
case("Gelu", ROW, opset=20, approximate="tanh")
case("Clip", IMAGE, -0.5, 0.5)
case("Clip", IMAGE, None, 0.5)
case("Clip", IMAGE, opset=9, min=-0.3, max=0.6)
case("MatMul", (5, 6), floats(6, 3))
case("MatMul", ROW, floats(6))
case("Gemm", ROW, floats(6, 5), floats(5))
case("Gemm", ROW, floats(5, 6), floats(1, 5), transB=1, alpha=0.5, beta=2.0)
case("Gemm", ROW, floats(6, 5))
case("Conv", IMAGE, floats(6, 4, 3, 3), floats(6), pads=[1, 1, 1, 1])
case("Conv", IMAGE, floats(8, 1, 3, 3), group=4, strides=[2, 2], pads=[0, 1, 1, 0])
case("Conv", IMAGE, floats(6, 4, 3, 2), dilations=[2, 1])
for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
    case("Conv", IMAGE, floats(6, 4, 3, 4), auto_pad=auto, strides=[2, 3])
    case("MaxPool", IMAGE, auto_pad=auto, kernel_shape=[2, 3], strides=[2, 2])
    case("AveragePool", IMAGE, auto_pad=auto, kernel_shape=[2, 3], strides=[2, 2])
case("Conv", (4, 15), floats(6, 4, 3), floats(6), pads=[2, 1], strides=[2])
case("ConvTranspose", IMAGE, floats(4, 3, 3, 3), floats(3), strides=[2, 2], pads=[1, 0, 1, 2])
case("ConvTranspose", IMAGE, floats(4, 3, 3, 3), floats(6), group=2, strides=[2, 2], output_padding=[1, 1])
case("ConvTranspose", (4, 7), floats(4, 2, 3), dilations=[2])
case("BatchNormalization", IMAGE, floats(4), floats(4), floats(4), np.abs(floats(4)) + 0.1)
case("InstanceNormalization", IMAGE, floats(4), floats(4), epsilon=1e-3)
case("LayerNormalization", (5, 6), floats(6), floats(6))
case("CastLike", IMAGE, floats(1))
case("LayerNormalization", IMAGE, floats(9, 11), axis=2)
case("GroupNormalization", IMAGE, floats(2), floats(2), opset=18, num_groups=2)
case("GroupNormalization", IMAGE, floats(4), floats(4), opset=21, num_groups=2)
for old in (11, 13):
    case("Softmax", IMAGE, opset=old, axis=2)
    case("LogSoftmax", IMAGE, opset=old, axis=1)
for reduce_op in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare"):
    case(reduce_op, IMAGE, axes=[2, -1], keepdims=0)
    case(reduce_op, IMAGE, [1, -1], opset=18)
case("ReduceSum", IMAGE, [2, 3])
case("ReduceSum", IMAGE, noop_with_empty_axes=1)
case("ReduceSum", IMAGE, opset=11, axes=[1], keepdims=0)
case("LpNormalization", IMAGE, axis=1, p=1)
for pool in ("MaxPool", "AveragePool"):
    case(pool, IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    case(pool, IMAGE, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 0, 1])
    case(pool, IMAGE, kernel_shape=[3, 3], strides=[2, 3], ceil_mode=1, pads=[0, 1, 0, 1])
    case(pool, (4, 12), kernel_shape=[3], strides=[2], ceil_mode=1)
case("MaxPool", IMAGE, kernel_shape=[2, 2], dilations=[2, 3])
case("AveragePool", IMAGE, kernel_shape=[3, 3], pads=[1, 0, 1, 1], count_include_pad=1)
case(
    "AveragePool",
    IMAGE,
    kernel_shape=[3, 3],
    strides=[3, 2],
    pads=[1, 1, 1, 1],
    count_include_pad=1,
    ceil_mode=1,
)
case("Flatten", IMAGE, axis=2)
case("Flatten", IMAGE, axis=0)
case("Flatten", IMAGE, axis=-1)
case("Reshape", IMAGE, [1, 396])
case("Reshape", IMAGE, [1, -1, 11])
case("Reshape", IMAGE, [-1, 4, 99])
case("Reshape", IMAGE, [0, 0, -1])
case("Reshape", IMAGE, [4, 99])
case("Transpose", IMAGE)
case("Transpose", IMAGE, perm=[0, 2, 3, 1])
case("Squeeze", (4, 1, 5), [2])
case("Squeeze", (4, 1, 5), opset=11, axes=[0, 2])
case("Unsqueeze", IMAGE, [1, -1])
case("Unsqueeze", IMAGE, opset=11, axes=[2, 4])
case("Concat", IMAGE, floats(1, 2, 9, 11), axis=1)
case("Slice", IMAGE, [1, -2], [2**62, -20], [2, 3], [2, -2])
case("Slice", IMAGE, [0, 1], [1, 3])
case("Slice", IMAGE, opset=9, starts=[1, -4], ends=[3, 1000], axes=[1, 3])
case("Gather", IMAGE, [2, 0, -1], axis=1)
case("Gather", IMAGE, -2, axis=-1)
case("Gather", IMAGE, [[0, 1], [1, 2]], axis=2)
case("Expand", (4, 1, 3), [1, 4, 5, 3])
case("Expand", (1, 3), [2, 1, 4, 1])
case("Tile", IMAGE, [1, 2, 1, 3])
for mode in ("constant", "reflect", "edge"):
    case("Pad", IMAGE, [0, 1, 2, 0, 0, 0, 3, 4], mode=mode)
    case("Pad", IMAGE, opset=9, pads=[0, 0, 2, 1, 0, 0, 1, 2], mode=mode)
case("Pad", IMAGE, [0, 0, -2, 1, 0, 0, 1, -1], 0.7)
case("Pad", IMAGE, [1, 2], 0.7, [-1], opset=18)
UP, DOWN = [1.0, 1.0, 2.0, 1.7], [1.0, 1.0, 0.6, 0.5]
for coordinates in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
    for method in ("nearest", "linear", "cubic"):
        for scales in (UP, DOWN):
            case("Resize", IMAGE, None, scales, mode=method, coordinate_transformation_mode=coordinates)
    case(
        "Resize",
        IMAGE,
        None,
        None,
        [1, 4, 13, 5],
        mode="linear",
        coordinate_transformation_mode=coordinates,
    )
for rounding in ("floor", "ceil", "round_prefer_ceil"):
    case("Resize", IMAGE, None, UP, nearest_mode=rounding, coordinate_transformation_mode="asymmetric")
case("Resize", IMAGE, None, UP, mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5)
case("Resize", IMAGE, None, None, [7, 23], mode="linear", axes=[2, 3], opset=18)
case("Resize", IMAGE, [1.0, 1.0, 2.0, 2.0], opset=10, mode="linear")
case("Upsample", IMAGE, [1.0, 1.0, 2.0, 3.0], opset=9)


@pytest.mark.parametrize("spec", CASES, ids=[f"{spec[0]}-{i}" for i, spec in enumerate(CASES)])
def test_operator(
    spec: Case,
    tmp_path: Path,
    write_onnx: Callable[..., Path],
    agrees_with_onnxruntime: Callable[..., OnnxModule],
) -> None:
    op, shape, extra, opset, attrs = spec
    weights = {f"w{i}": value for i, value in enumerate(extra) if value is not None}
    names = ["x", *(f"w{i}" if value is not None else "" for i, value in enumerate(extra))]
    path = write_onnx(tmp_path / "m.onnx", [make_node(op, names, ["y"], **attrs)], [1, *shape], weights, opset)
    module = agrees_with_onnxruntime(path, shape, positive=op in POSITIVE)
    x = torch.rand(2, *shape, requires_grad=True)
    module(x).square().sum().backward()
    assert x.grad is not None
    assert bool(x.grad.isfinite().all())
    assert op in FLAT or bool(x.grad.abs().sum() > 0)


def test_every_operator_is_tested(onnx_graphs: dict[str, Any]) -> None:
    tested = {spec[0] for spec in CASES} | {node.op_type for nodes, _, _ in onnx_graphs.values() for node in nodes}
    assert set(OPERATORS) == tested
