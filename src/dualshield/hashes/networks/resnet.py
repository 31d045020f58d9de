"""Bottleneck ResNets and ResNeXts without pooling; layers are named and ordered as in torchvision."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

EXPANSION = 4


@dataclass(frozen=True)
class ResNetShape:
    """Blocks per stage, groups of the 3 x 3 convolutions, and the width of a group in the first stage."""

    blocks: tuple[int, int, int, int]
    groups: int = 1
    group_width: int = 64
    stem: int = 64

    @property
    def features(self) -> int:
        """Channels of the last stage."""
        return self.stem * 8 * EXPANSION


RESNET50 = ResNetShape((3, 4, 6, 3))
RESNEXT101_32X4D = ResNetShape((3, 4, 23, 3), groups=32, group_width=4)


class Bottleneck(nn.Module):
    """Convolutions of 1 x 1, 3 x 3 (with the stride) and 1 x 1, plus a shortcut."""

    def __init__(self, inside: int, middle: int, outside: int, stride: int, groups: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, middle, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(middle)
        self.conv2 = nn.Conv2d(middle, middle, 3, stride, padding=1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(middle)
        self.conv3 = nn.Conv2d(middle, outside, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outside)
        self.downsample: nn.Module | None = None
        if stride > 1 or inside != outside:
            self.downsample = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.bn1(self.conv1(x)))
        inner = self.bn3(self.conv3(torch.relu(self.bn2(self.conv2(inner)))))
        return torch.relu(inner + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """Maps images ``(batch, 3, h, w)`` to ``(batch, features, h/32, w/32)``; the caller applies ``fc``."""

    def __init__(self, shape: ResNetShape, outputs: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, shape.stem, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(shape.stem)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        inside = shape.stem
        for stage, count in enumerate(shape.blocks):
            middle = shape.groups * shape.group_width * 2**stage
            outside = shape.stem * 2**stage * EXPANSION
            layers = []
            for i in range(count):
                layers.append(Bottleneck(inside, middle, outside, 2 if stage and not i else 1, shape.groups))
                inside = outside
            self.add_module(f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(shape.features, outputs)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x: torch.Tensor = self.maxpool(torch.relu(self.bn1(self.conv1(images))))
        for stage in range(1, 5):
            x = self.get_submodule(f"layer{stage}")(x)
        return x
