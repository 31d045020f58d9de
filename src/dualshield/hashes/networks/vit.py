"""Vision transformers: one module for DINO, DINOv2 with registers, SimDINO v1 and v2, and Google's ViT.

    patches --linear--> tokens + positions; class token and registers in front; pre-norm blocks; norm of the class token

Parameters are named as in the DINO family, so that its checkpoints load unchanged (vit_checkpoints converts others).
The position embedding is stored for one image size, so nothing is interpolated at run time.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

HEAD_WIDTH = 64
MLP_RATIO = 4
EPSILON = 1e-6


@dataclass(frozen=True)
class ViTShape:
    """Sizes of a vision transformer; all have heads of width 64.

    ``stored_grid`` is the grid of the checkpoint's position embedding, if it differs from that of ``side``.
    """

    width: int
    depth: int
    patch: int
    side: int = 224
    registers: int = 0
    layer_scale: bool = False
    stored_grid: int | None = None

    @property
    def grid(self) -> int:
        """Patches along one side of the image."""
        return self.side // self.patch


class Attention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        heads = width // HEAD_WIDTH
        q, k, v = self.qkv(x).reshape(batch, tokens, 3, heads, HEAD_WIDTH).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.proj(mixed.transpose(1, 2).reshape(batch, tokens, width))  # type: ignore[no-any-return]


class Mlp(nn.Module):
    """Two linear layers with an exact GELU between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, MLP_RATIO * width)
        self.fc2 = nn.Linear(MLP_RATIO * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(F.gelu(self.fc1(x)))  # type: ignore[no-any-return]


class LayerScale(nn.Module):
    """A learned factor per channel of a residual branch."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gamma


class Block(nn.Module):
    """A pre-norm transformer block: attention and MLP, each with a residual connection."""

    def __init__(self, width: int, layer_scale: bool) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=EPSILON)
        self.attn = Attention(width)
        self.ls1 = LayerScale(width) if layer_scale else nn.Identity()
        self.norm2 = nn.LayerNorm(width, eps=EPSILON)
        self.mlp = Mlp(width)
        self.ls2 = LayerScale(width) if layer_scale else nn.Identity()

    def forward(self, x: torch.Tensor, keep: int | None = None) -> torch.Tensor:
        """Return all tokens, or only the first ``keep``, which saves work if the others are not used."""
        x = x[:, :keep] + self.ls1(self.attn(self.norm1(x)))[:, :keep]
        return x + self.ls2(self.mlp(self.norm2(x)))  # type: ignore[no-any-return]


class PatchEmbed(nn.Module):
    """Maps non-overlapping patches to tokens, row by row."""

    def __init__(self, width: int, patch: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, width, patch, patch)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.proj(images).flatten(2).transpose(1, 2)  # type: ignore[no-any-return]


class ViT(nn.Module):
    """Maps images ``(batch, 3, side, side)`` to the normalised class token ``(batch, width)``."""

    def __init__(self, shape: ViTShape) -> None:
        super().__init__()
        width = shape.width
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + shape.grid**2, width))
        if shape.registers:
            self.register_tokens = nn.Parameter(torch.zeros(1, shape.registers, width))
        self.patch_embed = PatchEmbed(width, shape.patch)
        self.blocks = nn.ModuleList(Block(width, shape.layer_scale) for _ in range(shape.depth))
        self.norm = nn.LayerNorm(width, eps=EPSILON)
        self.has_registers = bool(shape.registers)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        front = self.cls_token + self.pos_embed[:, :1]
        if self.has_registers:
            # Registers come between class token and patches and have no position embedding.
            front = torch.cat([front, self.register_tokens], 1)
        patches = self.patch_embed(images) + self.pos_embed[:, 1:]
        x = torch.cat([front.expand(patches.shape[0], -1, -1), patches], 1)
        for block in self.blocks[:-1]:
            x = block(x)
        x = self.blocks[-1](x, keep=1)
        return self.norm(x[:, 0])  # type: ignore[no-any-return]
