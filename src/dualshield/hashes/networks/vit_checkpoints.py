"""Checkpoints of vision transformers: what their authors call things, and positions of another image size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import nn

from dualshield.hashes.networks.vit import ViT, ViTShape
from dualshield.weights.checkpoint import load_strict, weights_error

# torch.compile and data parallelism put these before the names of what they wrap.
WRAPPERS = ("_orig_mod.", "module.")
# Google's names of what a block is made of, and ours; q, k and v are one layer here.
GOOGLE_BLOCK = {"attention_norm": "norm1", "attn.out": "attn.proj", "ffn_norm": "norm2", "ffn.fc1": "mlp.fc1",
                "ffn.fc2": "mlp.fc2"}  # fmt: skip
GOOGLE_REST = {"embeddings.patch_embeddings": "patch_embed.proj", "encoder.encoder_norm": "norm"}

Module = TypeVar("Module", bound=nn.Module)
Tensors = dict[str, torch.Tensor]


def unfilled(make: Callable[..., Module], *args: Any) -> Module:
    """A module whose memory is to be filled from a checkpoint; no weight is ever drawn at random."""
    with torch.device("meta"):
        module = make(*args)
    return module.to_empty(device="cpu")


class Named(nn.Module):
    """Tensors of other modules under the names of a checkpoint: what is loaded into it is loaded into them."""

    def __init__(self, tensors: Tensors) -> None:
        super().__init__()
        self.register_state_dict_post_hook(  # type: ignore[no-untyped-call]
            lambda module, state, prefix, metadata: state.update(tensors)
        )


def build_vit(
    shape: ViTShape, state: Mapping[str, torch.Tensor], hash_name: str, file: str, *, ignore: Iterable[str] = ()
) -> ViT:
    """A transformer of the DINO family with the weights in ``state``, its positions brought to the shape's grid."""
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
    """A position embedding ``(1, 1 + n * n, width)`` for ``grid`` x ``grid`` patches; the class token keeps its own.

    Bicubic with antialias, as DINOv2 with registers does it; the authors exported DINOHash to ONNX without.
    """
    side = round((embedding.shape[1] - 1) ** 0.5)
    patches = embedding[:, 1:].float().reshape(1, side, side, -1).permute(0, 3, 1, 2)
    patches = F.interpolate(patches, size=(grid, grid), mode="bicubic", antialias=antialias)
    return torch.cat([embedding[:, :1].float(), patches.flatten(2).transpose(1, 2)], 1)


def backbone_of(state: Mapping[str, torch.Tensor], prefix: str = "backbone.") -> Tensors:
    """The backbone in a training checkpoint: without the heads, without wrappers, blocks numbered through.

    DINOv2 saves its blocks in chunks, ``blocks.<chunk>.<block>``, where <block> counts through all chunks already.
    """
    found = {}
    for key, value in state.items():
        for wrapper in WRAPPERS:
            key = key.replace(wrapper, "")
        if key.startswith(prefix):
            found[re.sub(r"^blocks\.\d+\.(?=\d+\.)", "blocks.", key.removeprefix(prefix))] = value
    return found


def google_names(vit: ViT, prefix: str) -> Tensors:
    """The weights of ``vit`` under the names of the PyTorch port of Google's ViT, which keeps q, k and v apart."""
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
