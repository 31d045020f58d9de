"""A synthetic DINOHash in ONNX, node by node as the exporters of torch write DINOv2."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from onnx import TensorProto, helper, numpy_helper

from dualshield.hashes.networks.vit import ViTShape

INT_MAX = 2**63 - 1


class Graph:
    """Nodes and weights, with a name for every value."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def weight(self, value: Any) -> str:
        name = f"w{len(self.weights)}"
        array = value.numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        kind = np.float32 if array.dtype.kind == "f" else np.int64
        self.weights.append(numpy_helper.from_array(array.astype(kind), name))
        return name

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names if op == "Split" else names[0]

    def linear(self, x: str, weight: torch.Tensor, bias: torch.Tensor) -> str:
        return str(self.add("Add", self.add("MatMul", x, self.weight(weight.T.contiguous())), self.weight(bias)))

    def norm(self, x: str, state: dict[str, torch.Tensor], name: str) -> str:
        # The newer exporter names the statistics too, though nobody uses them.
        parts = (self.weight(state[f"{name}.weight"]), self.weight(state[f"{name}.bias"]))
        return str(self.add("LayerNormalization", x, *parts, outputs=3, axis=-1, epsilon=1e-6))


def dinohash_onnx(
    state: dict[str, torch.Tensor],
    shape: ViTShape,
    components: torch.Tensor,
    means: torch.Tensor,
    *,
    dynamic: bool,
    side: int | None = None,
) -> bytes:
    """The network with its projection as one ONNX file; ``dynamic`` for any batch size, else for one image.

    The two differ in how sizes are found, and in how attention is written.
    """
    graph, width, grid, stored = Graph(), shape.width, shape.grid, shape.stored_grid or shape.grid
    batch = graph.add("Shape", "input", start=0, end=1) if dynamic else graph.weight([1])
    patches = graph.add(
        "Conv",
        "input",
        graph.weight(state["patch_embed.proj.weight"]),
        graph.weight(state["patch_embed.proj.bias"]),
        strides=[shape.patch] * 2,
    )
    flat = graph.add("Concat", batch, graph.weight([width, grid * grid]), axis=0)
    tokens = graph.add("Transpose", graph.add("Reshape", patches, flat), perm=[0, 2, 1])
    whole = graph.add("Concat", batch, graph.weight([-1, width]), axis=0)
    front = graph.add("Expand", graph.weight(state["cls_token"]), whole_of(graph, batch, 1, width))
    x = graph.add("Concat", front, tokens, axis=1)
    x = graph.add("Add", x, _positions(graph, state["pos_embed"], stored, grid, width))
    registers = graph.add("Expand", graph.weight(state["register_tokens"]), whole_of(graph, batch, 4, width))
    ends = [graph.weight([value]) for value in (0, 1, INT_MAX)]
    first = graph.add("Slice", x, ends[0], ends[1], ends[1])
    rest = graph.add("Slice", x, ends[1], ends[2], ends[1])
    x = graph.add("Concat", first, registers, rest, axis=1)
    for i in range(shape.depth):
        x = _block(graph, x, state, f"blocks.{i}", batch, whole, width, dynamic=dynamic)
    x = graph.add("Gather", graph.norm(x, state, "norm"), graph.weight(0), axis=1)
    bias = -(components @ means)
    graph.nodes.append(
        helper.make_node("Gemm", [x, graph.weight(components), graph.weight(bias)], ["output"], transB=1)
    )
    size = side or shape.side
    taken = helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch" if dynamic else 1, 3, size, size])
    given = helper.make_tensor_value_info("output", TensorProto.FLOAT, None)
    model = helper.make_graph(graph.nodes, "synthetic", [taken], [given], graph.weights)
    imports = [helper.make_opsetid("", 18)]
    return bytes(helper.make_model(model, opset_imports=imports, ir_version=9).SerializeToString())


def whole_of(graph: Graph, batch: str, tokens: int, width: int) -> str:
    return str(graph.add("Concat", batch, graph.weight([tokens, width]), axis=0))


def _positions(graph: Graph, embedding: torch.Tensor, stored: int, grid: int, width: int) -> str:
    image = graph.add("Reshape", graph.weight(embedding[:, 1:]), graph.weight([1, stored, stored, width]))
    resized = graph.add(
        "Resize",
        graph.add("Transpose", image, perm=[0, 3, 1, 2]),
        "",
        "",
        graph.weight([1, width, grid, grid]),
        mode="cubic",
        cubic_coeff_a=-0.75,
        coordinate_transformation_mode="pytorch_half_pixel",
    )
    flat = graph.add("Reshape", graph.add("Transpose", resized, perm=[0, 2, 3, 1]), graph.weight([1, -1, width]))
    return str(graph.add("Concat", graph.weight(embedding[:, :1]), flat, axis=1))


def _block(
    graph: Graph,
    x: str,
    state: dict[str, torch.Tensor],
    name: str,
    batch: str,
    whole: str,
    width: int,
    *,
    dynamic: bool,
) -> str:
    def part(key: str) -> tuple[torch.Tensor, torch.Tensor]:
        return state[f"{name}.{key}.weight"], state[f"{name}.{key}.bias"]

    qkv = graph.linear(graph.norm(x, state, f"{name}.norm1"), *part("attn.qkv"))
    heads = graph.add("Concat", batch, graph.weight([-1, 3, width // 64, 64]), axis=0)
    qkv = graph.add("Transpose", graph.add("Reshape", qkv, heads), perm=[2, 0, 3, 1, 4])
    if dynamic:  # scaled_dot_product_attention: half of the scale on either side, its size found at run time
        pieces = graph.add("Split", qkv, outputs=3, axis=0, num_outputs=3)
        q, k, v = (graph.add("Squeeze", piece, graph.weight([0])) for piece in pieces)
        size = graph.add("Gather", graph.add("Shape", q), graph.weight([-1]))
        root = graph.add("Sqrt", graph.add("CastLike", size, q))
        scale = graph.add("Sqrt", graph.add("Div", graph.weight(1.0), root))
        q, k = graph.add("Mul", q, scale), graph.add("Mul", graph.add("Transpose", k, perm=[0, 1, 3, 2]), scale)
    else:  # DINOv2's own attention
        q, k, v = (graph.add("Gather", qkv, graph.weight(i), axis=0) for i in range(3))
        q, k = graph.add("Mul", q, graph.weight(64**-0.5)), graph.add("Transpose", k, perm=[0, 1, 3, 2])
    mixed = graph.add("MatMul", graph.add("Softmax", graph.add("MatMul", q, k), axis=-1), v)
    mixed = graph.add("Reshape", graph.add("Transpose", mixed, perm=[0, 2, 1, 3]), whole)
    branch = graph.add("Mul", graph.linear(mixed, *part("attn.proj")), graph.weight(state[f"{name}.ls1.gamma"]))
    x = graph.add("Add", x, branch)
    hidden = graph.linear(graph.norm(x, state, f"{name}.norm2"), *part("mlp.fc1"))
    risen = graph.add("Add", graph.add("Erf", graph.add("Div", hidden, graph.weight(math.sqrt(2)))), graph.weight(1.0))
    active = graph.add("Mul", graph.add("Mul", hidden, risen), graph.weight(0.5))
    branch = graph.add("Mul", graph.linear(active, *part("mlp.fc2")), graph.weight(state[f"{name}.ls2.gamma"]))
    return str(graph.add("Add", x, branch))
