"""Fixtures of the tests of cards and ONNX files: graphs of a few nodes, and onnxruntime to compare with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node as node

from dualshield.hashes.external.onnx import OnnxModule

RNG = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def array(value: Any) -> np.ndarray:
    """Plain numbers become what ONNX mostly asks for: int64 or float32."""
    result = np.asarray(value)
    return result.astype(np.float32) if isinstance(value, float | list) and result.dtype.kind == "f" else result


def write(
    path: Path,
    nodes: list[Any],
    shape: Sequence[int | str],
    weights: dict[str, Any] | None = None,
    opset: int = 17,
    *,
    kind: int = TensorProto.FLOAT,
) -> Path:
    """Write a model with input `x` and output `y`."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array(value), name) for name, value in (weights or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("evil", 1)]
    path.write_bytes(helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString())
    return path


def reference(path: Path, x: np.ndarray) -> np.ndarray:
    """onnxruntime, image by image."""
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    rows = [session.run(None, {name: x[i : i + 1]})[0] for i in range(len(x))]
    whole = rows[0].ndim > 0 and rows[0].shape[0] == 1
    return np.concatenate(rows) if whole else np.stack(rows)


def agree(path: Path, shape: Sequence[int], *, positive: bool = False, tolerance: float = 1e-5) -> OnnxModule:
    """Compare a batch of three and a batch of one; return the module."""
    x = RNG.uniform(0.2, 3, (3, *shape)) if positive else RNG.standard_normal((3, *shape))
    x = x.astype(np.float32)
    want, module = reference(path, x), OnnxModule(path)
    for rows in (3, 1):
        got = module(torch.from_numpy(x[:rows])).numpy()
        assert got.shape == want[:rows].shape
        assert np.abs(got - want[:rows]).max() <= tolerance * max(1.0, np.abs(want).max())
    return module


# name -> nodes, shape of one image, weights
GRAPHS: dict[str, tuple[list[Any], tuple[int, ...], dict[str, Any]]] = {
    "comparisons": (
        [
            node("Greater", ["x", "z"], ["g"]),
            node("LessOrEqual", ["x", "h"], ["l"]),
            node("And", ["g", "l"], ["a"]),
            node("Less", ["x", "m"], ["n"]),
            node("Or", ["a", "n"], ["o"]),
            node("GreaterOrEqual", ["x", "h"], ["p"]),
            node("Not", ["p"], ["q"]),
            node("And", ["o", "q"], ["b"]),
            node("Cast", ["b"], ["c"], to=1),
            node("Sign", ["x"], ["s"]),
            node("Equal", ["s", "z"], ["e"]),
            node("Where", ["e", "z", "c"], ["d"]),
            node("Mul", ["d", "x"], ["y"]),
        ],
        (4, 9, 11),
        {"z": 0.0, "h": 0.5, "m": -0.5},
    ),
    "shape arithmetic": (
        [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "zero"], ["n"]),
            node("Unsqueeze", ["n", "axis"], ["u"]),
            node("Gather", ["s", "three"], ["w"]),
            node("Div", ["w", "two"], ["half"]),
            node("Mul", ["half", "two"], ["e"]),
            node("Unsqueeze", ["e", "axis"], ["end"]),
            node("Slice", ["x", "axis", "end", "last"], ["cut"]),
            node("Concat", ["u", "rest"], ["t"], axis=0),
            node("Reshape", ["cut", "t"], ["y"]),
        ],
        (4, 9, 11),
        {
            "zero": 0,
            "three": 3,
            "two": 2,
            "axis": [0],
            "last": [3],
            "rest": [-1],
        },
    ),
    "constants": (
        [
            node("Constant", [], ["a"], value_float=2.0),
            node("Constant", [], ["f"], value_floats=[1.0, 2.0, 3.0]),
            node("Constant", [], ["k"], value_ints=[3]),
            node("Constant", [], ["one"], value_int=1),
            node("Constant", [], ["v"], value=numpy_helper.from_array(floats(3))),
            node("ConstantOfShape", ["k"], ["c"], value=numpy_helper.from_array(np.array([0.5], np.float32))),
            node("ConstantOfShape", ["k"], ["o"]),
            node("Range", ["zero", "end", "one"], ["r"]),
            node("Cast", ["r"], ["rf"], to=1),
            node("Sum", ["v", "c", "o", "rf", "f"], ["t"]),
            node("Mul", ["x", "t"], ["m"]),
            node("Add", ["m", "a"], ["y"]),
        ],
        (5, 3),
        {"zero": 0, "end": 3},
    ),
    "split": (
        [
            node("Split", ["x"], ["a", "b"], axis=1),
            node("Split", ["b", "parts"], ["c", "d"], axis=2),
            node("ReduceSum", ["d", "inner"], ["e"]),
            node("Mul", ["a", "e"], ["f"]),
            node("ReduceMean", ["c"], ["g"], axes=[1, 2, 3]),
            node("Add", ["f", "g"], ["y"]),
        ],
        (4, 9, 11),
        {"parts": [2, 7], "inner": [1, 2, 3]},
    ),
    "class token": (
        [
            node("Expand", ["token", "one"], ["t"]),
            node("Concat", ["t", "x"], ["c"], axis=1),
            node("Gather", ["c", "first"], ["f"], axis=1),
            node("ReduceMean", ["c"], ["r"], axes=[1], keepdims=0),
            node("Add", ["f", "r"], ["a"]),
            node("Reshape", ["a", "shape"], ["y"]),
        ],
        (5, 6),
        {"token": floats(1, 1, 6), "one": [1, 1, 1], "first": 0, "shape": [1, 2, 3]},
    ),
    "cnn": (
        [
            node("Conv", ["x", "w1", "b1"], ["a"], auto_pad="SAME_UPPER", strides=[2, 2]),
            node("Relu", ["a"], ["b"]),
            node("BatchNormalization", ["b", "s", "o", "m", "v"], ["c"]),
            node("MaxPool", ["c"], ["d"], kernel_shape=[2, 2], strides=[2, 2]),
            node("Conv", ["d", "w2"], ["e"], group=8),
            node("HardSwish", ["e"], ["f"]),
            node("GlobalAveragePool", ["f"], ["g"]),
            node("Reshape", ["g", "r"], ["h"]),
            node("Gemm", ["h", "w3", "b3"], ["i"], transB=1),
            node("LpNormalization", ["i"], ["y"]),
        ],
        (3, 32, 32),
        {
            "w1": floats(8, 3, 3, 3),
            "b1": floats(8),
            "s": floats(8),
            "o": floats(8),
            "m": floats(8),
            "v": np.abs(floats(8)) + 0.1,
            "w2": floats(8, 1, 3, 3),
            "r": [1, 8],
            "w3": floats(5, 8),
            "b3": floats(5),
        },
    ),
    "attention": (
        [
            node("LayerNormalization", ["x", "s", "o"], ["l"]),
            node("MatMul", ["l", "w"], ["qkv"]),
            node("Reshape", ["qkv", "heads"], ["h"]),
            node("Transpose", ["h"], ["t"], perm=[2, 0, 3, 1, 4]),
            node("Split", ["t"], ["q4", "k4", "v4"], axis=0),
            node("Squeeze", ["q4", "axis"], ["q"]),
            node("Squeeze", ["k4", "axis"], ["k"]),
            node("Squeeze", ["v4", "axis"], ["v"]),
            node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
            node("MatMul", ["q", "kt"], ["sc"]),
            node("Mul", ["sc", "scale"], ["ss"]),
            node("Softmax", ["ss"], ["p"], axis=-1),
            node("MatMul", ["p", "v"], ["c"]),
            node("Transpose", ["c"], ["ct"], perm=[0, 2, 1, 3]),
            node("Reshape", ["ct", "merge"], ["m"]),
            node("Add", ["m", "x"], ["y"]),
        ],
        (5, 8),
        {
            "s": floats(8),
            "o": floats(8),
            "w": floats(8, 24),
            "heads": [1, 5, 3, 2, 4],
            "axis": [0],
            "scale": 0.5,
            "merge": [1, 5, 8],
        },
    ),
}


@pytest.fixture(scope="session")
def write_onnx() -> Callable[..., Path]:
    return write


@pytest.fixture(scope="session")
def agrees_with_onnxruntime() -> Callable[..., OnnxModule]:
    return agree


@pytest.fixture(scope="session")
def onnx_graphs() -> dict[str, tuple[list[Any], tuple[int, ...], dict[str, Any]]]:
    return GRAPHS


@pytest.fixture
def write_graph(tmp_path: Path) -> Callable[[str], Path]:
    def write_named(name: str) -> Path:
        nodes, shape, weights = GRAPHS[name]
        return write(tmp_path / "graph.onnx", nodes, [1, *shape], weights)

    return write_named
