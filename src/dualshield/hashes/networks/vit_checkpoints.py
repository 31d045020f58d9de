"""Conversion of vision transformer checkpoints: parameter names, and position embeddings of other image sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import nn

from dualshield.hashes.networks.vit import ViT, ViTShape
from dualshield.weights.checkpoint import load_strict, weights_error

# Prefixes that torch.compile and data parallelism add to parameter names.
WRAPPERS = ("_orig_mod.", "module.")
# Replaces masked patches in training only.
MASK_TOKEN = "mask_token"
# Google's names of the parts of a block -> the names here; q, k and v are one layer here.
GOOGLE_BLOCK = {"attention_norm": "norm1", "attn.out": "attn.proj", "ffn_norm": "norm2", "ffn.fc1": "mlp.fc1",
                "ffn.fc2": "mlp.fc2"}  # fmt: skip
GOOGLE_REST = {"embeddings.patch_embeddings": "patch_embed.proj", "encoder.encoder_norm": "norm"}

Module = TypeVar("Module", bound=nn.Module)
Tensors = dict[str, torch.Tensor]


def unfilled(make: Callable[..., Module], *args: Any) -> Module:
    """Return a module with uninitialised memory, to be filled from a checkpoint; no random weights are drawn."""
    with torch.device("meta"):
        module = make(*args)
    return module.to_empty(device="cpu")


class Named(nn.Module):
    """Exposes tensors of other modules under a checkpoint's names; loading into this module fills those tensors."""

    def __init__(self, tensors: Tensors) -> None:
        super().__init__()
        self.register_state_dict_post_hook(  # type: ignore[no-untyped-call]
            lambda module, state, prefix, metadata: state.update(tensors)
        )


def build_vit(
    shape: ViTShape, state: Mapping[str, torch.Tensor], hash_name: str, file: str, *, ignore: Iterable[str] = ()
) -> ViT:
    """Return a DINO-family transformer with the weights in ``state``; positions are resized to the shape's grid."""
    positions = state.get("pos_embed")
    if positions is not None and shape.stored_grid is not None:
        expected = (1, 1 + shape.stored_grid**2, shape.width)
        if tuple(positions.shape) != expected:
            found = f"wrong shapes: pos_embed {tuple(positions.shape)} instead of {expected}"
            raise weights_error(hash_name, file, f"not the weights of this model; {found}")
        state = {**state, "pos_embed": resized_positions(positions, shape.grid)}
    vit = unfilled(ViT, shape)
    load_strict(vit, state, hash_name, file, ignore=ignore)
    return vit


def resized_positions(embedding: torch.Tensor, grid: int, *, antialias: bool = True) -> torch.Tensor:
    """Return a position embedding ``(1, 1 + n * n, width)`` resized to ``grid`` x ``grid`` patches.

    Bicubic with antialias, as in DINOv2 with registers; the authors' ONNX export of DINOHash has no antialias.
    """
    side = round((embedding.shape[1] - 1) ** 0.5)
    patches = embedding[:, 1:].float().reshape(1, side, side, -1).permute(0, 3, 1, 2)
    patches = F.interpolate(patches, size=(grid, grid), mode="bicubic", antialias=antialias)
    return torch.cat([embedding[:, :1].float(), patches.flatten(2).transpose(1, 2)], 1)


def backbone_of(state: Mapping[str, torch.Tensor], prefix: str = "backbone.") -> Tensors:
    """Return the backbone of a training checkpoint: without heads and wrappers, blocks numbered consecutively.

    DINOv2 saves its blocks in chunks, ``blocks.<chunk>.<block>``; <block> is already consecutive over all chunks.
    """
    found = {}
    for key, value in state.items():
        for wrapper in WRAPPERS:
            key = key.replace(wrapper, "")
        if key.startswith(prefix):
            found[re.sub(r"^blocks\.\d+\.(?=\d+\.)", "blocks.", key.removeprefix(prefix))] = value
    return found


def google_names(vit: ViT, prefix: str) -> Tensors:
    """Return the weights of ``vit`` under the names of the PyTorch port of Google's ViT (separate q, k and v)."""
    own = vit.state_dict()
    named = {
        f"{prefix}embeddings.cls_token": own["cls_token"],
        f"{prefix}embeddings.position_embeddings": own["pos_embed"],
    }
    for kind in ("weight", "bias"):
        for theirs, ours in GOOGLE_REST.items():
            named[f"{prefix}{theirs}.{kind}"] = own[f"{ours}.{kind}"]
        for i in range(len(vit.blocks)):
            layer = f"{prefix}encoder.layer.{i}"
            for theirs, ours in GOOGLE_BLOCK.items():
                named[f"{layer}.{theirs}.{kind}"] = own[f"blocks.{i}.{ours}.{kind}"]
            parts = own[f"blocks.{i}.attn.qkv.{kind}"].chunk(3)
            for name, part in zip(("query", "key", "value"), parts, strict=True):
                named[f"{layer}.attn.{name}.{kind}"] = part
    return named
