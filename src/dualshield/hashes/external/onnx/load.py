"""Safe reading of ONNX files that may be damaged or hostile: no pickle, no code, no file outside the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dualshield._common.extras import require_extra
from dualshield.errors import CardError
from dualshield.hashes.external.onnx._node import DTYPES, OPERATORS, SEVERAL_OUTPUTS, SPARE_OUTPUTS, Node

ADVICE = "export the model as TorchScript instead"
OPSETS = range(9, 23)
MAX_IMAGE_ELEMENTS = 1 << 26


def refusal(path: Path, reason: str) -> CardError:
    """Return an error of one line; control characters from the file are replaced."""
    return CardError("".join(c if c.isprintable() else "?" for c in f"{path}: {reason}"))


def first_line(error: Exception) -> str:
    """Return the first line of an error, without the stack trace and advice that some libraries add."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def read_model(path: Path) -> Any:
    """Return the checked model in the file, with external data loaded."""
    with require_extra("onnx", "an ONNX model"):
        import onnx
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    if not path.is_file():
        raise refusal(path, f"{'not a file' if path.exists() else 'no such file'}; give an .onnx file")
    try:
        model = onnx.load(str(path), format="protobuf", load_external_data=False)
    except (OSError, DecodeError, ValueError) as error:
        raise refusal(path, "cannot be read as an ONNX model; download or export it again") from error
    if not model.graph.node or not model.graph.output:
        raise refusal(path, "not an ONNX model, or an empty one; download or export it again")
    _refuse_unknown(path, model)
    folder = path.parent.resolve()
    held = [attribute.t for node in model.graph.node for attribute in node.attribute]
    try:
        for tensor in [*model.graph.initializer, *held]:
            if onnx.external_data_helper.uses_external_data(tensor):
                _check_location(path, folder, tensor)
                onnx.external_data_helper.load_external_data_for_tensor(tensor, str(folder))
                # As onnx does after loading; the checker refuses tensors with both inline and external data.
                tensor.data_location = onnx.TensorProto.DEFAULT
                del tensor.external_data[:]
        for value in model.graph.output:
            value.type.tensor_type.shape.SetInParent()  # the checker requires it, exporters omit it
        onnx.checker.check_model(_without_deprecated(model))
    except CardError:
        raise
    except Exception as error:
        raise refusal(path, f"not a valid ONNX model: {first_line(error)}") from error
    return model


def _without_deprecated(model: Any) -> Any:
    """Return a copy for the checker, which refuses the well-defined GroupNormalization of opset 18 to 20."""
    if _opset(model) >= 21 or all(node.op_type != "GroupNormalization" for node in model.graph.node):
        return model
    copy = type(model)()
    copy.CopyFrom(model)
    for node in copy.graph.node:
        if node.op_type == "GroupNormalization":
            node.op_type = "Sum"
            del node.attribute[:]
    return copy


def _check_location(path: Path, folder: Path, tensor: Any) -> None:
    """Refuse external data outside the model's folder, also through links."""
    location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
    target = (folder / location).resolve()
    if not location or Path(location).is_absolute() or not target.is_relative_to(folder):
        raise refusal(path, f"external data outside the model's folder ({location!r}) is refused")
    if not target.is_file():
        raise refusal(path, f"the external data file {location!r} is missing; put it into the model's folder")


def _refuse_unknown(path: Path, model: Any) -> None:
    opset = _opset(model)
    if opset not in OPSETS:
        found = f"opset {opset}" if opset else "no opset"
        raise refusal(path, f"has {found}, DualShield supports {OPSETS[0]} to {OPSETS[-1]}; {ADVICE}")
    if model.functions or model.graph.sparse_initializer:
        raise refusal(path, f"local functions and sparse weights are not supported; {ADVICE}")
    unknown = set()
    nodes = _reachable(model, model.graph.output[0].name)
    used = {model.graph.output[0].name}.union(*(node.input for node in nodes))
    for node in nodes:
        spare = node.op_type in SPARE_OUTPUTS and used.isdisjoint(node.output[1:])
        if node.domain not in ("", "ai.onnx"):
            unknown.add(f"{node.domain}.{node.op_type}")
        elif node.op_type not in OPERATORS:
            unknown.add(str(node.op_type))
        elif any(node.output[1:]) and node.op_type not in SEVERAL_OUTPUTS and not spare:
            unknown.add(f"{node.op_type} with several outputs")
    if unknown:
        raise refusal(path, f"operators not supported: {', '.join(sorted(unknown))}; {ADVICE}")


def _opset(model: Any) -> int:
    return next((int(entry.version) for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)


def _reachable(model: Any, output: str) -> list[Any]:
    """Return the nodes that the output depends on, in order."""
    needed, kept = {output}, []
    for node in reversed(model.graph.node):
        if not needed.isdisjoint(node.output):
            needed.update(node.input)
            kept.append(node)
    return kept[::-1]


def input_of(path: Path, model: Any) -> tuple[str, tuple[int | None, ...], torch.dtype]:
    """Return name, shape and type of the one input that is not a weight."""
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    if len(inputs) != 1:
        raise refusal(path, f"a hash model has one input, this one has {len(inputs)}")
    kind = inputs[0].type.tensor_type
    dtype = DTYPES.get(kind.elem_type, torch.bool)
    if not dtype.is_floating_point:
        raise refusal(path, f"the input {inputs[0].name!r} is not of a floating-point type; {ADVICE}")
    shape = tuple(int(dim.dim_value) or None for dim in kind.shape.dim)
    if not shape:
        raise refusal(path, f"the input {inputs[0].name!r} has no shape with a batch dimension; {ADVICE}")
    if any(size is not None and size < 0 for size in shape) or _count(shape) > MAX_IMAGE_ELEMENTS:
        raise refusal(path, f"the input shape {shape} is impossible or too large")
    return inputs[0].name, shape, dtype


def _count(shape: tuple[int | None, ...]) -> int:
    total = 1
    for size in shape[1:]:
        total *= size or 1
    return total


def nodes_of(path: Path, model: Any, output: str) -> list[Node]:
    """Return the nodes that the output depends on, in order, with attributes as plain values."""
    opset, nodes = _opset(model), []
    for index, node in enumerate(_reachable(model, output)):
        attrs = {attribute.name: _attribute(path, attribute) for attribute in node.attribute}
        name = node.name or f"#{index}"
        outputs = tuple(node.output if node.op_type in SEVERAL_OUTPUTS else node.output[:1])
        nodes.append(Node(node.op_type, name, tuple(node.input), outputs, attrs, opset))
    return nodes


def _attribute(path: Path, attribute: Any) -> Any:
    from onnx import AttributeProto, helper

    if attribute.type == AttributeProto.TENSOR:
        return tensor_of(path, attribute.t)
    value = helper.get_attribute_value(attribute)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def tensor_of(path: Path, tensor: Any) -> Tensor:
    """Return a constant of the file as a tensor."""
    from onnx import numpy_helper

    if tensor.data_type not in DTYPES:
        raise refusal(path, f"constant {tensor.name!r} has an unsupported number type; {ADVICE}")
    try:
        return torch.from_numpy(np.array(numpy_helper.to_array(tensor)))
    except Exception as error:
        raise refusal(path, f"constant {tensor.name!r} is damaged; export the model again") from error
