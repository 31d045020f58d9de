"""A network as a list of convolutions, ReLUs and sums in float64, in the order of computation.

A linear layer is a convolution whose kernel covers its whole input. Batch norm in evaluation mode is folded into the
convolution before it. So one kind of affine layer is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import nn

from dualshield.errors import InputError
from dualshield.hashes.zoo.c_pdna import Block, CPdnaNet, Thermometer, rounded
from dualshield.hashes.zoo.c_pdq import MIDDLE, CPdqNet
from dualshield.verification.patch import Patch

Shape = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Conv:
    """An affine layer from ``(c, h, w)`` to ``(o, h', w')``."""

    weight: torch.Tensor
    bias: torch.Tensor
    stride: int
    padding: int
    inside: Shape
    bias_size: torch.Tensor  # sum of the absolute values behind the bias, which bounds its rounding error

    @property
    def outside(self) -> Shape:
        height, width = (
            (size + 2 * self.padding - kernel) // self.stride + 1
            for size, kernel in zip(self.inside[1:], self.weight.shape[2:], strict=True)
        )
        return self.weight.shape[0], height, width

    @property
    def terms(self) -> int:
        """The largest number of terms in one sum, forward or backward."""
        return max(self.weight[0].numel(), self.weight[:, 0].numel()) + 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x[None], self.weight, self.bias, self.stride, self.padding)[0]

    def linear(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``W x``, without the bias."""
        return F.conv2d(x[None], self.weight, None, self.stride, self.padding)[0]

    def spread(self, deviation: torch.Tensor) -> torch.Tensor:
        """Return ``|W| deviation``: the largest moves of the outputs if each input moves by up to ``deviation``."""
        return F.conv2d(deviation[None], self.weight.abs(), None, self.stride, self.padding)[0]

    def backward(self, rows: Patch) -> Patch:
        """Return ``rows W`` in the precision of ``rows``, for their window only, without the padding."""
        weight = self._weight(rows.values.dtype)
        if rows.values.shape[2:] == (1, 1):
            values = (rows.values.flatten(1) @ weight.flatten(1)).view(-1, *weight.shape[1:])
        else:
            values = F.conv_transpose2d(rows.values, weight, stride=self.stride)
        patch = Patch(values, rows.top * self.stride - self.padding, rows.left * self.stride - self.padding)
        return patch.clipped(*self.inside[1:])

    def _weight(self, dtype: torch.dtype) -> torch.Tensor:
        return self.weight if dtype == torch.float64 else self._weight32

    @cached_property
    def _weight32(self) -> torch.Tensor:
        return self.weight.float()


@dataclass(frozen=True, eq=False)
class Node:
    """One step of a program: an affine layer, a ReLU (no layer, one source) or a sum (two sources)."""

    sources: tuple[int, ...]
    shape: Shape
    conv: Conv | None = None

    @property
    def is_relu(self) -> bool:
        return self.conv is None and len(self.sources) == 1


class Program:
    """The nodes of a network in order; node 0 is the input, the last node the output."""

    def __init__(self, inside: Shape, post: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self.nodes: list[Node] = [Node((), inside)]
        self.post = post  # maps outputs to the entries of the hash; non-decreasing

    @property
    def last(self) -> int:
        """The index of the last node."""
        return len(self.nodes) - 1

    def conv(self, layer: nn.Module, norm: nn.BatchNorm2d | None = None, source: int | None = None) -> int:
        """Append a convolution or linear layer with the batch norm after it; return its index."""
        source = self.last if source is None else source
        conv = _affine(layer, norm, self.nodes[source].shape)
        return self._add(Node((source,), conv.outside, conv))

    def relu(self) -> int:
        """Append a ReLU of the last node; return its index."""
        return self._add(Node((self.last,), self.nodes[-1].shape))

    def sum(self, one: int, two: int) -> int:
        """Append the sum of two nodes; return its index."""
        return self._add(Node((one, two), self.nodes[one].shape))

    def _add(self, node: Node) -> int:
        self.nodes.append(node)
        return self.last

    def run(self, x: torch.Tensor) -> torch.Tensor:
        """Return the outputs ``(n,)`` for one input, in float64."""
        return self.values(x)[-1].flatten()

    def values(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Return the values of all nodes for one input, in float64."""
        values = [x.double()]
        for node in self.nodes[1:]:
            given = [values[source] for source in node.sources]
            if node.conv is not None:
                values.append(node.conv.forward(given[0]))
            else:
                values.append(given[0].relu() if node.is_relu else given[0] + given[1])
        return values


def _affine(layer: nn.Module, norm: nn.BatchNorm2d | None, inside: Shape) -> Conv:
    if isinstance(layer, nn.Linear):
        weight = layer.weight.detach().double().view(layer.out_features, *inside)
        bias = layer.bias.detach().double()
        return Conv(weight, bias, 1, 0, inside, bias.abs())
    if not isinstance(layer, nn.Conv2d) or not _is_plain(layer):
        raise InputError(f"the verifier does not know the layer {layer}; use the network of c-pdq or c-pdna")
    weight = layer.weight.detach().double()
    bias = weight.new_zeros(len(weight)) if layer.bias is None else layer.bias.detach().double()
    size = bias.abs()
    if norm is not None:
        assert norm.running_mean is not None
        assert norm.running_var is not None
        scale = norm.weight.detach().double() / (norm.running_var.double() + norm.eps).sqrt()
        weight = weight * scale[:, None, None, None]
        mean, shift = norm.running_mean.double(), norm.bias.detach().double()
        bias, size = (bias - mean) * scale + shift, (size + mean.abs()) * scale.abs() + shift.abs()
    return Conv(weight, bias, layer.stride[0], int(layer.padding[0]), inside, size)


def _is_plain(layer: nn.Conv2d) -> bool:
    """Whether a convolution has one stride, one zero padding, and no groups or dilation."""
    same = layer.stride[0] == layer.stride[1] and layer.padding[0] == layer.padding[1]
    named = isinstance(layer.padding, str) or layer.padding_mode != "zeros"
    return same and not named and layer.groups == 1 and layer.dilation == (1, 1)


def program_of(network: nn.Module, inside: Shape) -> Program:
    """Return the program of a supported network: C-PDQ or C-PDNA."""
    if isinstance(network, CPdqNet):
        return _c_pdq(network, inside)
    if isinstance(network, nn.Sequential) and [type(layer) for layer in network] == [CPdnaNet, Thermometer]:
        assert isinstance(network[0], CPdnaNet)
        return _c_pdna(network[0], inside)
    raise InputError("only c-pdq and c-pdna can be verified; certify other hashes by smoothing (dualshield match)")


def _c_pdq(net: CPdqNet, inside: Shape) -> Program:
    program = Program(inside, lambda outputs: (outputs > MIDDLE).double())
    program.conv(net[0])
    program.relu()
    for first, skip, second in net.blocks():
        start = program.last
        program.conv(first)
        program.relu()
        inner = program.conv(second)
        program.sum(inner, program.conv(skip, source=start))
        program.relu()
    program.conv(net[-3])
    program.relu()
    program.conv(net[-1])
    return program


def _c_pdna(net: CPdnaNet, inside: Shape) -> Program:
    program = Program(inside, rounded)
    program.conv(net.conv1, net.bn1)
    program.relu()
    for block in (*net.layer1, *net.layer2):
        assert isinstance(block, Block)
        start = program.last
        program.conv(block.conv1, block.bn1)
        program.relu()
        inner = program.conv(block.conv2, block.bn2)
        if len(block.shortcut):
            layer, norm = block.shortcut
            assert isinstance(norm, nn.BatchNorm2d)
            start = program.conv(layer, norm, source=start)
        program.sum(inner, start)
    program.conv(net.linear1)
    program.conv(net.linear2)
    return program
