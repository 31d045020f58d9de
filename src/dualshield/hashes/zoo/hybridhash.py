"""HybridHash (He and Wei, 2024): the nested transformer NesT-B with modules that mix its blocks, and a hash layer.

    224 x 224 --patches of 4--> 56 x 56 x 128 --level, interaction--> 28 x 28 x 256 --level, interaction-->
    14 x 14 x 512 --level, norm, hash layer--> margins;    the authors' output is tanh(margins), with the same signs

In a level, the tokens of each 14 x 14 block attend to each other (16, 4, then 1 block). It is a semantic hash: images
of one class get similar codes. The checkpoint determines the number of bits (16, 32, 48 or 64).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from dualshield.hashes.networks.nest import Level, NestShape, WholeImageAttention
from dualshield.hashes.networks.vit_checkpoints import unfilled
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.frontend import IMAGENET_MEAN, IMAGENET_STD, FrontEnd
from dualshield.weights.checkpoint import load_strict, read_state, weights_error
from dualshield.weights.store import find

NAME = "hybridhash"
SHAPE = NestShape()
RESIZED = 256
# Saved by some versions of the authors' code, but not used.
UNUSED = ("FcLayer.",)


class HashLayer(nn.Module):
    """Maps features to margins: strip convolutions plus one global token, pooled and averaged."""

    def __init__(self, width: int, block: int, bits: int) -> None:
        super().__init__()
        self.convS1 = nn.Conv2d(width, width, (1, 3), padding=(0, 1))
        self.convS2 = nn.Conv2d(width, width, (3, 1), padding=(1, 0))
        self.global_attention = WholeImageAttention(width, block, side=1)
        self.conv2 = nn.Conv2d(width, bits, 1)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed = self.convS2(self.convS1(x)) + self.global_attention(x)
        return self.conv2(self.pool(mixed)).mean((2, 3))  # type: ignore[no-any-return]


class PatchEmbed(nn.Module):
    """Maps patches to channels."""

    def __init__(self, width: int, patch: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, width, patch, patch)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.proj(images)  # type: ignore[no-any-return]


class HybridHash(nn.Module):
    """Maps images to margins; parameters have the authors' names."""

    def __init__(self, shape: NestShape, bits: int) -> None:
        super().__init__()
        self.patch_embed = PatchEmbed(shape.widths[0], shape.patch)
        self.levels = nn.Sequential(*(Level(shape, i) for i in range(len(shape.widths))))
        self.norm = nn.LayerNorm(shape.widths[-1], eps=shape.epsilon)
        self.hashlayer_train = HashLayer(shape.widths[-1], shape.block, bits)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.levels(self.patch_embed(images))
        x = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.hashlayer_train(x)  # type: ignore[no-any-return]


def build(state: Mapping[str, torch.Tensor], file: str = "the checkpoint") -> HybridHash:
    """Return the network with the weights of the authors' state_dict."""
    weight = state.get("hashlayer_train.conv2.weight", torch.empty(0))
    if weight.ndim != 4 or not weight.shape[0]:
        raise weights_error(
            NAME, file, "not the weights of this model; wrong or missing key: hashlayer_train.conv2.weight"
        )
    net = unfilled(HybridHash, SHAPE, weight.shape[0])
    load_strict(net, state, NAME, file, ignore=UNUSED)
    return net


def load() -> PerceptualHash:
    """Return HybridHash with the imported checkpoint."""
    stored = find(NAME)
    net = build(read_state(stored.path, NAME), stored.weight.file)
    bits = net.hashlayer_train.conv2.out_channels
    resized = FrontEnd.identity().resize(RESIZED, RESIZED).centre_crop(SHAPE.side, SHAPE.side)
    return PerceptualHash(
        name=NAME,
        version="1",
        bits=bits,
        front_end=resized.normalise(IMAGENET_MEAN, IMAGENET_STD),
        network=net,
        about=f"HybridHash: nested transformer with interaction modules, {bits} bits; a semantic hash",
        weights={stored.weight.file: stored.sha256},
    )
