"""ONNX files that are damaged, hostile or beyond what DualShield computes: each a CardError of one line."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from onnx.helper import make_node as node

from dualshield.errors import CardError, MissingDependencyError
from dualshield.hashes.external.onnx import OnnxModule

RNG = np.random.default_rng(7)


def refused(path: Path, match: str) -> None:
    with pytest.raises(CardError, match=match) as caught:
        OnnxModule(path)
    assert str(caught.value).isprintable()
    assert path.name in str(caught.value)


def test_bad_files(tmp_path: Path, write_graph: Callable[[str], Path]) -> None:
    good = write_graph("cnn").read_bytes()
    bad = tmp_path / "bad.onnx"
    refused(bad, "no such file")
    refused(tmp_path, "not a file")
    for content in (
        b"",
        good[:40],
        good[: len(good) // 2],
        good[:-1],
        b"<html>not a model</html>",
        bytes(500),
        RNG.bytes(1000),
        b'{"graph": {}}',
    ):
        bad.write_bytes(content)
        refused(bad, "ONNX model|opset")


@pytest.mark.parametrize(
    ("nodes", "opset", "match"),
    [
        ([node("NonZero", ["x"], ["y"])], 17, "NonZero; export the model as TorchScript"),
        ([node("Relu", ["x"], ["y"], domain="evil")], 17, "evil.Relu"),
        ([node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2])], 17, "MaxPool with several outputs"),
        (
            [node("LayerNormalization", ["x", "s"], ["l", "m"]), node("Add", ["l", "m"], ["y"])],
            17,
            "LayerNormalization with several outputs",
        ),
        ([node("LayerNormalization", ["x", "s"], ["l", "y"])], 17, "LayerNormalization with several outputs"),
        ([node("Relu", ["x"], ["y"])], 8, "opset 8"),
        ([node("Relu", ["x"], ["y"])], 25, "opset 25"),
        ([node("Relu", ["nowhere"], ["y"])], 17, "not a valid ONNX model"),
        ([node("Relu", ["x"], ["y"], strength=3)], 17, "not a valid ONNX model"),
        ([node("Identity", ["k"], ["y"])], 17, "does not depend on the input"),
        ([node("Reshape", ["x", "k"], ["y"])], 17, r"node #0 \(Reshape\)"),
        ([node("ConstantOfShape", ["big"], ["b"]), node("Add", ["x", "b"], ["y"])], 17, "requests a tensor"),
        ([node("Tile", ["x", "big"], ["y"])], 17, "requests a tensor"),
        ([node("Conv", ["x", "w"], ["y"], pads=[10**6] * 3 + [10**6 + 1])], 17, "requests a tensor"),
        ([node("Pad", ["x", "pads"], ["y"], mode="wrap")], 19, "mode wrap; export"),
        ([node("Resize", ["x", "", "half"], ["y"], antialias=1, mode="linear")], 18, "antialias"),
        ([node("Cast", ["x"], ["y"], to=8)], 17, "casts to type 8"),
        ([node("Split", ["x", "k"], ["y", "z"], axis=1)], 17, "Split"),
    ],
)
def test_bad_graphs(nodes: list[Any], opset: int, match: str, tmp_path: Path, write_onnx: Callable[..., Path]) -> None:
    weights = {
        "k": [5],
        "big": [1, 10**6, 10**6, 1],
        "pads": [1] * 8,
        "half": [1.0, 1.0, 0.5, 0.5],
        "w": np.ones((2, 4, 1, 1), np.float32),
        "s": np.ones(5, np.float32),
    }
    refused(write_onnx(tmp_path / "m.onnx", nodes, [1, 4, 5, 5], weights, opset), match)


def test_bad_inputs(tmp_path: Path, write_onnx: Callable[..., Path]) -> None:
    path, relu = tmp_path / "m.onnx", [node("Relu", ["x"], ["y"])]
    refused(write_onnx(path, relu, []), "no shape")
    refused(write_onnx(path, relu, [1, 3, 10**5, 10**5]), "too large")
    refused(write_onnx(path, [node("Neg", ["x"], ["y"])], [1, 3], kind=TensorProto.INT64), "floating-point")
    refused(write_onnx(path, [node("Reshape", ["x", "k"], ["y"])], [4, 3], {"k": [4, 3]}), "batch of 4")
    refused(write_onnx(path, relu, [1, 3], {"x": [[1.0, 2.0, 3.0]]}), "one input, this one has 0")
    model = onnx.load(write_onnx(path, relu, [1, 3]))
    model.graph.input.append(helper.make_tensor_value_info("second", TensorProto.FLOAT, [1]))
    path.write_bytes(model.SerializeToString())
    refused(path, "one input, this one has 2")
    module = OnnxModule(write_onnx(path, relu, [1, 3]))
    for wrong in (torch.rand(3), torch.rand(2, 4), torch.rand(2, 3, 1)):
        with pytest.raises(CardError, match="the model takes"):
            module(wrong)


def test_damaged_bytes_never_crash(onnx_graphs: dict[str, Any], write_graph: Callable[[str], Path]) -> None:
    for name in onnx_graphs:
        path = write_graph(name)
        good = path.read_bytes()
        for _ in range(20):
            damaged = bytearray(good)
            damaged[RNG.integers(len(good))] = RNG.integers(256)
            path.write_bytes(damaged)
            with contextlib.suppress(CardError):
                OnnxModule(path)


def test_subgraphs_are_refused(tmp_path: Path, write_onnx: Callable[..., Path]) -> None:
    branch = helper.make_graph([node("Relu", ["x"], ["b"])], "b", [], [helper.make_tensor_value_info("b", 1, None)])
    nodes = [node("If", ["k"], ["y"], then_branch=branch, else_branch=branch)]
    refused(write_onnx(tmp_path / "m.onnx", nodes, [1, 3], {"k": True}), "not supported: If")


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/passwd", "link.bin", "absent.bin", ""])
def test_external_data_stays_beside_the_model(location: str, tmp_path: Path, write_onnx: Callable[..., Path]) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(12))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    path = write_onnx(folder / "m.onnx", [node("Add", ["x", "w"], ["y"])], [1, 3], {"w": [1.0, 2.0, 3.0]})
    model = onnx.load(path)

    def write(where: str) -> None:
        tensor = model.graph.initializer[0]
        tensor.raw_data = b"replaced"
        onnx.external_data_helper.set_external_data(tensor, where, 0, 12)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        path.write_bytes(model.SerializeToString())

    write(location)
    refused(path, "external data")
    (folder / "w.bin").write_bytes(np.array([1, 2, 3], np.float32).tobytes())
    write("w.bin")
    assert OnnxModule(path)(torch.zeros(1, 3)).tolist() == [[1, 2, 3]]


def test_onnx_not_installed(write_graph: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "onnx":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    path = write_graph("cnn")
    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingDependencyError, match=r"pip install 'dualshield\[onnx\]'"):
        OnnxModule(path)
