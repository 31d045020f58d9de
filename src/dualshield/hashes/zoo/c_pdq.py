"""C-PDQ (CertPHash, USENIX Security 2025): a small ResNet trained certifiably to reproduce PDQ's bits.

Its input is 28 x 28 grey pixels in [0, 1], and it was trained on MNIST, so photos are far from its training data. Bits
are outputs above 1/2; the authors match if the L1 distance of the bits is below 90.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch
from torch import nn

from dualshield.hashes.native_rule import NativeRule, l1
from dualshield.hashes.zoo.certphash import CertPHash
from dualshield.images.frontend import FrontEnd

SIDE, BITS, MIDDLE = 28, 256, 0.5
NATIVE_LIMIT = 90
WIDTHS = ((16, 16), (16, 16), (16, 32), (32, 64))
HIDDEN = 1000


class Dense(nn.Module):
    """A sum of layers on the latest inputs, under the authors' key ``Ws``; None skips an input."""

    def __init__(self, *layers: nn.Module | None) -> None:
        super().__init__()
        self.Ws = nn.ModuleList(cast(list[nn.Module], list(layers)))


class CPdqNet(nn.Sequential):
    """Maps features ``(batch, 1, 28, 28)`` to 256 margins ``y - 1/2``; layers are numbered as by the authors.

    A block is convolution, ReLU, convolution, plus a skip convolution of the block's input, ReLU. In a block that
    widens, the first convolution and the skip convolution have stride 2.
    """

    def __init__(
        self, widths: tuple[tuple[int, int], ...] = WIDTHS, hidden: int = HIDDEN, bits: int = BITS, side: int = SIDE
    ) -> None:
        layers: list[nn.Module] = [nn.Conv2d(1, widths[0][0], 3, padding=3), nn.ReLU()]
        side += 4
        for inside, outside in widths:
            stride = 2 if outside > inside else 1
            first = nn.Conv2d(inside, outside, 2 + stride, stride, padding=1)
            skip = nn.Conv2d(inside, outside, stride, stride)
            layers += [Dense(first), nn.ReLU(), Dense(skip, None, nn.Conv2d(outside, outside, 3, padding=1)), nn.ReLU()]
            side //= stride
        features = widths[-1][1] * side**2
        layers += [nn.Flatten(), nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, bits)]
        super().__init__(*layers)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        x: torch.Tensor = torch.relu(self[0](features))
        for first, skip, second in self.blocks():
            x = torch.relu(second(torch.relu(first(x))) + skip(x))
        return self[-1](torch.relu(self[-3](x.flatten(1)))) - MIDDLE  # type: ignore[no-any-return]

    def blocks(self) -> Iterator[tuple[nn.Module, nn.Module, nn.Module]]:
        """Yield the first convolution, the skip convolution and the second convolution of each block."""
        sums = [layer.Ws for layer in self if isinstance(layer, Dense)]
        for one, two in zip(sums[::2], sums[1::2], strict=True):
            yield one[0], two[0], two[2]


def _bits(margins: torch.Tensor) -> torch.Tensor:
    return (margins > 0).float()


NATIVE = NativeRule("an L1 distance of bits below 90", _bits, l1, NATIVE_LIMIT)
C_PDQ = CertPHash(
    name="c-pdq",
    about="CertPHash's C-PDQ: a certifiably trained 28 x 28 network for PDQ's bits",
    bits=BITS,
    front_end=FrontEnd.identity().grey().resize(SIDE, SIDE),
    net=CPdqNet,
    native=NATIVE,
)
build, load = C_PDQ.build, C_PDQ.load
