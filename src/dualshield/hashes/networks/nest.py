"""The nested transformer of HybridHash: attention within blocks of the image, and modules that mix blocks.

Details that checkpoints depend on and that are easy to get wrong:

* heads are merged channel-major: channel c of head h becomes channel ``c * heads + h``;
* the interaction attention reshapes ``(channels, h, w)`` to ``(h w, channels)`` without a transpose, so a token there
  is a run of consecutive numbers and not a place in the image;
* pooling is padded symmetrically, unlike in the original NesT.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from dualshield.hashes.networks.vit import Mlp

INTERACTION_HEADS = 8


@dataclass(frozen=True)
class NestShape:
    """Sizes of the network; the defaults are those of HybridHash."""

    widths: tuple[int, ...] = (128, 256, 512)
    depths: tuple[int, ...] = (2, 2, 15)
    heads: tuple[int, ...] = (4, 8, 16)
    patch: int = 4
    block: int = 14
    epsilon: float = 1e-6

    @property
    def side(self) -> int:
        """Pixels along one side of the image; the last level is one block, and each earlier level is twice as wide."""
        return self.patch * self.block * self.blocks(0)

    def blocks(self, level: int) -> int:
        """Return the number of blocks along one side of a level."""
        return 1 << (len(self.widths) - 1 - level)


def attend(qkv: torch.Tensor, heads: int) -> torch.Tensor:
    """Return the attention over tokens ``(batch, n, 3 * width)``, with heads merged channel-major."""
    batch, tokens, triple = qkv.shape
    width = triple // 3
    q, k, v = qkv.reshape(batch, tokens, 3, heads, width // heads).permute(2, 0, 3, 1, 4).unbind(0)
    return F.scaled_dot_product_attention(q, k, v).permute(0, 2, 3, 1).reshape(batch, tokens, width)


class BlockAttention(nn.Module):
    """Self-attention among the tokens of one block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.proj(attend(self.qkv(x), self.heads))  # type: ignore[no-any-return]


class Layer(nn.Module):
    """A pre-norm transformer layer: attention and MLP, each with a residual connection."""

    def __init__(self, width: int, heads: int, epsilon: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=epsilon)
        self.attn = BlockAttention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=epsilon)
        self.mlp = Mlp(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))  # type: ignore[no-any-return]


class WholeImageAttention(nn.Module):
    """Attention between the averages of all blocks, upsampled to the image again."""

    def __init__(self, width: int, block: int, side: int) -> None:
        super().__init__()
        self.block, self.side = block, side
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)
        self.pos_embed_glo = nn.Parameter(torch.zeros(1, side**2, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        averages = F.avg_pool2d(x, self.block)
        width = averages.shape[1]
        tokens = averages.reshape(-1, self.side**2, width) + self.pos_embed_glo
        mixed = self.proj(attend(self.qkv(tokens), INTERACTION_HEADS))
        image = mixed.reshape(-1, self.side, self.side, width).permute(0, 3, 1, 2)
        return F.interpolate(image, scale_factor=float(self.block), mode="bilinear", align_corners=False)


class Interaction(nn.Module):
    """The step between two levels: local convolution plus global attention, pooled to half the side."""

    def __init__(self, inside: int, outside: int, shape: NestShape, side: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inside, outside, 3, padding=1)
        self.conv_glo = nn.Conv2d(inside, outside, 1, bias=False)
        self.global_attention = WholeImageAttention(outside, shape.block, side)
        self.norm = nn.LayerNorm(outside, eps=shape.epsilon)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed = self.conv(x) + self.global_attention(self.conv_glo(x))
        return self.pool(self.norm(mixed.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))  # type: ignore[no-any-return]


class Level(nn.Module):
    """One level: maps the feature image of the previous level to its own."""

    def __init__(self, shape: NestShape, level: int) -> None:
        super().__init__()
        width = shape.widths[level]
        self.block, self.blocks = shape.block, shape.blocks(level)
        self.pos_embed = nn.Parameter(torch.zeros(1, self.blocks**2, shape.block**2, width))
        self.pool: nn.Module = nn.Identity()
        if level:
            self.pool = Interaction(shape.widths[level - 1], width, shape, 2 * self.blocks)
        self.transformer_encoder = nn.Sequential(
            *(Layer(width, shape.heads[level], shape.epsilon) for _ in range(shape.depths[level]))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(x).permute(0, 2, 3, 1)
        n, size, width = self.blocks, self.block, x.shape[-1]
        tokens = x.reshape(-1, n, size, n, size, width).transpose(2, 3).reshape(-1, n * n, size * size, width)
        # Each block is a batch entry, so blocks do not attend to each other here.
        tokens = self.transformer_encoder((tokens + self.pos_embed).flatten(0, 1))
        image = tokens.reshape(-1, n, n, size, size, width).transpose(2, 3).reshape(-1, n * size, n * size, width)
        return image.permute(0, 3, 1, 2)  # type: ignore[no-any-return]
