"""Synthetic checkpoints of the transformer hashes: the authors' names and shapes, written down by hand, random numbers.

The layouts here do not come from our modules, so a module that calls something by another name fails.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import pytest
import torch

from dualshield._common.folders import weights_folder
from dualshield.errors import WeightsError
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.hashes.import_weights import import_weights
from dualshield.hashes.networks.nest import NestShape
from dualshield.hashes.networks.vit import ViTShape

Layout = dict[str, tuple[int, ...]]
State = dict[str, torch.Tensor]


def linear(name: str, inside: int, outside: int, *, bias: bool = True) -> Layout:
    return {f"{name}.weight": (outside, inside)} | ({f"{name}.bias": (outside,)} if bias else {})


def norm(name: str, width: int) -> Layout:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def conv(name: str, inside: int, outside: int, kernel: tuple[int, int], *, bias: bool = True) -> Layout:
    return {f"{name}.weight": (outside, inside, *kernel)} | ({f"{name}.bias": (outside,)} if bias else {})


def dino_layout(shape: ViTShape) -> Layout:
    """A state_dict of DINO, or of DINOv2 if it has LayerScale."""
    w = shape.width
    grid = shape.stored_grid or shape.side // shape.patch
    layout: Layout = {"cls_token": (1, 1, w), "pos_embed": (1, 1 + grid * grid, w)}
    if shape.registers:
        layout["register_tokens"] = (1, shape.registers, w)
    if shape.layer_scale:
        layout["mask_token"] = (1, w)
    layout |= conv("patch_embed.proj", 3, w, (shape.patch, shape.patch))
    for i in range(shape.depth):
        block = f"blocks.{i}"
        layout |= norm(f"{block}.norm1", w) | linear(f"{block}.attn.qkv", w, 3 * w) | linear(f"{block}.attn.proj", w, w)
        layout |= (
            norm(f"{block}.norm2", w) | linear(f"{block}.mlp.fc1", w, 4 * w) | linear(f"{block}.mlp.fc2", 4 * w, w)
        )
        if shape.layer_scale:
            layout |= {f"{block}.ls1.gamma": (w,), f"{block}.ls2.gamma": (w,)}
    return layout | norm("norm", w)


def google_layout(shape: ViTShape, prefix: str, classes: int = 1000) -> Layout:
    """A state_dict of the PyTorch port of Google's ViT."""
    w, body = shape.width, f"{prefix}transformer"
    layout: Layout = {
        f"{body}.embeddings.position_embeddings": (1, 1 + shape.grid**2, w),
        f"{body}.embeddings.cls_token": (1, 1, w),
    }
    layout |= conv(f"{body}.embeddings.patch_embeddings", 3, w, (shape.patch, shape.patch))
    for i in range(shape.depth):
        layer = f"{body}.encoder.layer.{i}"
        layout |= norm(f"{layer}.attention_norm", w) | norm(f"{layer}.ffn_norm", w)
        layout |= linear(f"{layer}.ffn.fc1", w, 4 * w) | linear(f"{layer}.ffn.fc2", 4 * w, w)
        for part in ("query", "key", "value", "out"):
            layout |= linear(f"{layer}.attn.{part}", w, w)
    return layout | norm(f"{body}.encoder.encoder_norm", w) | linear(f"{prefix}head", w, classes)


def vit2hash_layout(shape: ViTShape, bits: int) -> Layout:
    """The full state_dict that the authors save."""
    layout = google_layout(shape, "teacher.") | google_layout(shape, "vit.") | linear("encoder", shape.width, bits)
    layout |= norm("hash_norm", bits)
    return layout | {"hash_norm.running_mean": (bits,), "hash_norm.running_var": (bits,)}


def hybridhash_layout(shape: NestShape, bits: int) -> Layout:
    """The state_dict of the authors' HybridHash, as of the version that still makes FcLayer."""
    layout = conv("patch_embed.proj", 3, shape.widths[0], (4, 4))
    for i, (w, depth, blocks) in enumerate(zip(shape.widths, shape.depths, (16, 4, 1), strict=True)):
        level = f"levels.{i}"
        layout[f"{level}.pos_embed"] = (1, blocks, 196, w)
        if i:
            before = shape.widths[i - 1]
            layout |= conv(f"{level}.pool.conv", before, w, (3, 3))
            layout |= conv(f"{level}.pool.conv_glo", before, w, (1, 1), bias=False)
            layout |= _interaction(f"{level}.pool.global_attention", w, 4 * blocks) | norm(f"{level}.pool.norm", w)
        for j in range(depth):
            layer = f"{level}.transformer_encoder.{j}"
            layout |= norm(f"{layer}.norm1", w) | linear(f"{layer}.attn.qkv", w, 3 * w)
            layout |= linear(f"{layer}.attn.proj", w, w) | norm(f"{layer}.norm2", w)
            layout |= linear(f"{layer}.mlp.fc1", w, 4 * w) | linear(f"{layer}.mlp.fc2", 4 * w, w)
    last = shape.widths[-1]
    layout |= norm("norm", last) | conv("hashlayer_train.convS1", last, last, (1, 3))
    layout |= conv("hashlayer_train.convS2", last, last, (3, 1))
    layout |= _interaction("hashlayer_train.global_attention", last, 1)
    return layout | conv("hashlayer_train.conv2", last, bits, (1, 1)) | linear("FcLayer", last, bits)


def _interaction(name: str, width: int, tokens: int) -> Layout:
    layout: Layout = {f"{name}.pos_embed_glo": (1, tokens, width)}
    return layout | linear(f"{name}.qkv", width, 3 * width, bias=False) | linear(f"{name}.proj", width, width)


def parameters(layout: Layout) -> int:
    return sum(math.prod(shape) for shape in layout.values())


def zeros(layout: Layout) -> State:
    """As large as the real thing in shape, and next to nothing in memory."""
    return {key: torch.zeros(1).expand(shape) for key, shape in layout.items()}


def synthetic(layout: Layout, seed: int = 0, scale: float = 1.0) -> State:
    """Random numbers such that signals neither vanish nor explode: norms near 1, weights by what they sum over."""
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for key, shape in layout.items():
        noise = torch.randn(shape, generator=generator)
        if key.endswith("weight") and len(shape) > 1:
            state[key] = noise * scale * math.prod(shape[1:]) ** -0.5
        elif key.endswith(("weight", "gamma", "running_var")):
            state[key] = 1 + 0.3 * noise
        else:
            state[key] = 0.3 * noise
    return state


@contextmanager
def imported(**files: Any) -> Iterator[Path]:
    """A folder of weights with these synthetic files in it: ``name_of_weights=content``, as torch saves it or bytes."""
    with TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DUALSHIELD_WEIGHTS", str(Path(home) / "weights"))
        for name, content in files.items():
            keep(name.replace("_", "-"), content, Path(home))
        yield weights_folder()


def keep(name: str, content: Any, where: Path) -> None:
    """Write ``content`` to a file and import it as the weights ``name``."""
    file = where / "synthetic.bin"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        torch.save(content, file)
    import_weights(name, file)


@dataclass(frozen=True)
class Small:
    """A hash of the zoo whose network is of another shape than the authors', small enough for tests."""

    name: str
    module: ModuleType
    shape: NestShape | ViTShape

    def build(self, state: State) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.module, "SHAPE", self.shape)
            return self.module.build(state, "synthetic.pt")

    def load(self, state: State) -> PerceptualHash:
        """By way of the store."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.module, "SHAPE", self.shape)
            with imported(**{self.name: state}):
                return get_hash(self.name)

    def refuses(self, state: State, match: str) -> None:
        with pytest.raises(WeightsError, match=match) as caught:
            self.load(state)
        assert str(caught.value).startswith(f"hash {self.name}: synthetic.bin: ")
