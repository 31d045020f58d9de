"""C-PDNA (CertPHash, USENIX Security 2025): a small ResNet trained certifiably to reproduce PhotoDNA's bytes.

Its 144 outputs y stand for bytes: the authors round, clip negative values, and match if the L1 distance is below 1800.
The bits here are the thermometer code of the bytes,

    bit (i, k) = y_i > k - 1/2,    k = 1 ... 255,

because its Hamming distance is exactly the L1 distance of the bytes: nothing of the authors' rule is lost, margins are
affine in y, and the bitwise majority of several codes is the median of their bytes, the best consensus in L1. A single
threshold per entry (such as y > 127.5) would reduce the rule's input to 144 bits.
"""

from __future__ import annotations

import torch
from torch import nn

from dualshield.hashes.native_rule import NativeRule, l1
from dualshield.hashes.zoo.certphash import CertPHash
from dualshield.images.frontend import IMAGENET_MEAN, IMAGENET_STD, FrontEnd

SIDE, ENTRIES, LEVELS = 64, 144, 255
NATIVE_LIMIT = 1800
BITS = ENTRIES * LEVELS


class Block(nn.Module):
    """Convolution, ReLU, convolution, plus a shortcut; no activation after the sum."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.shortcut = nn.Sequential()
        if stride > 1 or inside != outside:
            self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner: torch.Tensor = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        shortcut: torch.Tensor = self.shortcut(x)
        return inner + shortcut


class CPdnaNet(nn.Module):
    """Maps features ``(batch, 3, 64, 64)`` to 144 numbers; ends in two linear layers without activation between."""

    def __init__(
        self, widths: tuple[int, int, int] = (32, 64, 64), hidden: int = 512, entries: int = ENTRIES, side: int = SIDE
    ) -> None:
        super().__init__()
        first, middle, last = widths
        self.conv1 = nn.Conv2d(3, first, 3, 2, bias=False)
        self.bn1 = nn.BatchNorm2d(first)
        self.layer1 = nn.Sequential(Block(first, middle, 2), Block(middle, middle, 1), Block(middle, middle, 1))
        self.layer2 = nn.Sequential(Block(middle, last, 2), Block(last, last, 1), Block(last, last, 1))
        self.linear1 = nn.Linear(last * (side // 8) ** 2, hidden)
        self.linear2 = nn.Linear(hidden, entries)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        x = self.layer2(self.layer1(torch.relu(self.bn1(self.conv1(features)))))
        entries: torch.Tensor = self.linear2(self.linear1(x.flatten(1)))
        return entries


class Thermometer(nn.Module):
    """Maps entries ``(batch, n)`` to margins ``(batch, 255 n)``: each minus 0.5, 1.5, ... 254.5."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: torch.Tensor
        self.register_buffer("levels", torch.arange(LEVELS) + 0.5)

    def forward(self, entries: torch.Tensor) -> torch.Tensor:
        return (entries[:, :, None] - self.levels).flatten(1)


def entries_of(margins: torch.Tensor) -> torch.Tensor:
    """Recover the network's outputs from the margins of the first level."""
    return margins[..., ::LEVELS] + 0.5


def rounded(entries: torch.Tensor) -> torch.Tensor:
    """Round to bytes as the authors do, except that values above 255 stay at 255 (the authors' wrap around)."""
    return entries.round().clamp(0, LEVELS)


def _bytes(margins: torch.Tensor) -> torch.Tensor:
    return rounded(entries_of(margins))


NATIVE = NativeRule("an L1 distance of bytes below 1800", _bytes, l1, NATIVE_LIMIT)
C_PDNA = CertPHash(
    name="c-pdna",
    about="CertPHash's C-PDNA: a certifiably trained 64 x 64 network for PhotoDNA's bytes",
    bits=BITS,
    front_end=FrontEnd.identity().resize(SIDE, SIDE).normalise(IMAGENET_MEAN, IMAGENET_STD),
    net=CPdnaNet,
    margins=Thermometer,
    native=NATIVE,
    # The authors' rule: L1 below 1800 is a Hamming distance of at most 1799 here.
    threshold=(NATIVE_LIMIT - 1) / BITS,
)
build, load = C_PDNA.build, C_PDNA.load
