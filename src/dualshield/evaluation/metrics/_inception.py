"""The Inception-v3 network that defines FID: the graph that Google published on 2015-12-05, up to ``pool_3``.

It differs from later Inception-v3 checkpoints: normalisation has no scale, average pools leave the padding out of the
mean, and the last block uses max pooling. Layers are named as in the TorchScript archive of the weights.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import nn

from dualshield.weights import load_strict

SIDE, FEATURES = 299, 2048
PREFIX = "net.layers."
EPSILON = 1e-3


class Conv(nn.Conv2d):
    """A convolution, then a normalisation without scale, then a ReLU."""

    beta: torch.Tensor
    mean: torch.Tensor
    var: torch.Tensor

    def __init__(
        self, inside: int, outside: int, kernel: int | tuple[int, int] = 1, *, stride: int = 1, pad: bool = True
    ) -> None:
        size = (kernel, kernel) if isinstance(kernel, int) else kernel
        super().__init__(inside, outside, size, stride, (size[0] // 2, size[1] // 2) if pad else 0, bias=False)
        for name in ("beta", "mean", "var"):
            self.register_buffer(name, torch.zeros(outside))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(super().forward(x), self.mean, self.var, None, self.beta, eps=EPSILON).relu_()


class Average(nn.AvgPool2d):
    """Mean of the 3 x 3 neighbours that are inside the image."""

    def __init__(self) -> None:
        super().__init__(3, 1, 1, count_include_pad=False)


class Chain(nn.Sequential):
    """Layers applied in sequence; the convolutions are named ``conv``, ``conv_1``, ``conv_2`` ..."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        convolutions = 0
        for place, layer in enumerate(layers):
            if isinstance(layer, Conv):
                self.add_module(f"conv_{convolutions}" if convolutions else "conv", layer)
                convolutions += 1
            else:
                self.add_module(f"pool_{place}", layer)


class Branches(nn.Module):
    """Parallel layers whose outputs are concatenated along the channels."""

    def __init__(self, **branches: nn.Module) -> None:
        super().__init__()
        for name, branch in branches.items():
            self.add_module(name, branch)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self.children()], 1)


class Split(nn.Module):
    """One of the last two blocks, whose branches split into a horizontal and a vertical filter."""

    def __init__(self, inside: int, pool: nn.Module) -> None:
        super().__init__()
        self.conv = Conv(inside, 320)
        self.tower_conv = Conv(inside, 384)
        self.tower_mixed_conv = Conv(384, 384, (1, 3))
        self.tower_mixed_conv_1 = Conv(384, 384, (3, 1))
        self.tower_1_conv = Conv(inside, 448)
        self.tower_1_conv_1 = Conv(448, 384, 3)
        self.tower_1_mixed_conv = Conv(384, 384, (1, 3))
        self.tower_1_mixed_conv_1 = Conv(384, 384, (3, 1))
        self.tower_2_pool = pool
        self.tower_2_conv = Conv(inside, 192)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.tower_conv(x), self.tower_1_conv_1(self.tower_1_conv(x))
        return torch.cat(
            [
                self.conv(x),
                self.tower_mixed_conv(a),
                self.tower_mixed_conv_1(a),
                self.tower_1_mixed_conv(b),
                self.tower_1_mixed_conv_1(b),
                self.tower_2_conv(self.tower_2_pool(x)),
            ],
            1,
        )


def _fine(inside: int, pooled: int) -> Branches:
    return Branches(
        conv=Conv(inside, 64),
        tower=Chain(Conv(inside, 48), Conv(48, 64, 5)),
        tower_1=Chain(Conv(inside, 64), Conv(64, 96, 3), Conv(96, 96, 3)),
        tower_2=Chain(Average(), Conv(inside, pooled)),
    )


def _middle(width: int) -> Branches:
    across, down = (1, 7), (7, 1)
    return Branches(
        conv=Conv(768, 192),
        tower=Chain(Conv(768, width), Conv(width, width, across), Conv(width, 192, down)),
        tower_1=Chain(
            Conv(768, width),
            Conv(width, width, down),
            Conv(width, width, across),
            Conv(width, width, down),
            Conv(width, 192, across),
        ),
        tower_2=Chain(Average(), Conv(768, 192)),
    )


class InceptionNet(nn.Module):
    """Maps images ``(batch, 3, 299, 299)`` in [-1, 1) to features ``(batch, 2048)``."""

    def __init__(self) -> None:
        super().__init__()
        stem = Chain(
            Conv(3, 32, 3, stride=2, pad=False),
            Conv(32, 32, 3, pad=False),
            Conv(32, 64, 3),
            nn.MaxPool2d(3, 2),
            Conv(64, 80),
            Conv(80, 192, 3, pad=False),
            nn.MaxPool2d(3, 2),
        )
        blocks = [
            _fine(192, 32),
            _fine(256, 64),
            _fine(288, 64),
            Branches(
                conv=Conv(288, 384, 3, stride=2, pad=False),
                tower=Chain(Conv(288, 64), Conv(64, 96, 3), Conv(96, 96, 3, stride=2, pad=False)),
                pool=nn.MaxPool2d(3, 2),
            ),
            *map(_middle, (128, 160, 160, 192)),
            Branches(
                tower=Chain(Conv(768, 192), Conv(192, 320, 3, stride=2, pad=False)),
                tower_1=Chain(
                    Conv(768, 192),
                    Conv(192, 192, (1, 7)),
                    Conv(192, 192, (7, 1)),
                    Conv(192, 192, 3, stride=2, pad=False),
                ),
                pool=nn.MaxPool2d(3, 2),
            ),
            Split(1280, Average()),
            Split(2048, nn.MaxPool2d(3, 1, 1)),
        ]
        for name, layer in stem.named_children():
            self.add_module(name, layer)
        for place, block in enumerate(blocks):
            self.add_module(f"mixed_{place}" if place else "mixed", block)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # These convolutions are fastest on a CPU in this memory layout.
        x = x.contiguous(memory_format=torch.channels_last)
        for layer in self.children():
            x = layer(x)
        return x.mean((2, 3))


def build(state: Mapping[str, torch.Tensor], file: str) -> InceptionNet:
    """Return the network with the weights of the archive."""
    net = InceptionNet()
    load_strict(net, {key.removeprefix(PREFIX): value for key, value in state.items()}, "fid", file)
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return net.eval().requires_grad_(False)
