"""C-PDNA (CertPHash, USENIX Security 2025): a small ResNet that was trained, with bounds, to give PhotoDNA's bytes.

Its 144 outputs y stand for bytes: the authors round, cut off what is negative, and match by an L1 distance below 1800.
As bits we take the thermometer code of those bytes,

    bit (i, k) = y_i > k - 1/2,    k = 1 ... 255,

because its Hamming distance is the L1 distance of the bytes, exactly: nothing of the authors' rule is lost, margins are
affine in y, and the bitwise majority of several codes is the median of their bytes, the best consensus in L1. One
threshold per entry (y > 127.5, say) would keep 144 bits of what the rule looks at.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from dualshield.hashes.native_rule import NativeRule, l1
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.frontend import IMAGENET_MEAN, IMAGENET_STD, FrontEnd
from dualshield.weights import find, load_strict, read_state

SIDE, ENTRIES, LEVELS = 64, 144, 255
NATIVE_LIMIT = 1800
BITS = ENTRIES * LEVELS


class Block(nn.Module):
    """Convolution, ReLU, convolution, plus a shortcut; nothing after the sum."""

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
    """Features ``(batch, 3, 64, 64)`` to 144 numbers; two linear layers at the end with nothing between them."""

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
    """Entries ``(batch, n)`` to margins ``(batch, 255 n)``: each against 0.5, 1.5, ... 254.5."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: torch.Tensor
        self.register_buffer("levels", torch.arange(LEVELS) + 0.5)

    def forward(self, entries: torch.Tensor) -> torch.Tensor:
        return (entries[:, :, None] - self.levels).flatten(1)


def entries_of(margins: torch.Tensor) -> torch.Tensor:
    """The network's outputs again, from the margins against the first level."""
    return margins[..., ::LEVELS] + 0.5


def rounded(entries: torch.Tensor) -> torch.Tensor:
    """Bytes as the authors have them; above 255 theirs wrap around, ours stay at 255."""
    return entries.round().clamp(0, LEVELS)


def _bytes(margins: torch.Tensor) -> torch.Tensor:
    return rounded(entries_of(margins))


NATIVE = NativeRule("an L1 distance of bytes below 1800", _bytes, l1, NATIVE_LIMIT)


def build(state: Mapping[str, torch.Tensor], file: str = "checkpoint") -> CPdnaNet:
    """The network with the authors' weights."""
    net = CPdnaNet()
    load_strict(net, state, "c-pdna", file)
    return net


def load() -> PerceptualHash:
    """C-PDNA on the canonical image."""
    stored = find("c-pdna")
    net = build(read_state(stored.path, "c-pdna"), stored.weight.file)
    return PerceptualHash(
        name="c-pdna",
        version="1",
        bits=BITS,
        front_end=FrontEnd.identity().resize(SIDE, SIDE).normalise(IMAGENET_MEAN, IMAGENET_STD),
        network=nn.Sequential(net, Thermometer()),
        # The authors' rule: L1 below 1800 is a Hamming distance of at most 1799 here.
        threshold=(NATIVE_LIMIT - 1) / BITS,
        about="CertPHash's C-PDNA: a certifiably trained 64 x 64 network for PhotoDNA's bytes",
        weights={stored.weight.file: stored.sha256},
        native=NATIVE,
    )
