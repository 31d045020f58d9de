"""Element-wise operators."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor

from dualshield.hashes.external.onnx._node import (
    DTYPES,
    OPERATORS,
    Node,
    OperatorError,
    Result,
    on_one_device,
    operator,
)


def _unary(function: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda node, x: function(x)


def _binary(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda node, a, b: function(*on_one_device(a, b))


def _variadic(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda node, *values: reduce(function, on_one_device(*values))


def _divide(a: Tensor, b: Tensor) -> Tensor:
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "Abs": torch.abs, "Ceil": torch.ceil, "Cos": torch.cos, "Erf": torch.erf, "Exp": torch.exp,
    "Floor": torch.floor, "Identity": lambda x: x, "Log": torch.log, "Neg": torch.neg,
    "Not": torch.logical_not, "Reciprocal": torch.reciprocal, "Relu": torch.relu,
    "Round": torch.round, "Sigmoid": torch.sigmoid, "Sign": torch.sign, "Sin": torch.sin,
    "Softplus": F.softplus, "Sqrt": torch.sqrt, "Tanh": torch.tanh,
    "HardSwish": lambda x: x * torch.clamp(x / 6 + 0.5, 0, 1),
}  # fmt: skip
BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Add": torch.add, "And": torch.logical_and, "Div": _divide, "Equal": torch.eq,
    "Greater": torch.gt, "GreaterOrEqual": torch.ge, "Less": torch.lt, "LessOrEqual": torch.le,
    "Mul": torch.mul, "Or": torch.logical_or, "Sub": torch.sub,
    "PRelu": lambda x, slope: torch.where(x < 0, x * slope, x),
    "Pow": lambda x, power: torch.pow(x, power).to(x.dtype),
}  # fmt: skip
VARIADIC: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Max": torch.maximum, "Min": torch.minimum, "Sum": torch.add,
}  # fmt: skip
WITH_ATTRIBUTES: dict[str, Callable[..., Tensor]] = {
    "Elu": lambda node, x: F.elu(x, node.real("alpha", 1.0)),
    "Gelu": lambda node, x: F.gelu(x, approximate=node.text("approximate", "none")),
    "HardSigmoid": lambda node, x: torch.clamp(node.real("alpha", 0.2) * x + node.real("beta", 0.5), 0, 1),
    "LeakyRelu": lambda node, x: F.leaky_relu(x, node.real("alpha", 0.01)),
    "Selu": lambda node, x: node.real("gamma", 1.050701022) * F.elu(x, node.real("alpha", 1.673263192)),
}
OPERATORS.update(WITH_ATTRIBUTES)
OPERATORS.update({name: _unary(function) for name, function in UNARY.items()})
OPERATORS.update({name: _binary(function) for name, function in BINARY.items()})
OPERATORS.update({name: _variadic(function) for name, function in VARIADIC.items()})


@operator("Clip")
def _clip(node: Node, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    if low is None and "min" in node.attrs:
        low = x.new_tensor(node.attrs["min"])
    if high is None and "max" in node.attrs:
        high = x.new_tensor(node.attrs["max"])
    if low is None and high is None:
        return x
    return torch.clamp(x, min=low, max=high)


@operator("Where")
def _where(node: Node, condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    condition, yes, no = on_one_device(condition, yes, no)
    return torch.where(condition, yes, no)


@operator("Cast")
def _cast(node: Node, x: Tensor) -> Tensor:
    code = node.integer("to", 0)
    if code not in DTYPES:
        raise OperatorError(f"casts to type {code}")
    return x.to(DTYPES[code])


@operator("CastLike")
def _cast_like(node: Node, x: Tensor, like: Tensor) -> Tensor:
    return x.to(like.dtype)


@operator("Dropout")
def _dropout(node: Node, x: Tensor, *_training: Tensor | None) -> Result:
    return x, torch.ones_like(x, dtype=torch.bool)
