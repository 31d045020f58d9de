"""The vision transformer and its checkpoints, against a second implementation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dualshield.errors import WeightsError
from dualshield.hashes.networks.vit import ViT, ViTShape
from dualshield.hashes.networks.vit_checkpoints import (
    Named,
    backbone_of,
    build_vit,
    google_names,
    resized_positions,
    unfilled,
)
from dualshield.weights import load_strict
from tests.helpers import reference_transformers as reference
from tests.helpers.synthetic_transformers import dino_layout, google_layout, synthetic

SHAPES = {
    "DINO": ViTShape(128, 2, 16, side=48),
    "DINOv2": ViTShape(128, 2, 14, side=42, registers=4, layer_scale=True, stored_grid=7),
    "without registers": ViTShape(64, 1, 16, side=32, layer_scale=True),
}


def images(shape: ViTShape, count: int = 2) -> torch.Tensor:
    return torch.randn(count, 3, shape.side, shape.side, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("name", SHAPES)
def test_features(name: str) -> None:
    shape = SHAPES[name]
    state = synthetic(dino_layout(shape))
    vit = build_vit(shape, state, "x", "synthetic.pth", ignore=["mask_token"])
    batch, numbers = images(shape), reference.arrays(state)
    positions = numbers["pos_embed"][0]
    if shape.stored_grid is not None:
        positions = reference.resized_positions(positions, shape.grid)
    expected = [reference.vit(numbers, image.double().numpy(), positions, shape.patch) for image in batch]
    with torch.no_grad():
        np.testing.assert_allclose(vit(batch).numpy(), np.array(expected), atol=2e-5)


def test_features_of_googles_names() -> None:
    shape = SHAPES["DINO"]
    state = synthetic(google_layout(shape, "vit."))
    vit = unfilled(ViT, shape)
    load_strict(Named(google_names(vit, "vit.transformer.")), state, "x", "synthetic.pt", ignore=["vit.head."])
    numbers = reference.arrays({key.removeprefix("vit.transformer."): value for key, value in state.items()})
    pairs = {"norm1": "attention_norm", "norm2": "ffn_norm", "mlp.fc1": "ffn.fc1", "mlp.fc2": "ffn.fc2"}
    renamed = {"cls_token": numbers["embeddings.cls_token"]}
    for kind in ("weight", "bias"):
        renamed[f"patch_embed.proj.{kind}"] = numbers[f"embeddings.patch_embeddings.{kind}"]
        renamed[f"norm.{kind}"] = numbers[f"encoder.encoder_norm.{kind}"]
        for i in range(shape.depth):
            theirs = {part: numbers[f"encoder.layer.{i}.{part}.{kind}"] for part in pairs.values()}
            renamed |= {f"blocks.{i}.{ours}.{kind}": theirs[part] for ours, part in pairs.items()}
            parts = [numbers[f"encoder.layer.{i}.attn.{part}.{kind}"] for part in ("query", "key", "value")]
            renamed[f"blocks.{i}.attn.qkv.{kind}"] = np.concatenate(parts)
            renamed[f"blocks.{i}.attn.proj.{kind}"] = numbers[f"encoder.layer.{i}.attn.out.{kind}"]
    batch, positions = images(shape), numbers["embeddings.position_embeddings"][0]
    expected = [reference.vit(renamed, image.double().numpy(), positions, shape.patch) for image in batch]
    with torch.no_grad():
        np.testing.assert_allclose(vit(batch).numpy(), np.array(expected), atol=2e-5)


def test_positions_of_dinov2() -> None:
    """37 x 37 to 16 x 16, which shrinks: with and without antialias are far apart."""
    embedding = torch.randn(1, 1 + 37 * 37, 8, generator=torch.Generator().manual_seed(1))
    resized = resized_positions(embedding, 16)
    expected = reference.resized_positions(embedding[0].double().numpy(), 16)
    assert resized.shape == (1, 257, 8)
    np.testing.assert_allclose(resized[0].numpy(), expected, atol=1e-5)
    assert torch.equal(resized[:, 0], embedding[:, 0])
    aliased = resized_positions(embedding, 16, antialias=False)
    assert float((aliased - resized).abs().max()) > 0.5
    # Bicubic without antialias looks at four neighbours with a = -3/4, around ((i + 1/2) 37/16 - 1/2).
    at = (5 + 0.5) * 37 / 16 - 0.5
    near, part = int(at), at - int(at)
    weights = []
    for distance in (1 + part, part, 1 - part, 2 - part):
        a, d = -0.75, distance
        inner, outer = (a + 2) * d**3 - (a + 3) * d**2 + 1, a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
        weights.append(inner if d <= 1 else outer)
    square = embedding[0, 1:].double().reshape(37, 37, 8)[near - 1 : near + 3, near - 1 : near + 3]
    w = torch.tensor(weights, dtype=torch.float64)
    torch.testing.assert_close(
        aliased[0, 1 + 5 * 16 + 5].double(), torch.einsum("i,j,ijc->c", w, w, square), atol=1e-5, rtol=0
    )


def test_backbone_of_a_training_checkpoint() -> None:
    """Twelve blocks in four chunks, whose inner number counts through; heads and wrappers go."""
    one = torch.ones(1)
    state = {f"backbone.blocks.{i // 3}.{i}.norm1.weight": one * i for i in range(12)}
    state |= {"backbone.cls_token": one, "dino_head.mlp.0.weight": one, "ibot_head.mlp.0.weight": one}
    found = backbone_of(state)
    assert set(found) == {f"blocks.{i}.norm1.weight" for i in range(12)} | {"cls_token"}
    assert all(int(found[f"blocks.{i}.norm1.weight"]) == i for i in range(12))
    flat = {"_orig_mod.backbone.blocks.10.norm1.weight": one, "module.backbone.norm.bias": one, "head.mlp.0.bias": one}
    assert set(backbone_of(flat)) == {"blocks.10.norm1.weight", "norm.bias"}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"pos_embed": torch.zeros(1, 50, 64)}, r"pos_embed \(1, 50, 64\) instead of \(1, 50, 128\)"),
        ({"pos_embed": torch.zeros(1, 10, 128)}, r"pos_embed \(1, 10, 128\) instead of \(1, 50, 128\)"),
        ({"pos_embed": torch.zeros(50)}, r"pos_embed \(50,\)"),
        ({"pos_embed": None}, "missing keys: pos_embed$"),
        ({"blocks.1.ls2.gamma": None}, "missing keys: blocks.1.ls2.gamma$"),
        ({"register_tokens": torch.zeros(1, 3, 128)}, "register_tokens"),
        ({"blocks.2.norm1.weight": torch.zeros(128)}, "unexpected keys: blocks.2.norm1.weight$"),
        ({"patch_embed.proj.weight": torch.zeros(128, 3, 16, 16)}, "patch_embed.proj.weight"),
    ],
)
def test_other_networks_are_refused(change: dict[str, torch.Tensor | None], match: str) -> None:
    shape = SHAPES["DINOv2"]
    state = {**synthetic(dino_layout(shape)), **change}
    given = {key: value for key, value in state.items() if value is not None}
    with pytest.raises(WeightsError, match=match) as caught:
        build_vit(shape, given, "x", "synthetic.pth", ignore=["mask_token"])
    assert "synthetic.pth" in str(caught.value)


def test_googles_names_are_strict() -> None:
    shape = SHAPES["DINO"]
    state = synthetic(google_layout(shape, ""))
    for key in ("transformer.encoder.layer.1.attn.value.bias", "transformer.embeddings.cls_token"):
        names = Named(google_names(unfilled(ViT, shape), "transformer."))
        with pytest.raises(WeightsError, match=f"missing keys: {key}$"):
            load_strict(names, {k: v for k, v in state.items() if k != key}, "x", "f", ignore=["head."])
